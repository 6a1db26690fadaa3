"""``name=value`` as typed for configurations. Pure."""

from collections.abc import Iterable

from siltstone.model.errors import InvalidRequest


class NoAssignment(InvalidRequest):
    """What should be NAME=VALUE is not."""


def parse_assignments(texts: Iterable[str], option: str) -> dict[str, str]:
    """Raises NoAssignment."""
    assigned: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise NoAssignment(f"{option} {text!r}: write NAME=VALUE, such as retention.ms=86400000")
        assigned[name.strip()] = value.strip()
    return assigned
