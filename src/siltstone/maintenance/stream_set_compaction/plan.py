"""Defines the plan of a round: which objects are replaced, by which new objects, in which iterations.

A plan is a value that follows from indexes, image and settings. The bytes of every new object follow from the plan,
down to its index and footer, so a task that runs twice writes the same bytes to the same places. A plan of 15 TiB is
columns of some hundred megabytes; its iterations are made one at a time.

New objects are numbered: the stream set object first, when there is one, then the stream objects in the order of
writing. An object's id is the first prepared id plus its number. ``planned_outputs`` describes the new objects to
people, each with the reason for making it.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from siltstone.carrying.pipeline.kind import PlannedOutput
from siltstone.maintenance.stream_set_compaction.iterations import ExtentFate, Extents, IterationBounds
from siltstone.maintenance.stream_set_compaction.task_input import (
    Iteration,
    PartPiece,
    SourceReference,
    StreamObjectPiece,
)
from siltstone.metadata.commands import NewObject
from siltstone.model.limits import MINUTE_MS
from siltstone.model.objects import ObjectKind, ObjectRange
from siltstone.offline.blocks.columns import Integers, LeftOut, Source, Table, plan_reads
from siltstone.offline.blocks.joining import joined, joined_starts, trailer, trailer_size
from siltstone.offline.settings import CompactionSettings


class StreamObjectPieces:
    """Stream object ``i`` is rows [first[i], end[i]): a split extent, or the piece of one that an iteration writes."""

    __slots__ = ("end", "extent", "first")

    def __init__(self, table: Table, extents: Extents, bounds: Sequence[IterationBounds]) -> None:
        extent_of_row = extents.of_rows()
        rows = np.flatnonzero(extents.is_split[extent_of_row]) if len(table) else np.empty(0, dtype=np.int64)
        ends = np.array([each.end for each in bounds], dtype=np.int64)
        iteration = np.searchsorted(ends, rows, side="right")
        extent = extent_of_row[rows]
        begins = np.ones(len(rows), dtype=np.bool_)
        begins[1:] = (extent[1:] != extent[:-1]) | (iteration[1:] != iteration[:-1])
        self.first: Integers = rows[begins]
        last = np.append(np.flatnonzero(begins)[1:], len(rows)) - 1
        self.end: Integers = rows[last] + 1 if len(rows) else rows
        self.extent: Integers = extent[begins]

    def __len__(self) -> int:
        return len(self.first)

    def between(self, first_row: int, end_row: int) -> range:
        """Returns the numbers of the stream objects that begin in rows [first_row, end_row)."""
        return range(int(np.searchsorted(self.first, first_row)), int(np.searchsorted(self.first, end_row)))


class StreamObjectSizes:
    """The facts about each stream object for the commit: the bytes of its blocks, the bytes of the object, and its
    largest timestamp."""

    __slots__ = ("entry_count", "largest_timestamp_ms", "object_bytes", "size_bytes")

    def __init__(self, table: Table, pieces: StreamObjectPieces, merged_block_bytes_max: int) -> None:
        breaks = np.zeros(len(table), dtype=np.bool_)
        breaks[pieces.first] = True
        starts = joined_starts(table, breaks, merged_block_bytes_max)
        bytes_before = np.concatenate(([0], np.cumsum(table["size_bytes"])))
        self.size_bytes: Integers = bytes_before[pieces.end] - bytes_before[pieces.first]
        self.entry_count: Integers = np.searchsorted(starts, pieces.end) - np.searchsorted(
            starts, pieces.first
        )
        self.object_bytes: Integers = self.size_bytes + trailer_size(self.entry_count)
        self.largest_timestamp_ms: Integers = _largest(table, pieces)


def _largest(table: Table, pieces: StreamObjectPieces) -> Integers:
    if not len(pieces):
        return np.empty(0, dtype=np.int64)
    bounds = np.stack((pieces.first, pieces.end), axis=1).ravel()
    padded = np.append(table["largest_timestamp_ms"], np.iinfo(np.int64).min)
    return np.maximum.reduceat(padded, bounds)[::2]


class CompactionPlan:
    """``sources`` are all usable candidates, by number; ``compacted`` has the numbers of the sources that are replaced.
    ``table`` holds the live blocks of the compacted sources by stream and offset, those of the force split first."""

    def __init__(
        self,
        *,
        sources: Sequence[Source],
        compacted: Sequence[int],
        left_out: Sequence[LeftOut],
        table: Table,
        extents: Extents,
        bounds: Sequence[IterationBounds],
        settings: CompactionSettings,
        has_remaining: bool,
        force_split: int = 0,
    ) -> None:
        """``force_split``: the number of sources that are so old that they are split."""
        self.sources = tuple(sources)
        self.compacted_sources = tuple(sources[number] for number in compacted)
        self.left_out = tuple(left_out)
        self.table = table
        self.extents = extents
        self.bounds = tuple(bounds)
        self.settings = settings
        self.has_remaining = has_remaining
        self.force_split = force_split
        self.small_rows: Integers = small_rows(extents)
        self.pieces = StreamObjectPieces(table, extents, bounds)

    @property
    def is_empty(self) -> bool:
        """Whether no object is replaced, so that there is nothing to do."""
        return not self.compacted_sources

    @property
    def compacted_ids(self) -> tuple[int, ...]:
        return tuple(source.metadata.object_id for source in self.compacted_sources)

    @property
    def has_stream_set_object(self) -> bool:
        return len(self.small_rows) > 0

    @property
    def object_count(self) -> int:
        """The number of new objects."""
        return self.has_stream_set_object + len(self.pieces)

    @property
    def stream_of_pieces(self) -> list[int]:
        """The stream of each stream object, by number."""
        return [int(stream_id) for stream_id in self.table["stream_id"][self.pieces.first]]

    @property
    def live_bytes(self) -> int:
        """The bytes that the round reads. It writes the same bytes, and indexes and footers in addition."""
        return int(self.table["size_bytes"].sum())

    @cached_property
    def stream_objects(self) -> StreamObjectSizes:
        return StreamObjectSizes(self.table, self.pieces, self.settings.merged_block_bytes_max)

    @cached_property
    def stream_set_index(self) -> Table:
        """The index entries of the stream set object."""
        return joined(self.table[self.small_rows], self.settings.merged_block_bytes_max)

    @property
    def index_entries_after(self) -> int:
        return len(self.stream_set_index) + int(self.stream_objects.entry_count.sum())

    def iteration(self, at: int) -> Iteration:
        """Iteration number ``at`` + 1."""
        bounds = self.bounds[at]
        numbers = self.pieces.between(bounds.first, bounds.end)
        spans = [(int(self.pieces.first[number]), int(self.pieces.end[number])) for number in numbers]
        small = self.small_rows[bounds.part_first : bounds.part_end]
        rows = np.concatenate([*(np.arange(*span) for span in spans), small])
        blocks = self.table[rows]
        used, blocks["source"] = np.unique(blocks["source"], return_inverse=True)
        return Iteration(
            number=at + 1,
            sources=tuple(self._reference(number) for number in used),
            reads=tuple(plan_reads(blocks, self.settings.read_request_bytes_max)),
            blocks=blocks.tobytes(),
            stream_objects=self._stream_object_pieces(numbers, spans),
            part=self._part(bounds, len(rows) - len(small)) if len(small) else None,
            merged_block_bytes_max=self.settings.merged_block_bytes_max,
        )

    def new_objects(self, first_object_id: int) -> tuple[NewObject | None, tuple[NewObject, ...]]:
        """Returns the new objects as the commit lists them: the stream set object, if there is one, and the stream
        objects."""
        sets = self._new_stream_set_object(first_object_id) if self.has_stream_set_object else None
        first = first_object_id + self.has_stream_set_object
        return sets, tuple(
            self._new_stream_object(number, first + number) for number in range(len(self.pieces))
        )

    def _reference(self, number: int) -> SourceReference:
        metadata = self.sources[number].metadata
        return SourceReference(metadata.object_id, metadata.bucket_id, metadata.copies)

    def _stream_object_pieces(
        self, numbers: range, spans: Sequence[tuple[int, int]]
    ) -> tuple[StreamObjectPiece, ...]:
        made: list[StreamObjectPiece] = []
        block = 0
        for number, (first, end) in zip(numbers, spans, strict=True):
            size_bytes = int(self.stream_objects.object_bytes[number])
            made.append(
                StreamObjectPiece(self.has_stream_set_object + number, block, block + end - first, size_bytes)
            )
            block += end - first
        return tuple(made)

    def _part(self, bounds: IterationBounds, first_block: int) -> PartPiece:
        is_last = bounds.part_end == len(self.small_rows)
        return PartPiece(
            part_number=self._part_numbers[bounds],
            position=int(self._small_bytes_before[bounds.part_first]),
            first_block=first_block,
            end_block=first_block + bounds.part_end - bounds.part_first,
            trailer=self._trailer if is_last else b"",
        )

    @cached_property
    def _part_numbers(self) -> Mapping[IterationBounds, int]:
        with_part = (bounds for bounds in self.bounds if bounds.part_end > bounds.part_first)
        return {bounds: number for number, bounds in enumerate(with_part, start=1)}

    @cached_property
    def _small_bytes_before(self) -> Integers:
        return np.concatenate(([0], np.cumsum(self.table["size_bytes"][self.small_rows])))

    @cached_property
    def _trailer(self) -> bytes:
        return trailer(self.table[self.small_rows], self.settings.merged_block_bytes_max)

    def _new_stream_object(self, number: int, object_id: int) -> NewObject:
        first, last = self.table[self.pieces.first[number]], self.table[self.pieces.end[number] - 1]
        sizes = self.stream_objects
        held = ObjectRange(
            stream_id=int(first["stream_id"]),
            object_id=object_id,
            start_offset=int(first["start_offset"]),
            end_offset=int(last["end_offset"]),
            size_bytes=int(sizes.size_bytes[number]),
            largest_timestamp_ms=int(sizes.largest_timestamp_ms[number]),
        )
        return NewObject(object_id, int(sizes.object_bytes[number]), (held,))

    def _new_stream_set_object(self, object_id: int) -> NewObject:
        """Returns the stream set object, with one range for each small extent: no stream has two of them."""
        extents = np.flatnonzero(~self.extents.is_split)
        ranges = tuple(self._range_of_extent(int(extent), object_id) for extent in extents)
        return NewObject(object_id, int(self._small_bytes_before[-1]) + len(self._trailer), ranges)

    def _range_of_extent(self, extent: int, object_id: int) -> ObjectRange:
        rows = self.table[self.extents.first[extent] : self.extents.end[extent]]
        return ObjectRange(
            stream_id=int(rows["stream_id"][0]),
            object_id=object_id,
            start_offset=int(rows["start_offset"][0]),
            end_offset=int(rows["end_offset"][-1]),
            size_bytes=int(rows["size_bytes"].sum()),
            largest_timestamp_ms=int(rows["largest_timestamp_ms"].max()),
        )


def small_rows(extents: Extents) -> Integers:
    """Returns the rows that are written to the stream set object, in order."""
    return (
        np.flatnonzero(~extents.is_split[extents.of_rows()]) if len(extents) else np.empty(0, dtype=np.int64)
    )


def planned_outputs(plan: CompactionPlan) -> Iterator[PlannedOutput]:
    """Yields the outputs in the order of their numbers, which is that of their object ids."""
    if plan.has_stream_set_object:
        yield _stream_set_row(plan)
    ends = np.array([bounds.end for bounds in plan.bounds], dtype=np.int64)
    for number in range(len(plan.pieces)):
        yield _stream_object_row(
            plan, number, int(np.searchsorted(ends, plan.pieces.first[number], "right")) + 1
        )


def _stream_set_row(plan: CompactionPlan) -> PlannedOutput:
    rows = plan.table[plan.small_rows]
    parts = [at for at, bounds in enumerate(plan.bounds, start=1) if bounds.part_end > bounds.part_first]
    streams = int((~plan.extents.is_split).sum())
    return PlannedOutput(
        makes=ObjectKind.STREAM_SET_OBJECT.label,
        stream_id=None,
        start_offset=None,
        end_offset=None,
        streams=streams,
        blocks=len(rows),
        size_bytes=int(rows["size_bytes"].sum()),
        sources=_source_ids(plan, rows["source"]),
        first_task=parts[0],
        last_task=parts[-1],
        reason=f"small extents of {streams} streams, none larger than {plan.settings.split_size_bytes:,} bytes",
    )


def _stream_object_row(plan: CompactionPlan, number: int, iteration: int) -> PlannedOutput:
    first, end = int(plan.pieces.first[number]), int(plan.pieces.end[number])
    rows = plan.table[first:end]
    return PlannedOutput(
        makes=ObjectKind.STREAM_OBJECT.label,
        stream_id=int(rows["stream_id"][0]),
        start_offset=int(rows["start_offset"][0]),
        end_offset=int(rows["end_offset"][-1]),
        streams=1,
        blocks=len(rows),
        size_bytes=int(rows["size_bytes"].sum()),
        sources=_source_ids(plan, rows["source"]),
        first_task=iteration,
        last_task=iteration,
        reason=_reason(plan, number, first, end),
    )


def _reason(plan: CompactionPlan, number: int, first: int, end: int) -> str:
    extent = int(plan.pieces.extent[number])
    whole = (int(plan.extents.first[extent]), int(plan.extents.end[extent]))
    split = f"{plan.settings.split_size_bytes:,}"
    text = {
        ExtentFate.AGED: f"its source is older than {plan.settings.force_split_age_ms // MINUTE_MS} minutes",
        ExtentFate.LARGE: f"{plan.extents.size_bytes[extent]:,} bytes of one stream, more than {split}",
        ExtentFate.COMPACTED: "its topic is compacted",
        ExtentFate.CLASS: "most of the stream set object has another retention time",
        ExtentFate.GAP: f"the stream continues at offset {plan.table['end_offset'][whole[1] - 1]:,} in other objects",
    }[ExtentFate(int(plan.extents.fate[extent]))]
    return text if (first, end) == whole else f"{text}; cut at the memory limit"


def _source_ids(plan: CompactionPlan, numbers: "np.typing.NDArray[np.uint32]") -> tuple[int, ...]:
    return tuple(plan.sources[number].metadata.object_id for number in np.unique(numbers))
