"""Plans all compacted streams: those worth compacting, the dirtiest first, and for each other stream the reason why it
stays as it is.

Only the *prefix* of a stream can be compacted, the stream objects that it begins with. A task has to see all records of
a key from the beginning (G7), and it reads no stream set object, because that also holds other streams; stream set
object compaction splits compacted streams off first.

The *bound* is the offset up to which a stream may be compacted (G1 to G3):

    start ≤ clean offset ≤ bound ≤ active segment, end of the prefix

Nor does it pass the offset from which on the partition may have transactions: records of aborted ones must not take the
place of others. All records in objects lie below the high watermark (G2).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from siltstone.carrying.pipeline.kind import Scope, Unplanned
from siltstone.foundation.portions import portions
from siltstone.foundation.quantity_words import count_words, seconds_words
from siltstone.maintenance.key_compaction.planning.stream_plan import (
    Dirtiness,
    PlannedStreams,
    StreamPlan,
    waited_ms,
    why_dirty_enough,
)
from siltstone.maintenance.record_rewriting.values import SourceObject
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.streams import first_holding
from siltstone.model.objects import ObjectKind, ObjectRange
from siltstone.offline.topic_streams import (
    PartitionName,
    Role,
    TopicStream,
    topic_streams,
    transactional_from,
)
from siltstone.tables.progress import bound_of as exported_bound
from siltstone.topic_configs.table import TopicConfig


class Prefix(msgspec.Struct, frozen=True):
    """The stream objects that a stream begins with. ``objects`` are contiguous, from the first live one on.
    ``blocking_object_id`` is the stream set object that holds the next offsets, if one does."""

    objects: tuple[SourceObject, ...]
    blocking_object_id: int | None = None

    @property
    def end_offset(self) -> int:
        return self.objects[-1].held.end_offset if self.objects else 0

    def below(self, offset: int) -> tuple[SourceObject, ...]:
        """Returns the objects that hold records before ``offset``."""
        return tuple(source for source in self.objects if source.held.start_offset < offset)


def prefix_of(view: ImageView, stream: StreamMetadata) -> Prefix:
    found: list[SourceObject] = []
    for held in _live(stream):
        metadata = view.objects[held.object_id]
        if metadata.kind is not ObjectKind.STREAM_OBJECT:
            return Prefix(tuple(found), metadata.object_id)
        if found and found[-1].held.end_offset != held.start_offset:
            break
        found.append(_source(metadata, held))
    return Prefix(tuple(found))


def _live(stream: StreamMetadata) -> Iterable[ObjectRange]:
    return (held for held in stream.ranges if held.end_offset > stream.start_offset)


def _source(metadata: ObjectMetadata, held: ObjectRange) -> SourceObject:
    return SourceObject(metadata.object_id, metadata.bucket_id, metadata.size_bytes, held, metadata.copies)


def bytes_between(sources: Sequence[SourceObject], start_offset: int, end_offset: int) -> int:
    """Estimates the bytes that the sources hold of [start, end). An object that holds other offsets, too, counts with a
    share in proportion to the offsets."""
    return sum(_share(source.held, start_offset, end_offset) for source in sources)


def _share(held: ObjectRange, start_offset: int, end_offset: int) -> int:
    inside = min(held.end_offset, end_offset) - max(held.start_offset, start_offset)
    return held.size_bytes * max(0, inside) // (held.end_offset - held.start_offset)


def uncleaned_bytes(stream: StreamMetadata) -> Iterator[int]:
    """Yields the bytes of each range from the clean offset on, including ranges that may not be compacted yet."""
    dirty_offset = clean_offset(stream)
    for held in stream.ranges[first_holding(stream.ranges, dirty_offset) :]:
        yield _share(held, dirty_offset, held.end_offset)


class CompactionBound(msgspec.Struct, frozen=True):
    """The offset up to which a stream may be compacted. ``limit`` says in a sentence why it is not higher."""

    offset: int
    limit: str


def bound_of(stream: StreamMetadata, config: TopicConfig, prefix: Prefix, now_ms: int) -> CompactionBound:
    candidates = [_of_objects(prefix), _of_active_segment(stream), _of_lag(stream, config, now_ms)]
    return _least(candidates)


def bound_up_to(offset: int, prefix: Prefix) -> CompactionBound:
    """Returns the bound of a run for which the user gave an offset, whatever the lags and segments are."""
    return _least(
        [_of_objects(prefix), CompactionBound(offset, f"offset {count_words(offset)} was requested")]
    )


def clean_offset(stream: StreamMetadata) -> int:
    """Returns the offset at which the dirty part begins: the end of the last key compaction, or the stream's start when
    retention has moved it past that (G29, K23)."""
    return max(stream.cleaned_offset, stream.start_offset)


def _least(candidates: list[CompactionBound | None]) -> CompactionBound:
    return min((each for each in candidates if each is not None), key=lambda each: each.offset)


def _of_objects(prefix: Prefix) -> CompactionBound:
    end = prefix.end_offset
    if prefix.blocking_object_id is not None:
        return CompactionBound(
            end,
            f"from offset {count_words(end)} on, its records lie in stream set object {prefix.blocking_object_id},"
            " which sso-compaction splits first",
        )
    return CompactionBound(end, f"no object holds offset {count_words(end)} yet")


def _of_active_segment(stream: StreamMetadata) -> CompactionBound:
    active = stream.active_offset
    return CompactionBound(active, f"the active segment begins at offset {count_words(active)}")


def _of_table(view: ImageView, of_topic: TopicStream) -> CompactionBound | None:
    """Limits the bound to the records that are in the topic's table, where siltstone.table.retention says so."""
    found = exported_bound(view)(of_topic)
    return None if found is None else CompactionBound(*found)


