"""Sources in, plan out. Pure: the same sources, image and time give the same plan.

The steps and their order are those of the package's docstring; ``_within_limits`` goes back to grouping each time a
limit takes sources out.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from siltstone.maintenance.planning.columns import Table, Truths, live_blocks, sorted_table
from siltstone.maintenance.planning.exclusion import beyond_stream_objects, beyond_streams, youngest
from siltstone.maintenance.planning.force_split import choose_aged
from siltstone.maintenance.planning.grouping import Runs
from siltstone.maintenance.planning.iterations import Bounds, cut
from siltstone.maintenance.planning.pieces import StreamObjectPieces
from siltstone.maintenance.planning.placement import classes_of, place
from siltstone.maintenance.planning.plan import CompactionPlan, small_rows
from siltstone.maintenance.planning.retention_class import Classes, RetentionClass
from siltstone.maintenance.planning.sharing import Sharing
from siltstone.maintenance.planning.sources import LeftOut, Source, SourceUnusable
from siltstone.maintenance.settings import CompactionSettings
from siltstone.metadata.entities import StreamMetadata

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
        runs=chosen.runs,
        bounds=chosen.bounds,
        settings=settings,
        has_remaining=has_remaining or bool(chosen.excluded),
    )


class _Chosen(msgspec.Struct, frozen=True):
    table: Table
    runs: Runs
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
        runs = Runs(rows, len(aged_table), settings.split_size_bytes)
        place(rows, runs, classes, settings)
        victims, reason, bounds = _beyond_limits(rows, runs, ordinary, sharing, settings)
        if not victims:
            return _Chosen(rows, runs, bounds, ordinary, excluded)
        excluded |= dict.fromkeys(victims, reason)
        active[list(victims)] = False


def _beyond_limits(
    rows: Table, runs: Runs, ordinary: Truths, sharing: Sharing, settings: CompactionSettings
) -> tuple[set[int], str, list[Bounds]]:
    """The sources to leave out and why; none, and the iterations, when no limit is passed."""
    split_count = int(runs.is_split.sum())
    excess = split_count - settings.stream_objects_max
    if excess > 0:
        victims = beyond_stream_objects(rows, runs, excess, int(ordinary.sum()))
        return _or_youngest(victims, ordinary), BEYOND_STREAM_OBJECTS, []
    excess = len(runs) - split_count - settings.streams_max
    if excess > 0:
        victims = beyond_streams(rows, runs, excess, int(ordinary.sum()), sharing.streams_of_sources())
        return _or_youngest(victims, ordinary), BEYOND_STREAMS, []
    bounds = cut(rows, runs, small_rows(runs), settings)
    pieces = len(StreamObjectPieces(rows, runs, bounds))
    excess = pieces - settings.stream_objects_max
    if excess > 0:
        # Not too many runs, too many bytes: cutting at the memory limit makes more stream objects than runs.
        return youngest(ordinary, excess / pieces), BEYOND_STREAM_OBJECTS, []
    return set(), "", bounds


def _or_youngest(victims: set[int], ordinary: Truths) -> set[int]:
    """A run that comes from every source would take the whole round with it: the younger half goes instead."""
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
