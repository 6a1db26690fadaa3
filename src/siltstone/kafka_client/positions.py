"""Parses positions in a partition as people write them (``earliest``, ``latest``, an offset, a time), and resolves them
to offsets.

A time is ``2013-07-01``, ``2013-07-01T12:30`` (UTC, unless a zone is written: ``…Z``, ``…+02:00``), ``10min`` or
``2h ago`` (before now), or ``@1372636800000`` (milliseconds since 1970).

``parse_position`` and ``parse_time_ms`` are pure. ``resolve`` asks the broker and turns a position into an offset of
each partition, never outside the partition.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import Enum

import msgspec

from siltstone.foundation.milliseconds import first_ms_at_or_after
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.offsets import NO_OFFSET, Ends, ends_of, offsets_at
from siltstone.model.errors import InvalidRequest

_DURATION = re.compile(r"(\d+) ?(ms|s|min|h|d)(?: ago)?")
_UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_OFFSET_MAX = 2**63 - 1

_SYNONYMS = {"beginning": "earliest", "start": "earliest", "end": "latest"}
"""The words of kcat and rpk."""


class NoPosition(InvalidRequest):
    """The text is not a position in a partition."""


class Anchor(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"


class Position(msgspec.Struct, frozen=True):
    """``value``: the offset of OFFSET, the time of TIME in ms since 1970; unused for EARLIEST and LATEST."""

    anchor: Anchor
    value: int = -1


def parse_position(text: str, option: str, now_ms: int) -> Position:
    """Parses the value of ``option``. Raises NoPosition."""
    word = text.strip().lower()
    word = _SYNONYMS.get(word, word)
    if word in (Anchor.EARLIEST.value, Anchor.LATEST.value):
        return Position(Anchor(word))
    if word.isascii() and word.isdigit():
        return Position(Anchor.OFFSET, _at_most(int(word), _OFFSET_MAX, text, option))
    time_ms = _time_ms(word, now_ms)
    if time_ms is None:
        raise NoPosition(
            f"{option} {text!r}: write earliest, latest, an offset, or a time such as 2013-07-01T12:30 or 10min"
        )
    return Position(Anchor.TIME, time_ms)


def parse_time_ms(text: str, option: str, now_ms: int) -> int:
    """Parses the value of ``option`` into ms since 1970. Raises NoPosition."""
    time_ms = _time_ms(text.strip().lower(), now_ms)
    if time_ms is None:
        raise NoPosition(
            f"{option} {text!r}: write a time such as 2013-07-01T12:30, 2h ago or @1372636800000"
        )
    return time_ms


def _at_most(number: int, largest: int, text: str, option: str) -> int:
    if number > largest:
        raise NoPosition(f"{option} {text!r}: an offset is at most {largest}")
    return number


def _time_ms(word: str, now_ms: int) -> int | None:
    if match := _DURATION.fullmatch(word):
        return max(0, now_ms - int(match[1]) * _UNITS_MS[match[2]])
    if word.startswith("@") and word[1:].isascii() and word[1:].isdigit():
        return min(int(word[1:]), _OFFSET_MAX)
    if word.isdigit():
        return None  # 20130701 is a date in ISO 8601, too, but is more likely an offset typed by mistake
    try:
        parsed = datetime.fromisoformat(word.upper())
    except ValueError:
        return None
    moment = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
    return max(0, first_ms_at_or_after(moment))


class Resolved(msgspec.Struct, frozen=True):
    """The offset of a position in one partition, and the ends of that partition."""

    offset: int
    ends: Ends


def resolve(
    cluster: Cluster, partitions: Iterable[TopicPartition], position: Position
) -> dict[TopicPartition, Resolved]:
    """Returns the offset of ``position`` in each partition. An offset out of range is clamped to the nearer end; a time
    after the last record resolves to the end. Raises KafkaRefusal, KafkaNotReady."""
    ends = ends_of(cluster, partitions)
    match position.anchor:
        case Anchor.EARLIEST:
            wanted = {key: found.start_offset for key, found in ends.items()}
        case Anchor.LATEST:
            wanted = {key: found.end_offset for key, found in ends.items()}
        case Anchor.OFFSET:
            wanted = dict.fromkeys(ends, position.value)
        case Anchor.TIME:
            wanted = _at_time(cluster, ends, position.value)
    return {
        key: Resolved(min(max(wanted[key], found.start_offset), found.end_offset), found)
        for key, found in ends.items()
    }


def _at_time(cluster: Cluster, ends: dict[TopicPartition, Ends], time_ms: int) -> dict[TopicPartition, int]:
    return {
        key: ends[key].end_offset if found.offset == NO_OFFSET else found.offset
        for key, found in offsets_at(cluster, ends, time_ms).items()
    }
