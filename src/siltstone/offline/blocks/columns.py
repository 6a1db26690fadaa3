"""Index entries of source objects as columns, so that a million of them are sorted and grouped without making a
million values.

A table has the layout of ``object_formats.block_index``, 72 bytes a row. The last field is zero in an index; in a
plan it is the number of the source that holds the block. ``live_blocks`` makes the table of one source,
``sorted_table`` that of many, and ``plan_reads`` the ranged reads that fetch the blocks of a table.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState
from siltstone.model.errors import CorruptData, InvalidRequest
from siltstone.object_formats.block_index import INDEX_ENTRY_BYTES, BlockIndex


class Source(msgspec.Struct, frozen=True):
    """An object that a compaction may replace, with its index."""

    metadata: ObjectMetadata
    index: BlockIndex


class LeftOut(msgspec.Struct, frozen=True):
    """An object that a plan leaves as it is, and the reason in one line. ``is_failure`` says that it cannot be read."""

    object_id: int
    reason: str
    is_failure: bool = False


class SourceUnusable(CorruptData):
    """An object contradicts the image. It is left out of the plan, and nothing of it is dropped."""


class OverlappingSources(CorruptData):
    """Two objects hold the same live offsets of a stream. The whole plan is given up; ``siltstone check`` reports such
    overlaps."""


class MemoryLimitTooSmall(InvalidRequest):
    """The memory limit of an iteration is too small for one block beside a part that is too small to be uploaded."""


ENTRY = np.dtype(
    [
        ("stream_id", "<i8"),
        ("start_offset", "<i8"),
        ("end_offset", "<i8"),
        ("record_count", "<i8"),
        ("position", "<i8"),
        ("size_bytes", "<i8"),
        ("smallest_timestamp_ms", "<i8"),
        ("largest_timestamp_ms", "<i8"),
        ("crc32c", "<u4"),
        ("source", "<u4"),
    ]
)
assert ENTRY.itemsize == INDEX_ENTRY_BYTES

Table = npt.NDArray[np.void]
Integers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]

NEVER = np.iinfo(np.int64).max
"""The start offset of a deleted stream: no block of it is live."""


def live_blocks(source: Source, streams: Mapping[int, StreamMetadata]) -> Table:
    """Returns the blocks of a source that hold live offsets; a block that a trim has cut through is kept whole.

    A block is dropped only on proof: its stream is DELETED in the image, it lies wholly below the start offset, or the
    commit of the object left it out because it was dead already. Raises SourceUnusable when the image does not know a
    stream of the object, or when the index does not hold the ranges that the image says.
    """
    entries = np.frombuffer(source.index.raw, dtype=ENTRY)
    ranges = source.metadata.ranges
    held_stream = np.array([held.stream_id for held in ranges], dtype=np.int64)
    held_start = np.array([held.start_offset for held in ranges], dtype=np.int64)
    held_end = np.array([held.end_offset for held in ranges], dtype=np.int64)
    if not len(ranges):
        return entries[:0]
    at = np.minimum(np.searchsorted(held_stream, entries["stream_id"]), len(ranges) - 1)
    inside = (
        (held_stream[at] == entries["stream_id"])
        & (held_start[at] <= entries["start_offset"])
        & (entries["end_offset"] <= held_end[at])
    )
    offsets_found = (entries["end_offset"] - entries["start_offset"])[inside].sum()
    if offsets_found != (held_end - held_start).sum():
        raise SourceUnusable(
            "its index does not hold the offsets that the metadata says; run siltstone check"
        )
    live_from = np.array([_live_from(streams, held.stream_id) for held in ranges], dtype=np.int64)
    is_live = inside & (entries["end_offset"] > live_from[at])
    return entries if is_live.all() else entries[is_live]


def _live_from(streams: Mapping[int, StreamMetadata], stream_id: int) -> int:
    stream = streams.get(stream_id)
    if stream is None:
        raise SourceUnusable(f"stream {stream_id} is not in the image, and no record says it was deleted")
    return NEVER if stream.state is StreamState.DELETED else stream.start_offset


def sorted_table(tables: Sequence[Table], numbers: Sequence[int], object_ids: Sequence[int]) -> Table:
    """Returns the blocks of all tables, sorted by stream and start offset, each with the number of its source.
    ``object_ids`` has the id of each source, by number. Raises OverlappingSources."""
    if not tables:
        return np.empty(0, dtype=ENTRY)
    table = np.concatenate(tables)
    table["source"] = np.repeat(np.array(numbers, dtype=np.uint32), [len(each) for each in tables])
    table = table[np.lexsort((table["start_offset"], table["stream_id"]))]
    _refuse_overlap(table, object_ids)
    return table


def _refuse_overlap(table: Table, object_ids: Sequence[int]) -> None:
    overlaps = (table["stream_id"][1:] == table["stream_id"][:-1]) & (
        table["start_offset"][1:] < table["end_offset"][:-1]
    )
    if overlaps.any():
        at = int(overlaps.argmax())
        first, second = table[at], table[at + 1]
        raise OverlappingSources(
            f"objects {object_ids[first['source']]} and {object_ids[second['source']]} both hold offset"
            f" {second['start_offset']} of stream {first['stream_id']}; run siltstone check"
        )


class Read(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Bytes [start, end) of source number ``source``."""

    source: int
    start: int
    end: int


def plan_reads(blocks: Table, request_bytes_max: int) -> list[Read]:
    """Returns the reads that fetch the blocks, by source, then position. Adjacent blocks make a span, which is cut into
    reads of at most ``request_bytes_max``; a read may end inside a block, so that a span needs the fewest reads."""
    if not len(blocks):
        return []
    ordered = blocks[["source", "position", "size_bytes"]][np.lexsort((blocks["position"], blocks["source"]))]
    source, start = ordered["source"], ordered["position"]
    end = start + ordered["size_bytes"]
    begins = np.ones(len(blocks), dtype=np.bool_)
    begins[1:] = (source[1:] != source[:-1]) | (start[1:] != end[:-1])
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(blocks)) - 1
    spans = zip(source[first].tolist(), start[first].tolist(), end[last].tolist(), strict=True)
    return [
        Read(number, position, min(position + request_bytes_max, span_end))
        for number, span_start, span_end in spans
        for position in range(span_start, span_end, request_bytes_max)
    ]
