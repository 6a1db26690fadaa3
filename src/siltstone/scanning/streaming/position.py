"""Defines how far a streaming query has read, and the form of that in Spark's checkpoint.

The form is JSON, which people read in the checkpoint's folder:

    {"store": "<store id>", "t": {"<topic id>": {"n": "flights", "p": {"0": 120, "1": 7}}}, "v": 1}

``n`` is the topic's name, for people and errors; ``p`` has the next offset of each partition. Spark compares positions
as texts, and a position with its keys in another order would be a new micro-batch, so the order is fixed: topics by id,
partitions by number.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from siltstone.scanning.streaming.failures import PositionUnknown

POSITION_VERSION = 1

StreamKey = tuple[str, int]
"""Topic id and partition number."""


class StreamPosition(msgspec.Struct, frozen=True):
    """``names`` has the name of each topic id, ``offsets`` the next offset of each partition."""

    store_id: str
    names: Mapping[str, str] = {}
    offsets: Mapping[StreamKey, int] = {}

    def partition_name(self, key: StreamKey) -> str:
        return f"{self.names.get(key[0], key[0])}-{key[1]}"


class _Topic(msgspec.Struct):
    n: str
    p: dict[int, int]


class _Form(msgspec.Struct):
    v: int
    store: str
    t: dict[str, _Topic]


def encode_position(position: StreamPosition) -> dict[str, Any]:
    """Returns the position as dicts of primitive values, in the fixed order."""
    topics: dict[str, dict[str, Any]] = {}
    for (topic_id, number), offset in sorted(position.offsets.items()):
        topic = topics.setdefault(topic_id, {"n": position.names[topic_id], "p": {}})
        topic["p"][str(number)] = offset
    return {"store": position.store_id, "t": topics, "v": POSITION_VERSION}


def decode_position(form: Mapping[str, Any]) -> StreamPosition:
    """Raises PositionUnknown for a position of another data source or of another version."""
    if _is_of_kafka_source(form):
        raise PositionUnknown(
            "the checkpoint has offsets that Spark's Kafka source wrote: begin with a new one, and give them as option"
            f" startingOffsets, {msgspec.json.encode(form).decode()}"
        )
    if form.get("v") != POSITION_VERSION:
        raise PositionUnknown(
            f"the checkpoint has offsets that this version of siltstone did not write (version {form.get('v')!r}, not"
            f" {POSITION_VERSION}): begin with a new checkpoint, or use the version that wrote them"
        )
    try:
        found = msgspec.convert(form, _Form, strict=False)
    except msgspec.ValidationError as cause:
        raise PositionUnknown(f"the checkpoint has offsets that are damaged: {cause}") from cause
    return StreamPosition(
        found.store,
        {topic_id: topic.n for topic_id, topic in found.t.items()},
        dict(_offsets(found.t)),
    )


def _is_of_kafka_source(form: Mapping[str, Any]) -> bool:
    """Whether the form is ``{"topic": {"0": 50}}``."""
    return bool(form) and all(
        isinstance(numbers, Mapping)
        and bool(numbers)
        and all(str(number).isdecimal() and isinstance(offset, int) for number, offset in numbers.items())
        for numbers in form.values()
    )


def _offsets(topics: Mapping[str, _Topic]) -> Iterator[tuple[StreamKey, int]]:
    for topic_id, topic in topics.items():
        for number, offset in topic.p.items():
            yield (topic_id, number), offset
