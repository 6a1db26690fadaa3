"""What a topic may be called: Kafka's rules, because Kafka's clients and tools rely on them. Pure."""

import re
from collections.abc import Iterable

from siltstone.model.limits import TOPIC_NAME_CHARACTERS_MAX

_LEGAL = re.compile(rf"[a-zA-Z0-9._-]{{1,{TOPIC_NAME_CHARACTERS_MAX}}}")


def is_topic_name(name: str) -> bool:
    return _LEGAL.fullmatch(name) is not None and name not in (".", "..")


def colliding_name(name: str, standing: Iterable[str]) -> str | None:
    """The first of the standing names that is the same once ``.`` and ``_`` are: metrics write both as ``_``."""
    unified = _unified(name)
    if unified == name and "_" not in name:
        return None  # nothing but itself is the same
    return next((other for other in standing if _unified(other) == unified), None)


def _unified(name: str) -> str:
    return name.replace(".", "_")
