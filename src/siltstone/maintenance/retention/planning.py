"""Retention is planned from the image alone: which topics are trimmed, and to which offsets. Pure. A unit is one topic.

``walk`` goes through the closed segments of a stream, the oldest first, up to the first that stays:

    expired    retention.ms ≥ 0 and now - its largest timestamp > retention.ms        [Kafka; without timestamps: since
                                                                                       it was closed, as in Pulsar]
    over size  retention.bytes ≥ 0 and the bytes left without it ≥ retention.bytes     [both: a floor, no ceiling]

A closed segment is trimmed when it is expired or over size, is committed to its end, and ends at the bound or before:
later offsets have not been read by all groups (the first gate of Pulsar's trimming). The active segment is trimmed
only when all closed ones are, all of it is expired, and no broker appends to it; it is closed first, so that the
stream keeps its end offset.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from siltstone.carrying.pipeline.kind import PlannedUnit, Scope, Unplanned
from siltstone.foundation.quantity_words import counted, duration_words, size_words, time_words
from siltstone.maintenance.retention.past import Past, bytes_within, past_of
from siltstone.metadata.commands import TopicTrims
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState, TopicMetadata
from siltstone.metadata.image import ImageView
from siltstone.model.limits import OPEN_STREAM_LEFT_ALONE_MS
from siltstone.model.record_batch import NO_TIMESTAMP
from siltstone.model.segments import ClosedSegment
from siltstone.offline.topic_streams import Role, TopicStream, topic_defaults
from siltstone.topic_configs.table import TopicConfig, stored_topic_config

Bound = tuple[int, str]
"""The offset up to which segments may be trimmed, and in a sentence why no further."""


class Walked(msgspec.Struct, frozen=True):
    """How far a stream may be trimmed. ``start_offset`` is the new start, or the present one when nothing is due.
    ``rolled`` is the active segment when it has to be closed and trimmed, too. ``segments`` counts the segments that
    are not empty, the active one included; ``size_bytes`` the bytes that are trimmed. ``blocked`` says why a segment
    that is due by time or size stays.

    ``due_ms``: when time makes the first segment due that stays, if nothing is appended; None if time never does, or
    if it is blocked. ``bytes_until``: size makes it due when so many bytes were appended."""

    start_offset: int
    segments: int
    expired: int
    over_size: int
    size_bytes: int
    rolled: ClosedSegment | None = None
    blocked: str = ""
    due_ms: int | None = None
    bytes_until: int | None = None

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
    due_ms = bytes_until = None
    for segment in closed:
        expires_ms = _expires_ms(segment.largest_timestamp_ms, segment.closed_ms, config)
        is_expired = expires_ms is not None and now_ms >= expires_ms
        is_over_size = 0 <= config.retention_bytes <= left - segment.size_bytes
        if not (is_expired or is_over_size):
            if not _blocked(segment, stream, bound):
                due_ms = expires_ms
                if config.retention_bytes >= 0:
                    bytes_until = config.retention_bytes + segment.size_bytes - left
            break
        if blocked := _blocked(segment, stream, bound):
            break
        start = segment.end_offset
        left -= segment.size_bytes
        expired += is_expired
        over_size += not is_expired
    rolled = None
    if start >= past.active.start_offset and (closed_ms := _closed_ms(past, stream, config)) is not None:
        closing = past.active.closed(now_ms)
        blocked = _blocked(closing, stream, bound)
        if now_ms < closed_ms:
            due_ms, blocked = None if blocked else closed_ms, ""
        elif not blocked:
            start, left, expired, rolled = closing.end_offset, left - closing.size_bytes, expired + 1, closing
    return Walked(start, segments, expired, over_size, total - left, rolled, blocked, due_ms, bytes_until)


def _closed(stream: StreamMetadata) -> Iterator[ClosedSegment]:
    """Yields the closed segments with their present sizes: the first may be trimmed in part, and key compaction makes
    them smaller."""
    for segment in stream.segments:
        if segment.end_offset <= stream.start_offset:
            continue
        left = segment.beginning_at(max(segment.start_offset, stream.start_offset))
        if left.start_offset < stream.cleaned_offset:
            size_bytes = bytes_within(stream, left.start_offset, left.end_offset)
            left = msgspec.structs.replace(left, size_bytes=min(left.size_bytes, size_bytes))
        yield left


def _expires_ms(largest_timestamp_ms: int, closed_ms: int, config: TopicConfig) -> int | None:
    """Returns the first time at which the segment is expired; None if it never is."""
    newest_ms = closed_ms if largest_timestamp_ms == NO_TIMESTAMP else largest_timestamp_ms
    return None if config.retention_ms < 0 else newest_ms + config.retention_ms + 1


def _blocked(segment: ClosedSegment, stream: StreamMetadata, bound: Bound | None) -> str:
    if segment.end_offset > stream.end_offset:
        return "the segment that is due is not all uploaded yet"
    if bound is not None and segment.end_offset > bound[0]:
        return bound[1]
    return ""


def _closed_ms(past: Past, stream: StreamMetadata, config: TopicConfig) -> int | None:
    """Returns from when on the active segment is expired and may be closed here; None if it never is. A broker that has
    the stream open closes the segment itself and first writes a snapshot of its producers, so an open stream is left
    to its broker for a while."""
    active = past.active
    expires_ms = _expires_ms(active.largest_timestamp_ms, past.committed_ms, config)
    if active.is_empty or expires_ms is None:
        return None
    is_open = stream.state is StreamState.OPENED
    return max(expires_ms, past.committed_ms + OPEN_STREAM_LEFT_ALONE_MS) if is_open else expires_ms


BoundOf = Callable[[TopicStream], Bound | None]
"""Returns what limits retention of a stream besides time and size; None when nothing does."""

BLOCKED_SHOWN_MAX = 20
"""A unit lists the reasons of at most this many partitions."""


class TopicRetention(msgspec.Struct, frozen=True):
    """What one unit does: closes ``rolled`` (pairs of stream id and segment), then trims."""

    trims: TopicTrims
    rolled: tuple[tuple[int, ClosedSegment], ...]
    offsets: int


class RetentionPlanned(msgspec.Struct, frozen=True):
    """The plan of all topics. ``topics`` has what each unit does, by the unit's name."""

    units: tuple[PlannedUnit, ...]
    unplanned: tuple[Unplanned, ...]
    topics: dict[str, TopicRetention]


