"""Decides when a segment is closed: by size at any age, by batches and age only from a minimum age on. Pure.

    full  ⇔  bytes ≥ maximum                                                     Kafka's segment.bytes
          or (batches ≥ maximum or age ≥ maximum) and age ≥ minimum age          Pulsar's roll-over

In Pulsar the minimum age also postpones closing by size, which has led to segments of 60 GB; here the size decides. A
batch that would make a segment larger than the maximum begins a new segment, as in Kafka. An empty segment is never
closed. The segments themselves are in ``model.segments``.
"""

import msgspec

from siltstone.model.record_batch import NO_TIMESTAMP
from siltstone.model.segments import ActiveSegment
from siltstone.topic_configs.table import TopicConfig


class RollLimits(msgspec.Struct, frozen=True, gc=False):
    """The limits of one segment. ``batches_max`` 0 means no limit. The jitter is already subtracted from
    ``age_ms_max``, which is at least ``age_ms_min``."""

    bytes_max: int
    batches_max: int
    age_ms_min: int
    age_ms_max: int


def roll_limits(config: TopicConfig, chance: float) -> RollLimits:
    """Returns the limits of one segment. The maximum age is reduced by a random part of ``segment.jitter.ms`` (Kafka's
    LogConfig), so that segments created together are not closed together. ``chance`` is uniform in [0, 1)."""
    age_ms_max = config.segment_age_ms_max
    jitter_ms = min(config.segment_jitter_ms, age_ms_max - 1)
    if jitter_ms > 0:
        age_ms_max -= int(chance * (jitter_ms + 1))
    return RollLimits(
        config.segment_bytes,
        config.segment_batches_max,
        config.segment_min_ms,
        max(age_ms_max, config.segment_min_ms),
    )


def is_full(segment: ActiveSegment, limits: RollLimits, now_ms: int) -> bool:
    return is_full_for(segment, limits, 0, now_ms)


def is_full_for(segment: ActiveSegment, limits: RollLimits, batch_bytes: int, now_ms: int) -> bool:
    """Returns whether the segment is closed before the next batch, which has ``batch_bytes``."""
    if segment.is_empty:
        return False
    if segment.size_bytes >= limits.bytes_max or segment.size_bytes + batch_bytes > limits.bytes_max:
        return True
    age_ms = now_ms - segment.opened_ms
    if age_ms >= limits.age_ms_max:
        return True
    return 0 < limits.batches_max <= segment.batch_count and age_ms >= limits.age_ms_min


def is_too_old(segment: ActiveSegment, limits: RollLimits, now_ms: int) -> bool:
    """Returns whether the segment is closed by age although nothing is appended. A segment that is full by size or
    batches is closed at its next batch (O1)."""
    return not segment.is_empty and now_ms - segment.opened_ms >= limits.age_ms_max


def holds_up_retention(segment: ActiveSegment, config: TopicConfig, now_ms: int) -> bool:
    """Returns whether the whole segment is older than retention.ms. It has to be closed before retention can delete it
    (R17; Pulsar #9060)."""
    if segment.is_empty or not config.is_deleted_by_age or config.retention_ms < 0:
        return False
    newest_ms = segment.largest_timestamp_ms
    return now_ms - (segment.opened_ms if newest_ms == NO_TIMESTAMP else newest_ms) > config.retention_ms
