"""Which sources share a stream with another one (T04). Worked out again each time a limit takes a source away.

Which old stream set objects are split into stream objects whatever their neighbours (T07).

Those of one round are split together, so extents that continue from one into the next become one stream object. An
object of more streams than the round may add stays an ordinary candidate, or it would be in the way for ever.

Limits take sources out of a round (T03): too many stream objects, too many streams in the stream set object.

One limit passed: the sources of the one extent that is cheapest to give up go, and everything is worked out again. Far
beyond a limit several extents are given up at once, or a thousand sources would take a thousand rounds of planning.

Sources in, plan out. Pure: the same sources, image and time give the same plan.

The steps and their order are those of the package's docstring; ``_within_limits`` goes back to grouping each time a
limit takes sources out.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from siltstone.maintenance.blocks.columns import (
    Integers,
    LeftOut,
    Source,
    SourceUnusable,
    Table,
    Truths,
    live_blocks,
    sorted_table,
)
from siltstone.maintenance.settings import CompactionSettings
from siltstone.maintenance.stream_set_compaction.candidates import is_old
from siltstone.maintenance.stream_set_compaction.grouping import Extents, Fate
from siltstone.maintenance.stream_set_compaction.iterations import Bounds, cut
from siltstone.maintenance.stream_set_compaction.placement import classes_of, place
from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan, StreamObjectPieces, small_rows
from siltstone.maintenance.stream_set_compaction.retention_class import Classes, RetentionClass
from siltstone.metadata.entities import StreamMetadata


class Sharing:
    """Every pair (stream, source) of a table once, so that the question costs pairs, not blocks."""

    def __init__(self, table: Table, source_count: int) -> None:
        self._source_count = source_count
        _, stream = np.unique(table["stream_id"], return_inverse=True)
        pairs = np.unique(stream.astype(np.int64) * source_count + table["source"])
        self._stream: Integers = pairs // max(1, source_count)
        self._source: Integers = pairs % max(1, source_count)

    def sharing(self, active: Truths) -> Truths:
        """Of the active sources those that share a stream with another active one."""
        counted = active[self._source]
        holders = np.bincount(self._stream[counted], minlength=1)
        shared = counted & (holders[self._stream.clip(max=len(holders) - 1)] > 1)
        found = np.zeros(self._source_count, dtype=np.bool_)
        found[self._source[shared]] = True
        return found

    def streams_of_sources(self) -> Integers:
        """How many streams each source holds."""
        return np.bincount(self._source, minlength=self._source_count)


def choose_aged(
    sources: Sequence[Source], tables: Sequence[Table], settings: CompactionSettings, now_ms: int
) -> set[int]:
    """The numbers of the sources to split, oldest first within the limit of stream objects."""
    aged: set[int] = set()
    room = settings.stream_objects_max
    for number, source in enumerate(sources):
        if is_old(source.metadata, settings, now_ms) and (cost := _cost(tables[number], settings)) <= room:
            aged.add(number)
            room -= cost
    return aged


def _cost(table: Table, settings: CompactionSettings) -> int:
    """At most so many stream objects: one for each extent, and one for each cut at the memory limit."""
    if not len(table):
        return 0
    extents = Extents(np.sort(table, order=["stream_id", "start_offset"]), 0, settings.split_size_bytes)
    return len(extents) + int(2 * extents.size_bytes.sum() // settings.memory_bytes)


def beyond_stream_objects(table: Table, extents: Extents, excess: int, source_count: int) -> set[int]:
    """Sources of the split extents with the fewest blocks; of those, the ones from the fewest sources; of those, the
    first. The aged extents alone are within the limit: ``force_split`` saw to it."""
    split = np.flatnonzero(extents.is_split & (extents.fate != Fate.AGED))
    assert len(split), "aged extents alone pass the limit of stream objects"
    extent, _ = _pairs(table, extents)
    spread = np.bincount(extent, minlength=len(extents))[split]
    order = split[np.lexsort((spread, extents.block_count[split]))]
    share = excess / max(1, len(split))
    return _give_up(table, extents, order, quota=int(source_count * share / 2))


def beyond_streams(
    table: Table, extents: Extents, excess: int, source_count: int, streams_of_sources: Integers
) -> set[int]:
    """Sources of the small extent whose sources hold the fewest streams; of those, the first."""
    small = np.flatnonzero(~extents.is_split)
    extent, source = _pairs(table, extents)
    weight = np.bincount(extent, weights=streams_of_sources[source], minlength=len(extents))[small]
    order = small[np.argsort(weight, kind="stable")]
    share = excess / max(1, len(small))
    return _give_up(table, extents, order, quota=int(source_count * share / 2))


def youngest(active: Truths, share: float) -> set[int]:
    """The share of the active sources with the youngest data, at least one: sources are numbered oldest first."""
    numbers = np.flatnonzero(active)
    assert len(numbers), "aged extents alone pass the limit of stream objects"
    return set(numbers[-max(1, int(len(numbers) * share)) :].tolist())


def _give_up(table: Table, extents: Extents, order: Integers, quota: int) -> set[int]:
    """The sources of the first extent, and of those after it as long as they are at most ``quota`` in all."""
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
    """Every (extent, source) once. Within an extent a source may come, go and come back."""
    width = int(table["source"].max(initial=0)) + 1
    pairs = np.unique(extents.of_rows() * width + table["source"].astype(np.int64))
    return pairs // width, pairs % width


NO_PARTNER = "it shares no stream with another stream set object"
BEYOND_STREAM_OBJECTS = "with it the round would make more stream objects than one commit may add"
BEYOND_STREAMS = "with it the new stream set object would hold more streams than one may"


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
    """With ``is_every_source_wanted`` the sources were chosen for themselves, and need no stream in common. Raises
    OverlappingSources, MemoryLimitTooSmall."""
    usable, tables, unusable = _usable(sources, streams)
    aged = choose_aged(usable, tables, settings, now_ms)
    object_ids = [source.metadata.object_id for source in usable]
    numbers = range(len(usable))
    # Sorted together once: sources that overlap are found whichever way they go.
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
    )


class _Chosen(msgspec.Struct, frozen=True):
    table: Table
    extents: Extents
    bounds: list[Bounds]
    ordinary: Truths
    excluded: dict[int, str]


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
            left_out.append(LeftOut(source.metadata.object_id, str(unusable)))
        else:
            usable.append(source)
    return usable, tables, left_out


def _with_compacted(table: Table, classes: Classes, source_count: int) -> Truths:
    """The sources that hold something of a compacted topic: it is split off whatever their neighbours."""
    stream_ids, number = np.unique(table["stream_id"], return_inverse=True)
    is_compacted = (classes_of(stream_ids, classes) == RetentionClass.COMPACTED)[number]
    return _truths(source_count, set(table["source"][is_compacted].tolist()))


def _within_limits(
    table: Table, is_aged: Truths, alone: Truths, classes: Classes, settings: CompactionSettings
) -> _Chosen:
    """Groups and cuts; as long as a limit is passed, without the sources it costs (T03). ``alone``: those that are
    worth it without a partner."""
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
) -> tuple[set[int], str, list[Bounds]]:
    """The sources to leave out and why; none, and the iterations, when no limit is passed."""
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
        # Not too many extents, too many bytes: cutting at the memory limit makes more stream objects than extents.
        return youngest(ordinary, excess / pieces), BEYOND_STREAM_OBJECTS, []
    return set(), "", bounds


def _or_youngest(victims: set[int], ordinary: Truths) -> set[int]:
    """An extent that comes from every source would take the whole round with it: the younger half goes instead."""
    return youngest(ordinary, 0.5) if len(victims) == ordinary.sum() > 2 else victims


def _rows_of(table: Table, wanted: Truths) -> Table:
    """The rows of the wanted sources. Without a copy when that is all of them: a table has a hundred megabytes."""
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
