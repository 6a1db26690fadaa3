"""Whether a plan still holds: it is older than the job, and others may have been at work in between."""

from siltstone.maintenance.key_compaction.planning.stream_plan import StreamPlan
from siltstone.metadata.entities import StreamState
from siltstone.metadata.image import ImageView


def why_stale(view: ImageView, plan: StreamPlan) -> str | None:
    """None: it holds. The commit asks all of it again."""
    stream = view.streams.get(plan.stream_id)
    topic = view.topics.get(plan.topic_id)
    if stream is None or stream.state is StreamState.DELETED or topic is None:
        return f"topic {plan.topic} was deleted meanwhile"
    if topic.configs != plan.configs:
        return f"topic {plan.topic} is configured otherwise meanwhile"
    if stream.start_offset >= plan.bound:
        return f"everything before offset {plan.bound} was trimmed meanwhile"
    if stream.cleaned_offset > plan.dirty_offset:
        return f"another driver compacted it up to offset {stream.cleaned_offset} meanwhile"
    held = frozenset(stream.ranges)
    if any(source.held not in held for source in plan.sources):
        return "its objects were replaced by others meanwhile"
    return None
