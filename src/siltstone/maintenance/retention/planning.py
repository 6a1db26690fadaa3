"""Which topics have something to trim, and how far: from the image alone. Pure. One unit is one topic."""

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from siltstone.foundation.quantity_words import counted, duration_words, size_words
from siltstone.maintenance.pipeline.kind import PlannedUnit, Unplanned
from siltstone.maintenance.pipeline.scope import Scope
from siltstone.maintenance.retention.walk import Bound, Walked, walk
from siltstone.maintenance.topic_streams import Role, TopicStream, topic_defaults
from siltstone.metadata.commands import TopicTrims
from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata.image import ImageView
from siltstone.model.segments import ClosedSegment
from siltstone.topic_configs.table import TopicConfig, stored_topic_config

BoundOf = Callable[[TopicStream], Bound | None]
"""What holds retention up besides time and size: None says nothing does."""

BLOCKED_SHOWN_MAX = 20
"""Partitions whose reasons a unit tells one by one."""


class TopicRetention(msgspec.Struct, frozen=True):
    """What one unit does: closes ``rolled`` (pairs of stream id and segment), then trims."""

    trims: TopicTrims
    rolled: tuple[tuple[int, ClosedSegment], ...]
    offsets: int


class RetentionPlanned(msgspec.Struct, frozen=True):
    """``topics`` by the units' names."""

    units: tuple[PlannedUnit, ...]
    unplanned: tuple[Unplanned, ...]
    topics: dict[str, TopicRetention]


def plan_retention(image: ImageView, scope: Scope, now_ms: int, bound_of: BoundOf) -> RetentionPlanned:
    """Topics with most bytes to free first."""
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
        f"cleanup.policy is {policy}: nothing goes by time or size" if policy else "cleanup.policy is empty"
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
    """What holds most partitions up; otherwise that no limit is passed."""
    blocked = Counter(each.blocked for _, each in walked if each.blocked)
    if blocked:
        reason, count = blocked.most_common(1)[0]
        first = next(held for held, each in walked if each.blocked == reason)
        others = f", and {count - 1} more like it" if count > 1 else ""
        return f"{first.name}: {reason}{others}"
    limits = []
    if config.retention_ms >= 0:
        limits.append(f"older than {duration_words(config.retention_ms)}")
    if config.retention_bytes >= 0:
        limits.append(f"beyond {size_words(config.retention_bytes)}")
    return f"no closed segment is {' or '.join(limits)}"
