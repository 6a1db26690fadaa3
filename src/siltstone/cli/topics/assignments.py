"""``name=value`` as typed for configurations: ``retention.ms=7d`` means what it means in settings. Pure."""

from collections.abc import Iterable

from siltstone.model.errors import InvalidRequest
from siltstone.server.setting_values import topic_config_text


class NoAssignment(InvalidRequest):
    """What should be NAME=VALUE is not."""


def parse_assignments(texts: Iterable[str], option: str) -> dict[str, str]:
    """Raises NoAssignment."""
    assigned: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise NoAssignment(f"{option} {text!r}: write NAME=VALUE, such as retention.ms=7d")
        assigned[name.strip()] = topic_config_text(name.strip(), value.strip())
    return assigned
