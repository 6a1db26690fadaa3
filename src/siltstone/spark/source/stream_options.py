"""The options of ``spark.readStream.format("siltstone")``: the options of the batch reader, but for where it ends, and
how much one micro-batch reads. Names and meanings are those of Spark's connector for Kafka; ``pollInterval`` and
``maxBytesPerTrigger`` are ours."""

from collections.abc import Mapping

import msgspec

from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.request import EARLIEST, LATEST, Bound, BoundKind, Bounds, lease_ms_of
from siltstone.scanning.streaming.advancing import BatchLimit, LimitKind
from siltstone.scanning.streaming.topic_stream import (
    POLL_INTERVAL_MS,
    TRIGGER_DELAY_MS_MAX,
    StreamRequest,
)
from siltstone.spark.source.options import STREAM_OPTIONS, SourceRequest, parse_options

_STREAM_NAMES = {name.lower(): name for name in STREAM_OPTIONS}
_ENDS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_TIMES = ("startingtimestamp", "startingoffsetsbytimestamp")


class StreamSourceRequest(msgspec.Struct, frozen=True):
    """``source`` names the store; ``limit`` is that of each micro-batch."""

    source: SourceRequest
    stream: StreamRequest
    limit: BatchLimit


def parse_stream_options(given: Mapping[str, str]) -> StreamSourceRequest:
    """Raises ScanRefused or ColumnUnknown with a text that names the option."""
    own = {_STREAM_NAMES[name.lower()]: text for name, text in given.items() if name.lower() in _STREAM_NAMES}
    shared = {name: text for name, text in given.items() if name.lower() not in _STREAM_NAMES}
    for name in _ENDS:
        if name.lower() in {each.lower() for each in shared}:
            raise ScanRefused(
                f"option {name} is not allowed: a streaming read has no end; trigger(availableNow) has"
            )
    starting = next((text for name, text in shared.items() if name.lower() == "startingoffsets"), "latest")
    source = parse_options({name: text for name, text in shared.items() if name.lower() != "startingoffsets"})
    if not any(name.lower() in _TIMES for name in shared):
        request = msgspec.structs.replace(source.request, start=_start(starting.strip()))
        source = msgspec.structs.replace(source, request=request)
    stream = StreamRequest(
        source.request,
        _number(own, "minOffsetsPerTrigger", 0),
        _duration_ms(own, "maxTriggerDelay", TRIGGER_DELAY_MS_MAX),
        own.get("groupId"),
        _duration_ms(own, "pollInterval", POLL_INTERVAL_MS),
    )
    return StreamSourceRequest(source, stream, _limit(own))


def without_stream_options(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the options that a batch read would accept. They say which columns there are: Spark asks
    for the schema before it says whether it reads a batch or a stream."""
    ends = {name.lower() for name in _ENDS}
    return {
        name: text
        for name, text in given.items()
        if name.lower() not in _STREAM_NAMES
        and name.lower() not in ends
        and name.lower() != "startingoffsets"
    }


def _limit(own: Mapping[str, str]) -> BatchLimit:
    offsets, size = _number(own, "maxOffsetsPerTrigger", 0), _number(own, "maxBytesPerTrigger", 0)
    if offsets and size:
        raise ScanRefused(
            "options maxOffsetsPerTrigger and maxBytesPerTrigger are both given: Spark allows one limit"
        )
    if offsets and offsets < _number(own, "minOffsetsPerTrigger", 0):
        raise ScanRefused("option maxOffsetsPerTrigger is lower than option minOffsetsPerTrigger")
    if offsets:
        return BatchLimit(LimitKind.OFFSETS, offsets)
    return BatchLimit(LimitKind.BYTES, size) if size else BatchLimit()


def _start(text: str) -> Bounds:
    if text.lower() in ("earliest", "latest"):
        return Bounds(EARLIEST if text.lower() == "earliest" else LATEST)
    try:
        by_topic = msgspec.json.decode(text, type=dict[str, dict[int, int]])
    except msgspec.MsgspecError as cause:
        raise ScanRefused(
            f"option startingOffsets={text!r} is neither earliest nor latest nor JSON such as"
            f' {{"flights":{{"0":120,"1":-2}}}}: {cause}'
        ) from cause
    named: dict[tuple[str, int], Bound] = {}
    for topic, offsets in by_topic.items():
        for number, offset in offsets.items():
            if offset < -2:
                raise ScanRefused(f"option startingOffsets: {offset} is no offset of {topic}-{number}")
            named[topic, number] = {-2: EARLIEST, -1: LATEST}.get(offset) or Bound(BoundKind.OFFSET, offset)
    return Bounds(None, named)


def _number(own: Mapping[str, str], name: str, default: int) -> int:
    text = own.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise ScanRefused(f"option {name}={text!r}: write a number from 1 on")
    return int(text)


def _duration_ms(own: Mapping[str, str], name: str, default: int) -> int:
    """Kafka's connector writes 15m for 15 minutes."""
    text = own.get(name)
    if text is None:
        return default
    try:
        return lease_ms_of(f"{text.strip()}in" if text.strip().endswith("m") else text)
    except ScanRefused:
        raise ScanRefused(f"option {name}={text!r}: write a duration such as 500ms, 10s or 15min") from None