class KnownTransactions(msgspec.Struct, frozen=True):
    """What the objects of a partition say of its transactions. ``open_from`` is the first offset that is not decided,
    and ``producer_id`` its producer; None if all is decided. ``snapshot_offset`` is that of the newest snapshot in
    objects: a broker that opens the partition, and a reader without a broker, need the markers from there on."""

    open_from: int | None = None
    producer_id: int = -1
    snapshot_offset: int = 0


Known = Mapping[PartitionName, KnownTransactions]

NOTHING_KNOWN: Known = {}


def with_transactions(view: ImageView, scope: Scope) -> list[TopicStream]:
    """Returns the compacted streams in the scope that have something dirty in which transactions may be."""
    return [
        each
        for each in topic_streams(view).values()
        if each.is_compacted
        and each.role is Role.BATCHES
        and scope.includes(each.topic.name)
        and transactional_from(view, each.topic.topic_id, each.partition) is not None
        and view.streams[each.stream_id].end_offset > clean_offset(view.streams[each.stream_id])
    ]


def _known_of(view: ImageView, of_topic: TopicStream, known: Known) -> KnownTransactions | None:
    """Returns None if no transaction has written to the partition. Where the objects were not looked at, all from its
    first transaction on may be undecided, and each marker is needed."""
    first = transactional_from(view, of_topic.topic.topic_id, of_topic.partition)
    if first is None:
        return None
    return known.get((of_topic.topic.name, of_topic.partition), KnownTransactions(open_from=first))


def _of_transactions(known: KnownTransactions | None) -> CompactionBound | None:
    if known is None or known.open_from is None:
        return None
    return CompactionBound(
        known.open_from,
        f"a transaction of producer {known.producer_id} is open since offset {count_words(known.open_from)}",
    )


def _of_lag(stream: StreamMetadata, config: TopicConfig, now_ms: int) -> CompactionBound | None:
    """Limits the bound to the start of the first dirty segment with a record younger than min.compaction.lag.ms [Kafka:
    LogCleanerManager]."""
    lag_ms = config.min_compaction_lag_ms
    if lag_ms == 0:
        return None
    for segment in stream.segments:
        is_dirty = segment.end_offset > clean_offset(stream)
        if is_dirty and segment.largest_timestamp_ms > now_ms - lag_ms:
            start = max(segment.start_offset, stream.start_offset)
            return CompactionBound(
                start,
                f"the segment at offset {count_words(start)} has records younger than min.compaction.lag.ms"
                f" ({seconds_words(lag_ms / 1000)})",
            )
    return None


