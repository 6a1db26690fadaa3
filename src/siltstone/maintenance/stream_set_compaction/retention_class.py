"""Retention classes: streams that live about equally long.

What shares an object dies with the object's last live block, so a stream that is kept for minutes holds its space as
long as a neighbour that is kept for years, and key compaction next to a neighbour that stays frees nothing at all
(Redpanda #29233; GC19, GC20). A class is a function of the topic's configuration alone.

The retention class of every stream, from the image.
"""

from collections.abc import Mapping
from enum import IntEnum

from siltstone.maintenance.topic_streams import Role, topic_streams
from siltstone.metadata.image import ImageView
from siltstone.model.limits import DAY_MS, HOUR_MS
from siltstone.topic_configs.table import TopicConfig


class RetentionClass(IntEnum):
    """NONE: of no topic, or written for the store itself. The others say how long batches stay at least: MINUTES, less
    than an hour; HOURS, than a day; DAYS, than ten; WEEKS, than a hundred; MONTHS, than a thousand."""

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
"""By stream id; what is not in it is of no class."""

_SHORTER_THAN_MS = (
    (HOUR_MS, RetentionClass.MINUTES),
    (DAY_MS, RetentionClass.HOURS),
    (10 * DAY_MS, RetentionClass.DAYS),
    (100 * DAY_MS, RetentionClass.WEEKS),
    (1_000 * DAY_MS, RetentionClass.MONTHS),
)


def retention_class(config: TopicConfig) -> RetentionClass:
    """Of the streams that hold the topic's batches."""
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
    """Snapshots of a partition are of no class: each new one drops those before it."""
    return {
        stream_id: retention_class(each.config) if each.role is Role.BATCHES else RetentionClass.NONE
        for stream_id, each in topic_streams(image).items()
    }
