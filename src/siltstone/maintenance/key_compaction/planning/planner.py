"""All compacted streams: those worth compacting, dirtiest first, and for each other one why it is left as it is."""

from collections.abc import Iterator

import msgspec

from siltstone.foundation.quantity_words import count_words
from siltstone.maintenance.key_compaction.planning.bound import Bound, bound_of, bound_up_to, clean_offset
from siltstone.maintenance.key_compaction.planning.dirtiness import Dirtiness, waited_ms, why_dirty_enough
from siltstone.maintenance.key_compaction.planning.prefix import Prefix, bytes_between, prefix_of
from siltstone.maintenance.key_compaction.planning.stream_plan import PlannedStreams, StreamPlan
from siltstone.maintenance.pipeline.kind import Unplanned
from siltstone.maintenance.pipeline.scope import Scope
from siltstone.maintenance.topic_streams import Role, TopicStream, topic_streams
from siltstone.metadata.entities import StreamMetadata, StreamState
from siltstone.metadata.image import ImageView


def plan_streams(view: ImageView, scope: Scope, now_ms: int) -> PlannedStreams:
    chosen: list[StreamPlan] = []
    unplanned: list[Unplanned] = []
    for of_topic in topic_streams(view).values():
        stream = view.streams.get(of_topic.stream_id)
        if stream is None or stream.state is StreamState.DELETED:
            continue
        if not scope.includes(of_topic.topic.name):
            continue
        if not of_topic.is_compacted:
            unplanned += _asked_for_in_vain(of_topic, scope)
            continue
        planned = _planned(view, stream, of_topic, scope, now_ms)
        if isinstance(planned, StreamPlan):
            chosen.append(planned)
        else:
            unplanned.append(planned)
    chosen.sort(key=lambda plan: (-plan.dirtiness.ratio, plan.topic, plan.partition))
    return PlannedStreams(tuple(chosen), tuple(unplanned))


def _asked_for_in_vain(of_topic: TopicStream, scope: Scope) -> Iterator[Unplanned]:
    """Of a topic that is not compacted, told once, and only to who named it."""
    if scope.topics is not None and of_topic.role is Role.BATCHES and of_topic.partition == 0:
        policy = ",".join(sorted(of_topic.config.cleanup_policy)) or "empty"
        yield Unplanned(of_topic.topic.name, f"cleanup.policy is {policy}, without compact")


class _Extent(msgspec.Struct, frozen=True):
    """[dirty_offset, bound) of a stream that begins with ``prefix``. Nothing is dirty where both are the same."""

    prefix: Prefix
    dirty_offset: int
    bound: int
    limit: str

    def dirtiness(self, start_offset: int) -> Dirtiness:
        return Dirtiness(
            clean_bytes=bytes_between(self.prefix.objects, start_offset, self.dirty_offset),
            dirty_bytes=bytes_between(self.prefix.objects, self.dirty_offset, self.bound),
        )


def _planned(
    view: ImageView, stream: StreamMetadata, of_topic: TopicStream, scope: Scope, now_ms: int
) -> StreamPlan | Unplanned:
    prefix = prefix_of(view, stream)
    if not prefix.objects:
        return Unplanned(of_topic.name, _why_no_objects(prefix))
    if scope.up_to is None:
        bound = bound_of(stream, of_topic.config, prefix, now_ms)
    else:
        bound = bound_up_to(scope.up_to, prefix)
    extent = _extent(stream, prefix, bound, scope)
    if isinstance(extent, str):
        return Unplanned(of_topic.name, extent)
    reason = _why(stream, of_topic, extent, scope, now_ms)
    if reason is None:
        ratio = of_topic.config.min_cleanable_dirty_ratio
        text = f"{extent.dirtiness(stream.start_offset).words}, not above min.cleanable.dirty.ratio {ratio:g}"
        return Unplanned(of_topic.name, text)
    return StreamPlan(
        name=of_topic.name,
        topic=of_topic.topic.name,
        topic_id=of_topic.topic.topic_id,
        configs=of_topic.topic.configs,
        partition=of_topic.partition,
        stream_id=stream.stream_id,
        delete_retention_ms=of_topic.config.delete_retention_ms,
        sources=extent.prefix.below(extent.bound),
        start_offset=stream.start_offset,
        dirty_offset=extent.dirty_offset,
        bound=extent.bound,
        limit=extent.limit,
        dirtiness=extent.dirtiness(stream.start_offset),
        reason=reason,
    )


def _why_no_objects(prefix: Prefix) -> str:
    if prefix.blocking_object_id is None:
        return "no object holds anything of it yet"
    return f"it begins in stream set object {prefix.blocking_object_id}, which sso-compaction splits first"


def _extent(stream: StreamMetadata, prefix: Prefix, bound: Bound, scope: Scope) -> _Extent | str:
    """A string: why there is none."""
    dirty_offset = clean_offset(stream)
    if bound.offset > dirty_offset:
        return _Extent(prefix, dirty_offset, bound.offset, bound.limit)
    if stream.cleaned_offset <= stream.start_offset:
        return f"nothing may be compacted yet: {bound.limit}"
    if scope.is_forced:
        clean_end = min(dirty_offset, prefix.end_offset)
        return _Extent(prefix, clean_end, clean_end, bound.limit)
    return f"clean up to offset {count_words(dirty_offset)}: {bound.limit}"


def _why(
    stream: StreamMetadata, of_topic: TopicStream, extent: _Extent, scope: Scope, now_ms: int
) -> str | None:
    dirtiness = extent.dirtiness(stream.start_offset)
    if extent.dirty_offset == extent.bound:
        return "asked for: nothing is new, but tombstones whose time is over go"
    if scope.up_to is not None:
        return f"asked for up to offset {count_words(scope.up_to)}: {dirtiness.words}"
    waited = waited_ms(stream, extent.dirty_offset, extent.bound, now_ms)
    enough = why_dirty_enough(dirtiness, of_topic.config, waited)
    if enough is None and scope.is_forced:
        return f"asked for: {dirtiness.words}"
    return enough