def plan_streams(view: ImageView, scope: Scope, now_ms: int, known: Known = NOTHING_KNOWN) -> PlannedStreams:
    """Plans all compacted streams in the scope. ``known`` has the streams of ``with_transactions``."""
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
        planned = _planned(view, stream, of_topic, scope, now_ms, _known_of(view, of_topic, known))
        if isinstance(planned, StreamPlan):
            chosen.append(planned)
        else:
            unplanned.append(planned)
    chosen.sort(key=lambda plan: (-plan.dirtiness.ratio, plan.topic, plan.partition))
    return PlannedStreams(tuple(chosen), tuple(unplanned))


def _asked_for_in_vain(of_topic: TopicStream, scope: Scope) -> Iterator[Unplanned]:
    """Yields the reason why a topic is not compacted, once for each topic, and only when the scope names the topic."""
    if scope.topics is not None and of_topic.role is Role.BATCHES and of_topic.partition == 0:
        policy = ",".join(sorted(of_topic.config.cleanup_policy)) or "empty"
        yield Unplanned(of_topic.topic.name, f"cleanup.policy is {policy}, without compact")


class _Extent(msgspec.Struct, frozen=True):
    """The dirty offsets [dirty_offset, bound) of a stream that begins with ``prefix``; both are the same when nothing
    is dirty."""

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
    view: ImageView,
    stream: StreamMetadata,
    of_topic: TopicStream,
    scope: Scope,
    now_ms: int,
    known: KnownTransactions | None,
) -> StreamPlan | Unplanned:
    prefix = prefix_of(view, stream)
    if not prefix.objects:
        return Unplanned(of_topic.name, _why_no_objects(prefix))
    if scope.up_to is None:
        bound = _least([bound_of(stream, of_topic.config, prefix, now_ms), _of_table(view, of_topic)])
    else:
        bound = bound_up_to(scope.up_to, prefix)
    bound = _least([bound, _of_transactions(known)])
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
        commit_markers_end=None if known is None else known.snapshot_offset,
    )


def _why_no_objects(prefix: Prefix) -> str:
    if prefix.blocking_object_id is None:
        return "none of its records are in an object yet"
    return f"its first records lie in stream set object {prefix.blocking_object_id}, which sso-compaction splits first"


def _extent(stream: StreamMetadata, prefix: Prefix, bound: CompactionBound, scope: Scope) -> _Extent | str:
    """Returns the offsets to compact, or a string that says why there are none."""
    dirty_offset = clean_offset(stream)
    if bound.offset > dirty_offset:
        return _Extent(prefix, dirty_offset, bound.offset, bound.limit)
    if stream.cleaned_offset <= stream.start_offset:
        return f"nothing may be compacted yet: {bound.limit}"
    if scope.is_forced:
        clean_end = min(dirty_offset, prefix.end_offset)
        return _Extent(prefix, clean_end, clean_end, bound.limit)
    compacted = f"already compacted up to offset {count_words(dirty_offset)}"
    is_beyond = (
        bound.offset < dirty_offset and scope.up_to is None
    )  # the limit is lower than at the last compaction, and holds nothing back
    return compacted if is_beyond else f"{compacted}; {bound.limit}"


def _why(
    stream: StreamMetadata, of_topic: TopicStream, extent: _Extent, scope: Scope, now_ms: int
) -> str | None:
    dirtiness = extent.dirtiness(stream.start_offset)
    if extent.dirty_offset == extent.bound:
        return "forced: no new records; expired tombstones will be removed"
    if scope.up_to is not None:
        return f"up to offset {count_words(scope.up_to)}, as requested: {dirtiness.words}"
    waited = waited_ms(stream, extent.dirty_offset, extent.bound, now_ms)
    enough = why_dirty_enough(dirtiness, of_topic.config, waited)
    if enough is None and scope.is_forced:
        return f"forced: {dirtiness.words}"
    return enough


def waves(plans: Sequence[StreamPlan], bytes_max: int, streams_max: int) -> Iterator[tuple[StreamPlan, ...]]:
    """Yields the plans in waves, in their order. The tasks of a wave run together. A wave has at least one stream,
    however large."""
    return portions(plans, streams_max, lambda plan: (plan.bytes_read,), (bytes_max,))
