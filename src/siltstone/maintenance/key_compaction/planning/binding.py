"""A task from a plan: with the ids prepared for it, and the time and the hash key that fix its outcome."""

import msgspec

from siltstone.maintenance.key_compaction.planning.stream_plan import StreamPlan
from siltstone.maintenance.key_compaction.settings import KeyCompactionSettings
from siltstone.maintenance.key_compaction.unit import KeyCompactionUnit
from siltstone.model.limits import COMPACTION_STREAM_OBJECTS_MAX

HORIZON_MS_MAX = 2**63 - 1
"""delete.retention.ms may be as large: what fits no 64 bits is for ever."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What one carrying out of a plan fixes. ``start_offset``: the stream's by now. Commits come until
    ``latest_ms``."""

    start_offset: int
    now_ms: int
    latest_ms: int
    first_object_id: int
    object_count_max: int
    output_bucket_id: int
    bucket_urls: dict[int, str]
    hash_key: bytes


def outputs_max(plan: StreamPlan, object_bytes: int) -> int:
    """Each but the last is full, and compressing anew at most doubles what is left."""
    return min(COMPACTION_STREAM_OBJECTS_MAX, 1 + -(-2 * plan.source_bytes // object_bytes))


def unit_of(plan: StreamPlan, attempt: Attempt, settings: KeyCompactionSettings) -> KeyCompactionUnit:
    used = {attempt.output_bucket_id, *(source.bucket_id for source in plan.sources)}
    return KeyCompactionUnit(
        name=plan.name,
        stream_id=plan.stream_id,
        sources=plan.sources,
        start_offset=attempt.start_offset,
        dirty_offset=max(plan.dirty_offset, min(attempt.start_offset, plan.bound)),
        bound=plan.bound,
        now_ms=attempt.now_ms,
        horizon_ms=min(HORIZON_MS_MAX, attempt.latest_ms + plan.delete_retention_ms),
        producer_expiration_ms=settings.producer_expiration_ms,
        map_bytes_max=settings.map_bytes_max,
        memory_bytes=settings.memory_bytes,
        read_request_bytes_max=settings.read_request_bytes_max,
        block_bytes=settings.block_bytes,
        object_bytes=settings.object_bytes,
        first_object_id=attempt.first_object_id,
        object_count_max=attempt.object_count_max,
        output_bucket_id=attempt.output_bucket_id,
        bucket_urls={bucket_id: attempt.bucket_urls[bucket_id] for bucket_id in used},
        hash_key=attempt.hash_key,
    )
