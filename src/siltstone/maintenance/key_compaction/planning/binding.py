"""Makes the task input of a stream's plan, and checks whether a plan is still valid.

The task input adds to the plan the prepared ids, and the time and the hash key on which the result depends. A plan is
older than its job, so other drivers may have changed the stream in between.
"""

import msgspec

from siltstone.maintenance.key_compaction.planning.stream_plan import StreamPlan
from siltstone.maintenance.key_compaction.task_input import KeyCompactionInput
from siltstone.metadata.entities import StreamState
from siltstone.metadata.image import ImageView
from siltstone.model.limits import COMPACTION_STREAM_OBJECTS_MAX
from siltstone.offline.settings import KeyCompactionSettings

HORIZON_MS_MAX = 2**63 - 1
"""The largest delete horizon. delete.retention.ms may be so large that the sum does not fit into 64 bits."""


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """The values that are fixed when a plan is carried out. ``start_offset`` is the stream's present start offset. The
    task may take ``pass_ms_max``, and the commit is accepted until ``latest_ms``."""

    start_offset: int
    now_ms: int
    latest_ms: int
    pass_ms_max: int
    first_object_id: int
    object_count_max: int
    output_bucket_id: int
    bucket_urls: dict[int, str]
    hash_key: bytes


def outputs_max(plan: StreamPlan, object_bytes: int) -> int:
    """Returns an upper bound of the number of outputs: all but the last are full, and compressing again at most doubles
    the bytes."""
    return min(COMPACTION_STREAM_OBJECTS_MAX, 1 + -(-2 * plan.source_bytes // object_bytes))


def input_of(plan: StreamPlan, binding: Binding, settings: KeyCompactionSettings) -> KeyCompactionInput:
    used = {binding.output_bucket_id, *(each for source in plan.sources for each in source.bucket_ids)}
    return KeyCompactionInput(
        name=plan.name,
        stream_id=plan.stream_id,
        sources=plan.sources,
        start_offset=binding.start_offset,
        dirty_offset=max(plan.dirty_offset, min(binding.start_offset, plan.bound)),
        bound=plan.bound,
        now_ms=binding.now_ms,
        horizon_ms=min(HORIZON_MS_MAX, binding.latest_ms + plan.delete_retention_ms),
        producer_expiration_ms=settings.producer_expiration_ms,
        map_bytes_max=settings.map_bytes_max,
        memory_bytes=settings.memory_bytes,
        read_request_bytes_max=settings.read_request_bytes_max,
        block_bytes=settings.block_bytes,
        object_bytes=settings.object_bytes,
        first_object_id=binding.first_object_id,
        object_count_max=binding.object_count_max,
        output_bucket_id=binding.output_bucket_id,
        bucket_urls={bucket_id: binding.bucket_urls[bucket_id] for bucket_id in used},
        hash_key=binding.hash_key,
        pass_ms_max=binding.pass_ms_max,
        commit_markers_end=plan.commit_markers_end,
    )


def why_stale(view: ImageView, plan: StreamPlan) -> str | None:
    """Says why the plan of a stream is no longer valid; None when it is valid. The commit checks all of this again."""
    stream = view.streams.get(plan.stream_id)
    topic = view.topics.get(plan.topic_id)
    if stream is None or stream.state is StreamState.DELETED or topic is None:
        return f"topic {plan.topic} was deleted meanwhile"
    if topic.configs != plan.configs:
        return f"topic {plan.topic} was reconfigured meanwhile"
    if stream.start_offset >= plan.bound:
        return f"everything before offset {plan.bound} was trimmed meanwhile"
    if stream.cleaned_offset > plan.dirty_offset:
        return f"another driver compacted it up to offset {stream.cleaned_offset} meanwhile"
    held = frozenset(stream.ranges)
    if any(source.held not in held for source in plan.sources):
        return "its objects were replaced by another driver meanwhile"
    return None