def plan_retention(image: ImageView, scope: Scope, now_ms: int, bound_of: BoundOf) -> RetentionPlanned:
    """Plans all topics in the scope; the topic with most bytes to trim comes first."""
    units: list[PlannedUnit] = []
    unplanned: list[Unplanned] = []
    topics: dict[str, TopicRetention] = {}
    freed: dict[str, int] = {}
    defaults = topic_defaults(image)
    for topic in image.topics.values():
        if not scope.includes(topic.name):
            continue
        config = stored_topic_config(topic.configs, defaults)
        if not _has_limit(config):
            unplanned.append(Unplanned(topic.name, _why_no_limit(config)))
            continue
        walked = list(_walked(image, topic, config, now_ms, bound_of))
        if any(each.due for _, each in walked):
            units.append(_unit(topic, config, walked))
            topics[topic.name] = _work(image, topic, walked)
            freed[topic.name] = sum(each.size_bytes for _, each in walked)
        else:
            unplanned.append(Unplanned(topic.name, _why_nothing(config, walked)))
    units.sort(key=lambda unit: (-freed[unit.name], unit.name))
    unplanned.sort(key=lambda each: each.name)
    return RetentionPlanned(tuple(units), tuple(unplanned), topics)


def _has_limit(config: TopicConfig) -> bool:
    return config.is_deleted_by_age and (config.retention_ms >= 0 or config.retention_bytes >= 0)


def _why_no_limit(config: TopicConfig) -> str:
    if config.is_deleted_by_age:
        return "retention.ms and retention.bytes set no limit"
    policy = ",".join(sorted(config.cleanup_policy))
    return (
        f"cleanup.policy is {policy}: nothing is deleted by time or size"
        if policy
        else "cleanup.policy is empty"
    )


def _walked(
    image: ImageView, topic: TopicMetadata, config: TopicConfig, now_ms: int, bound_of: BoundOf
) -> Iterator[tuple[TopicStream, Walked]]:
    for number, partition in enumerate(topic.partitions):
        held = TopicStream(partition.data_stream_id, topic, number, Role.BATCHES, config)
        stream = image.streams[held.stream_id]
        yield held, walk(stream, image.objects, config, now_ms, bound_of(held))


def _work(image: ImageView, topic: TopicMetadata, walked: list[tuple[TopicStream, Walked]]) -> TopicRetention:
    due = [(held.stream_id, each) for held, each in walked if each.due]
    return TopicRetention(
        TopicTrims(topic.topic_id, topic.configs, tuple((at, each.start_offset) for at, each in due)),
        tuple((at, each.rolled) for at, each in due if each.rolled is not None),
        sum(each.start_offset - image.streams[at].start_offset for at, each in due),
    )


def _unit(topic: TopicMetadata, config: TopicConfig, walked: list[tuple[TopicStream, Walked]]) -> PlannedUnit:
    blocked = {held.name: each.blocked for held, each in walked if each.blocked}
    return PlannedUnit(
        name=topic.name,
        topic=topic.name,
        reason=_reason(config, [each for _, each in walked]),
        detail=dict(list(blocked.items())[:BLOCKED_SHOWN_MAX]),
    )


def _reason(config: TopicConfig, walked: list[Walked]) -> str:
    """``3 of 10 segments are older than 7 days, 2.1 GiB``"""
    segments = sum(each.segments for each in walked)
    expired, over_size = sum(each.expired for each in walked), sum(each.over_size for each in walked)
    causes = []
    if expired:
        age = duration_words(config.retention_ms)
        causes.append(f"{expired} of {counted(segments, 'segment')} {_are(expired)} older than {age}")
    if over_size:
        limit = size_words(config.retention_bytes)
        causes.append(f"{over_size} of {counted(segments, 'segment')} {_are(over_size)} beyond {limit}")
    return f"{' and '.join(causes)}, {size_words(sum(each.size_bytes for each in walked))}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _why_nothing(config: TopicConfig, walked: list[tuple[TopicStream, Walked]]) -> str:
    """Returns the reason that blocks most partitions; when none is blocked, that no segment is beyond a limit."""
    blocked = Counter(each.blocked for _, each in walked if each.blocked)
    if blocked:
        reason, count = blocked.most_common(1)[0]
        first = next(held for held, each in walked if each.blocked == reason)
        others = f", and {count - 1} more like it" if count > 1 else ""
        return f"{first.name}: {reason}{others}"
    limits = []
    if config.retention_ms >= 0:
        limits.append(f"older than retention.ms ({duration_words(config.retention_ms)})")
    if config.retention_bytes >= 0:
        limits.append(f"beyond retention.bytes ({size_words(config.retention_bytes)})")
    due_ms = min((each.due_ms for _, each in walked if each.due_ms is not None), default=None)
    later = "" if due_ms is None else f"; the first one will be at {time_words(due_ms)} UTC"
    return f"no closed segment is {' or '.join(limits)}{later}"
