"""Retention classes: a class is all streams whose data is kept for about equally long.

An object's space is freed only when its last block is dead. A stream that is kept for minutes would use space for as
long as a neighbour in the same object that is kept for years, and key compaction beside such a neighbour would free
nothing (Redpanda #29233; GC19, GC20). The class of a stream follows from its topic's configuration alone.
"""

from collections.abc import Mapping
from enum import IntEnum

from siltstone.metadata.image import ImageView
from siltstone.model.limits import DAY_MS, HOUR_MS
from siltstone.offline.erasures import erasures_of_streams
from siltstone.offline.topic_streams import Role, topic_streams
from siltstone.topic_configs.table import TopicConfig


class RetentionClass(IntEnum):
    """NONE: the stream belongs to no topic, or holds snapshots. COMPACTED: the topic is compacted by key, or records of
    some of its keys are to be erased. FOR_EVER
    and BY_SIZE: no limit, or only one of size. The others are limits of time: MINUTES, less than an hour; HOURS, less
    than a day; DAYS, less than ten days; WEEKS, less than a hundred; MONTHS, less than a thousand; YEARS, more."""

    NONE = 0
    COMPACTED = 1
    FOR_EVER = 2
    BY_SIZE = 3
    MINUTES = 4
    HOURS = 5
    DAYS = 6
    WEEKS = 7
    MONTHS = 8
    YEARS = 9

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", " ")


Classes = Mapping[int, RetentionClass]
"""The class of each stream, by stream id; a stream that is missing has the class NONE."""

_SHORTER_THAN_MS = (
    (HOUR_MS, RetentionClass.MINUTES),
    (DAY_MS, RetentionClass.HOURS),
    (10 * DAY_MS, RetentionClass.DAYS),
    (100 * DAY_MS, RetentionClass.WEEKS),
    (1_000 * DAY_MS, RetentionClass.MONTHS),
)


def retention_class(config: TopicConfig) -> RetentionClass:
    """Returns the class of the streams that hold the topic's record batches."""
    if config.is_compacted:
        return RetentionClass.COMPACTED
    if not config.is_deleted_by_age:
        return RetentionClass.FOR_EVER
    if config.retention_ms < 0:
        return RetentionClass.FOR_EVER if config.retention_bytes < 0 else RetentionClass.BY_SIZE
    for limit_ms, shorter in _SHORTER_THAN_MS:
        if config.retention_ms < limit_ms:
            return shorter
    return RetentionClass.YEARS


def stream_classes(image: ImageView) -> Classes:
    """Returns the class of every stream of a topic. Streams of snapshots have the class NONE, since each new snapshot
    replaces the ones before it. Streams under erasure have the class COMPACTED, because records leave stream objects
    only. Raises UnreadableErasure."""
    classes = {
        stream_id: retention_class(each.config) if each.role is Role.BATCHES else RetentionClass.NONE
        for stream_id, each in topic_streams(image).items()
    }
    return classes | dict.fromkeys(erasures_of_streams(image), RetentionClass.COMPACTED)
