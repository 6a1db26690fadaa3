"""Parses and checks the values of configurations: types, rules, and refusals in Kafka's words.

Clients send a value as text. ``parse`` makes a Python value of it, and ``written`` the canonical text, which is stored
and reported: ``" compact , delete"`` becomes ``compact,delete``, ``TRUE`` becomes ``true``.
"""

import re
from collections.abc import Callable
from enum import IntEnum
from typing import TypeAlias

from siltstone.model.errors import InvalidRequest

Value: TypeAlias = bool | int | float | str | tuple[str, ...]
Rule: TypeAlias = Callable[[str, Value], None]
"""Checks a parsed value, given the configuration's name and the value. Raises InvalidTopicConfig."""


class InvalidTopicConfig(InvalidRequest):
    """There is no topic configuration of that name, or it cannot have that value."""


class ConfigType(IntEnum):
    """The type of a configuration, with its number in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def parse(name: str, kind: ConfigType, text: str) -> Value:
    """Parses a text into its value. Raises InvalidTopicConfig."""
    text = text.strip()
    match kind:
        case ConfigType.BOOLEAN:
            return _boolean(name, text)
        case ConfigType.STRING:
            return text
        case ConfigType.INT:
            return _integer(name, kind, text, INT_MAX)
        case ConfigType.LONG:
            return _integer(name, kind, text, LONG_MAX)
        case ConfigType.DOUBLE:
            return _double(name, text)
        case ConfigType.LIST:
            return _list(text)


def written(value: Value) -> str:
    """Returns the canonical text of a value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def refused(name: str, value: Value, why: str) -> InvalidTopicConfig:
    return InvalidTopicConfig(f"Invalid value {_shown(value)} for configuration {name}: {why}")


def _shown(value: Value) -> str:
    """Returns the value's text, cut to 200 characters, since a client may have sent a megabyte by mistake."""
    text = written(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise refused(name, text, "Expected value to be either true or false")
    return text.lower() == "true"


def _integer(name: str, kind: ConfigType, text: str, maximum: int) -> int:
    """Parses an integer. Twenty characters hold every sign and 64-bit number; longer texts are refused before they are
    converted."""
    if _INTEGER.fullmatch(text) and len(text) <= 20 and -maximum - 1 <= int(text) <= maximum:
        return int(text)
    raise refused(name, text, f"Not a number of type {kind.name}")


def _double(name: str, text: str) -> float:
    if not _DECIMAL.fullmatch(text):
        raise refused(name, text, "Not a number of type DOUBLE")
    return float(text)


def _list(text: str) -> tuple[str, ...]:
    """Returns the items of a list in their order, without repetitions."""
    return tuple(dict.fromkeys(list_items(text))) if text else ()


def list_items(text: str) -> list[str]:
    """Returns the items of a list as they are written. A comma in brackets is a part of its item: ``bucket(key,16)``,
    ``at struct<lat: double, lon: double>``."""
    items, begin, depth = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "(<":
            depth += 1
        elif letter in ")>":
            depth = max(0, depth - 1)
        elif letter == "," and not depth:
            items.append(text[begin:at].strip())
            begin = at + 1
    return [*items, text[begin:].strip()]


# -- rules -----------------------------------------------------------------------------------------------


def anything(_name: str, _value: Value) -> None:
    return None


def at_least(minimum: int) -> Rule:
    def check(name: str, value: Value) -> None:
        if _number(value) < minimum:
            raise refused(name, value, f"Value must be at least {minimum}")

    return check


def between(minimum: int, maximum: int) -> Rule:
    from_below = at_least(minimum)

    def check(name: str, value: Value) -> None:
        from_below(name, value)
        if _number(value) > maximum:
            raise refused(name, value, f"Value must be no more than {maximum}")

    return check


def between_or(minimum: int, maximum: int, other: int) -> Rule:
    def check(name: str, value: Value) -> None:
        if value != other and not minimum <= _number(value) <= maximum:
            why = f"Value must be between {minimum} and {maximum} or equal to {other}"
            raise refused(name, value, why)

    return check


def nothing_empty(name: str, value: Value) -> None:
    """Checks the rule that no item of a list is empty."""
    assert isinstance(value, tuple)
    if not all(value):
        raise InvalidTopicConfig(f"Configuration '{name}' values must not be empty.")


def one_of(*allowed: str) -> Rule:
    def check(name: str, value: Value) -> None:
        if isinstance(value, tuple):
            nothing_empty(name, value)
        for item in value if isinstance(value, tuple) else (value,):
            if item not in allowed:
                raise refused(name, str(item), f"String must be one of: {', '.join(allowed)}")

    return check


_REPLICA = re.compile(r"\d+:\d+")


def throttled_replicas(name: str, value: Value) -> None:
    assert isinstance(value, tuple)
    if value != ("*",) and not all(map(_REPLICA.fullmatch, value)):
        pairs = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        why = f"{name} must be the literal '*' or a list of replicas in the following format: {pairs}"
        raise refused(name, value, why)


def _number(value: Value) -> int | float:
    assert isinstance(value, int | float)
    return value
