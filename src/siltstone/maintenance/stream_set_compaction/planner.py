"""Plans a round. First it chooses the candidates from the image alone: the stream set objects whose indexes are worth
reading. Then it takes the candidates with their indexes as sources, and decides which of them are replaced, and by
which objects. Pure: the same sources, image and time give the same plan.

The steps and their order are in the package's docstring. Four rules are decided here:

*Candidates*: an object is a candidate when it shares a live stream with another object (T04), holds nothing live, holds
live data of a compacted topic, or is old enough to be force split (T07). Candidates are ordered by the age of their
data, the oldest first: with the newest first, as in AutoMQ, old objects would wait for ever once there are more
candidates than a round takes.

*Sharing* (T04): a source is rewritten when it shares a stream with another source. This is computed again each time a
limit takes a source out.

*Force split* (T07): sources whose data is old enough are split into stream objects whatever their neighbours are. All
aged sources of a round are split together, so an extent that continues from one source into the next becomes one stream
object. A source with more streams than the round may add objects is treated as an ordinary one; otherwise it would stay
for ever.

*Limits* (T03) bound the stream objects that a round makes, and the streams in its stream set object. When a limit is
exceeded, the sources of the extent that is cheapest to give up are taken out, and the steps are repeated. Far beyond a
limit several extents are given up at once; otherwise a thousand sources could need a thousand repetitions.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from siltstone.maintenance.stream_set_compaction.iterations import (
    ExtentFate,
    Extents,
    IterationBounds,
    classes_of,
    cut,
    place,
)
from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan, StreamObjectPieces, small_rows
from siltstone.maintenance.stream_set_compaction.retention_class import Classes, RetentionClass
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata
from siltstone.metadata.streams import is_live
from siltstone.model.objects import ObjectKind, ObjectState
from siltstone.offline.blocks.columns import (
    Integers,
    LeftOut,
    Source,
    SourceUnusable,
    Table,
    Truths,
    live_blocks,
    sorted_table,
)
from siltstone.offline.settings import CompactionSettings

NO_PARTNER = "it shares no stream with another stream set object"
BEYOND_STREAM_OBJECTS = "with it the round would make more stream objects than one commit may add"
BEYOND_STREAMS = "with it the new stream set object would hold more streams than an object may"


class Candidates(msgspec.Struct, frozen=True):
    """The candidates of one round. ``has_remaining`` says that there are more than a round takes."""

    objects: tuple[ObjectMetadata, ...]
    has_remaining: bool


def choose_candidates(
    objects: Iterable[ObjectMetadata],
    streams: Mapping[int, StreamMetadata],
    settings: CompactionSettings,
    now_ms: int,
    classes: Classes | None = None,
) -> Candidates:
    """Returns the candidates among the objects. When an id appears twice, the later metadata counts."""
    sets = {held.object_id: held for held in objects if _is_committed_set(held)}
    live = {object_id: _live_streams(held, streams) for object_id, held in sets.items()}
    compacted = {each for each, held in (classes or {}).items() if held is RetentionClass.COMPACTED}
    holders = Counter(stream_id for stream_ids in live.values() for stream_id in stream_ids)

    def is_worth_it(held: ObjectMetadata) -> bool:
        mine = live[held.object_id]
        return (
            _is_old(held, settings, now_ms)
            or not mine
            or not mine.isdisjoint(compacted)
            or any(holders[stream_id] > 1 for stream_id in mine)
        )

    worth = sorted(filter(is_worth_it, sets.values()), key=lambda held: (held.data_time_ms, held.object_id))
    return Candidates(tuple(worth[: settings.sources_max]), len(worth) > settings.sources_max)


def plan_compaction(
    sources: Sequence[Source],
    streams: Mapping[int, StreamMetadata],
    settings: CompactionSettings,
    now_ms: int,
    *,
    classes: Classes | None = None,
    left_out: Sequence[LeftOut] = (),
    has_remaining: bool = False,
    is_every_source_wanted: bool = False,
) -> CompactionPlan:
    """Plans a round. ``left_out`` and ``has_remaining`` come from the choice of candidates, and become part of the
    plan. With ``is_every_source_wanted`` each source is rewritten even when it shares no stream with another. Raises
    OverlappingSources, MemoryLimitTooSmall."""
    usable, tables, unusable = _usable(sources, streams)
    aged = choose_aged(usable, tables, settings, now_ms)
    object_ids = [source.metadata.object_id for source in usable]
    numbers = range(len(usable))
    # All blocks are sorted together once, so sources that overlap are found even if they are left out later.
    is_aged = _truths(len(usable), aged)
    is_bare = np.array([not len(each) for each in tables], dtype=np.bool_)
    table = sorted_table(tables, numbers, object_ids)
    del tables
    classes = classes or {}
    alone = np.ones_like(is_aged) if is_every_source_wanted else _with_compacted(table, classes, len(usable))
    chosen = _within_limits(table, is_aged, alone, classes, settings)
    replaced = is_aged | is_bare | chosen.ordinary
    return CompactionPlan(
        sources=usable,
        compacted=[number for number in numbers if replaced[number]],
        left_out=[*left_out, *unusable, *_reasons(object_ids, replaced, chosen.excluded)],
        table=chosen.table,
        extents=chosen.extents,
        bounds=chosen.bounds,
        settings=settings,
        has_remaining=has_remaining or bool(chosen.excluded),
        force_split=int(is_aged.sum()),
    )


class Sharing:
    """Finds the sources of a table that share streams. It holds every pair (stream, source) once, so that the time of a
    look-up depends on the pairs, not on the blocks."""

    def __init__(self, table: Table, source_count: int) -> None:
        self._source_count = source_count
        _, stream = np.unique(table["stream_id"], return_inverse=True)
        pairs = np.unique(stream.astype(np.int64) * source_count + table["source"])
        self._stream: Integers = pairs // max(1, source_count)
        self._source: Integers = pairs % max(1, source_count)

    def sharing(self, active: Truths) -> Truths:
        """Marks the active sources that share a stream with another active source."""
        counted = active[self._source]
        holders = np.bincount(self._stream[counted], minlength=1)
        shared = counted & (holders[self._stream.clip(max=len(holders) - 1)] > 1)
        found = np.zeros(self._source_count, dtype=np.bool_)
        found[self._source[shared]] = True
        return found

    def streams_of_sources(self) -> Integers:
        """Counts the streams that each source holds."""
        return np.bincount(self._source, minlength=self._source_count)


class _Chosen(msgspec.Struct, frozen=True):
    table: Table
    extents: Extents
    bounds: list[IterationBounds]
    ordinary: Truths
    excluded: dict[int, str]


def _is_old(held: ObjectMetadata, settings: CompactionSettings, now_ms: int) -> bool:
    return now_ms - held.data_time_ms >= settings.force_split_age_ms


def _is_committed_set(held: ObjectMetadata) -> bool:
    return held.state is ObjectState.COMMITTED and held.kind is ObjectKind.STREAM_SET_OBJECT


def _live_streams(held: ObjectMetadata, streams: Mapping[int, StreamMetadata]) -> set[int]:
    """Returns the streams that have live data in the object. A stream that is not in the image counts as live, so
    that the planner reports the object."""
    return {
        each.stream_id
        for each in held.ranges
        if each.stream_id not in streams or is_live(streams[each.stream_id], each)
    }


def _usable(
    sources: Sequence[Source], streams: Mapping[int, StreamMetadata]
) -> tuple[list[Source], list[Table], list[LeftOut]]:
    usable: list[Source] = []
    tables: list[Table] = []
    left_out: list[LeftOut] = []
    for source in sources:
        try:
            tables.append(live_blocks(source, streams))
        except SourceUnusable as unusable:
            left_out.append(LeftOut(source.metadata.object_id, str(unusable), True))
        else:
            usable.append(source)
    return usable, tables, left_out


def _with_compacted(table: Table, classes: Classes, source_count: int) -> Truths:
    """Marks the sources that hold data of a compacted topic: its streams are split off whatever their neighbours
    are."""
    stream_ids, number = np.unique(table["stream_id"], return_inverse=True)
    is_compacted = (classes_of(stream_ids, classes) == RetentionClass.COMPACTED)[number]
    return _truths(source_count, set(table["source"][is_compacted].tolist()))


def _within_limits(
    table: Table, is_aged: Truths, alone: Truths, classes: Classes, settings: CompactionSettings
) -> _Chosen:
    """Groups the blocks and cuts them into iterations. While a limit is exceeded, sources are taken out and the step is
    repeated (T03). Sources that are true in ``alone`` need not share a stream."""
    aged_table = _rows_of(table, is_aged)
    ordinary_table = _rows_of(table, ~is_aged)
    sharing = Sharing(ordinary_table, len(is_aged))
    active = ~is_aged
    excluded: dict[int, str] = {}
    while True:
        ordinary = sharing.sharing(active) | (alone & active)
        rows = _joined(aged_table, _rows_of(ordinary_table, ordinary))
        extents = Extents(rows, len(aged_table), settings.split_size_bytes)
        place(rows, extents, classes, settings)
        victims, reason, bounds = _beyond_limits(rows, extents, ordinary, sharing, settings)
        if not victims:
            return _Chosen(rows, extents, bounds, ordinary, excluded)
        excluded |= dict.fromkeys(victims, reason)
        active[list(victims)] = False


def _beyond_limits(
    rows: Table, extents: Extents, ordinary: Truths, sharing: Sharing, settings: CompactionSettings
) -> tuple[set[int], str, list[IterationBounds]]:
    """Returns the sources to take out, and why. When no limit is exceeded there are none, and the iterations are
    returned."""
    split_count = int(extents.is_split.sum())
    excess = split_count - settings.stream_objects_max
    if excess > 0:
        victims = beyond_stream_objects(rows, extents, excess, int(ordinary.sum()))
        return _or_youngest(victims, ordinary), BEYOND_STREAM_OBJECTS, []
    excess = len(extents) - split_count - settings.streams_max
    if excess > 0:
        victims = beyond_streams(rows, extents, excess, int(ordinary.sum()), sharing.streams_of_sources())
        return _or_youngest(victims, ordinary), BEYOND_STREAMS, []
    bounds = cut(rows, extents, small_rows(extents), settings)
    pieces = len(StreamObjectPieces(rows, extents, bounds))
    excess = pieces - settings.stream_objects_max
    if excess > 0:
        # There are not too many extents but too many bytes: cuts at the memory limit add stream objects.
        return youngest(ordinary, excess / pieces), BEYOND_STREAM_OBJECTS, []
    return set(), "", bounds


def _or_youngest(victims: set[int], ordinary: Truths) -> set[int]:
    """Returns the sources to take out. If they are all sources, as for an extent with blocks from every source, the
    younger half is taken out instead."""
    return youngest(ordinary, 0.5) if len(victims) == ordinary.sum() > 2 else victims


def _rows_of(table: Table, wanted: Truths) -> Table:
    """Returns the rows of the wanted sources. When these are all rows, the table is not copied, since it may have a
    hundred megabytes."""
    chosen = wanted[table["source"]]
    return table if chosen.all() else table[chosen]


def _joined(first: Table, second: Table) -> Table:
    if not len(first) or not len(second):
        return first if len(first) else second
    return np.concatenate((first, second))


def _reasons(object_ids: Sequence[int], replaced: Truths, excluded: Mapping[int, str]) -> list[LeftOut]:
    return [
        LeftOut(object_id, excluded.get(number, NO_PARTNER))
        for number, object_id in enumerate(object_ids)
        if not replaced[number]
    ]


def _truths(count: int, numbers: set[int]) -> Truths:
    truths = np.zeros(count, dtype=np.bool_)
    truths[list(numbers)] = True
    return truths


def choose_aged(
    sources: Sequence[Source], tables: Sequence[Table], settings: CompactionSettings, now_ms: int
) -> set[int]:
    """Returns the numbers of the sources to force split: the oldest first, within the limit of stream objects."""
    aged: set[int] = set()
    room = settings.stream_objects_max
    for number, source in enumerate(sources):
        if _is_old(source.metadata, settings, now_ms) and (cost := _cost(tables[number], settings)) <= room:
            aged.add(number)
            room -= cost
    return aged


def _cost(table: Table, settings: CompactionSettings) -> int:
    """Returns an upper bound of the stream objects that a source becomes: one for each extent, and one for each cut at
    the memory limit."""
    if not len(table):
        return 0
    extents = Extents(np.sort(table, order=["stream_id", "start_offset"]), 0, settings.split_size_bytes)
    return len(extents) + int(2 * extents.size_bytes.sum() // settings.memory_bytes)


def beyond_stream_objects(table: Table, extents: Extents, excess: int, source_count: int) -> set[int]:
    """Returns the sources to take out when there are too many stream objects: those of the split extents with the
    fewest blocks; among equals, of extents from the fewest sources; then the first. ``choose_aged`` has limited the
    aged extents, so that these alone do not exceed the limit."""
    split = np.flatnonzero(extents.is_split & (extents.fate != ExtentFate.AGED))
    assert len(split), "aged extents alone pass the limit of stream objects"
    extent, _ = _pairs(table, extents)
    spread = np.bincount(extent, minlength=len(extents))[split]
    order = split[np.lexsort((spread, extents.block_count[split]))]
    share = excess / max(1, len(split))
    return _give_up(table, extents, order, quota=int(source_count * share / 2))


def beyond_streams(
    table: Table, extents: Extents, excess: int, source_count: int, streams_of_sources: Integers
) -> set[int]:
    """Returns the sources to take out when the stream set object has too many streams: those of the small extent whose
    sources hold the fewest streams; among equals, the first."""
    small = np.flatnonzero(~extents.is_split)
    extent, source = _pairs(table, extents)
    weight = np.bincount(extent, weights=streams_of_sources[source], minlength=len(extents))[small]
    order = small[np.argsort(weight, kind="stable")]
    share = excess / max(1, len(small))
    return _give_up(table, extents, order, quota=int(source_count * share / 2))


def youngest(active: Truths, share: float) -> set[int]:
    """Returns the given share of the active sources, at least one, with the youngest data. Sources are numbered by age,
    the oldest first."""
    numbers = np.flatnonzero(active)
    assert len(numbers), "aged extents alone pass the limit of stream objects"
    return set(numbers[-max(1, int(len(numbers) * share)) :].tolist())


def _give_up(table: Table, extents: Extents, order: Integers, quota: int) -> set[int]:
    """Returns the sources of the first extent in ``order``, and of further extents as long as there are at most
    ``quota`` sources in all."""
    given_up: set[int] = set()
    for extent in order.tolist():
        more = given_up | set(table["source"][extents.first[extent] : extents.end[extent]].tolist())
        if given_up and len(more) > quota:
            break
        given_up = more
        if len(given_up) >= quota:
            break
    return given_up


def _pairs(table: Table, extents: Extents) -> tuple[Integers, Integers]:
    """Returns every pair (extent, source) once. The rows of one source need not be contiguous within an extent."""
    width = int(table["source"].max(initial=0)) + 1
    pairs = np.unique(extents.of_rows() * width + table["source"].astype(np.int64))
    return pairs // width, pairs % width
