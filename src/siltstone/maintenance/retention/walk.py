"""How far one stream may be trimmed: the oldest closed segment first, up to the first that stays. Pure.

    expired    retention.ms ≥ 0 and now - its largest timestamp > retention.ms        [Kafka; without timestamps: since
                                                                                       it was closed, as in Pulsar]
    over size  retention.bytes ≥ 0 and what is left without it ≥ retention.bytes       [both: a floor, no ceiling]

A closed segment goes when it is expired or over size, is committed to its end, and ends at the bound or before: what
groups have not read (the first gate of Pulsar's trimming). The active one goes only when all before it do, all of it
is expired, and nobody appends to it; it is closed first, so that the stream keeps its end.
"""

from collections.abc import Iterator, Mapping

import msgspec

from siltstone.maintenance.retention.past import Past, bytes_within, past_of
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState
from siltstone.model.limits import OPEN_STREAM_LEFT_ALONE_MS
from siltstone.model.record_batch import NO_TIMESTAMP
from siltstone.model.segments import ClosedSegment
from siltstone.topic_configs.table import TopicConfig

Bound = tuple[int, str]
"""The offset up to which segments may go, and why no further, in a sentence."""


class Walked(msgspec.Struct, frozen=True):
    """``start_offset``: the new one, or the one that it has. ``rolled``: the active segment, which has to be closed
    for it. ``segments`` counts those that hold anything, the active one among them. ``blocked``: why what is due by
    time or size stays."""

    start_offset: int
    segments: int
    expired: int
    over_size: int
    size_bytes: int
    rolled: ClosedSegment | None = None
    blocked: str = ""

    @property
    def due(self) -> int:
        return self.expired + self.over_size


def walk(
    stream: StreamMetadata,
    objects: Mapping[int, ObjectMetadata],
    config: TopicConfig,
    now_ms: int,
    bound: Bound | None,
) -> Walked:
    assert config.is_deleted_by_age
    past = past_of(stream, objects, config.segment_bytes, stream.end_offset)
    closed = [*_closed(stream), *past.closed]
    segments = len(closed) + (not past.active.is_empty)
    total = sum(each.size_bytes for each in closed) + past.active.size_bytes
    start, left, expired, over_size = stream.start_offset, total, 0, 0
    blocked = ""
    for segment in closed:
        is_expired = _is_expired(segment.largest_timestamp_ms, segment.closed_ms, config, now_ms)
        is_over_size = 0 <= config.retention_bytes <= left - segment.size_bytes
        if not (is_expired or is_over_size):
            break
        if blocked := _blocked(segment, stream, bound):
            break
        start = segment.end_offset
        left -= segment.size_bytes
        expired += is_expired
        over_size += not is_expired
    rolled = None
    if start >= past.active.start_offset and _may_be_closed(past, stream, config, now_ms):
        closing = past.active.closed(now_ms)
        if not (blocked := _blocked(closing, stream, bound)):
            start, left, expired, rolled = closing.end_offset, left - closing.size_bytes, expired + 1, closing
    return Walked(start, segments, expired, over_size, total - left, rolled, blocked)


def _closed(stream: StreamMetadata) -> Iterator[ClosedSegment]:
    """What the closed segments hold now: the first may be trimmed in part, and key compaction makes them smaller."""
    for segment in stream.segments:
        if segment.end_offset <= stream.start_offset:
            continue
        left = segment.beginning_at(max(segment.start_offset, stream.start_offset))
        if left.start_offset < stream.cleaned_offset:
            size_bytes = bytes_within(stream, left.start_offset, left.end_offset)
            left = msgspec.structs.replace(left, size_bytes=min(left.size_bytes, size_bytes))
        yield left


def _is_expired(largest_timestamp_ms: int, closed_ms: int, config: TopicConfig, now_ms: int) -> bool:
    newest_ms = closed_ms if largest_timestamp_ms == NO_TIMESTAMP else largest_timestamp_ms
    return 0 <= config.retention_ms < now_ms - newest_ms


def _blocked(segment: ClosedSegment, stream: StreamMetadata, bound: Bound | None) -> str:
    if segment.end_offset > stream.end_offset:
        return "what is due is not all uploaded yet"
    if bound is not None and segment.end_offset > bound[0]:
        return bound[1]
    return ""


def _may_be_closed(past: Past, stream: StreamMetadata, config: TopicConfig, now_ms: int) -> bool:
    """A broker that has the stream open closes the segment itself, and writes down first what it knows of producers:
    that is waited for, and comes soon when there is one."""
    active = past.active
    if active.is_empty or not _is_expired(active.largest_timestamp_ms, past.committed_ms, config, now_ms):
        return False
    return stream.state is not StreamState.OPENED or now_ms - past.committed_ms >= OPEN_STREAM_LEFT_ALONE_MS
