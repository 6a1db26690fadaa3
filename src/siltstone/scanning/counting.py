"""Counts records without reading them where that is exact.

Three ways, each for what the one before cannot answer:

1. by offsets: in a dense range (``density``) there are as many records as offsets. Nothing is read;
2. by indexes: the index of an object has the number of records of each block, also where key compaction has
   rewritten it. The indexes are read, and the blocks in which a cut begins or ends;
3. by reading: the number of a block counts the markers of transactions and the records of aborted ones, and knows no
   times. ``to_read`` is left to the caller, who has a Spark for it.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import msgspec

from siltstone.foundation.quantity_words import counted, size_words
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.tasks.pacing import PacedThreads
from siltstone.offline.tasks.source_bytes import copies_at
from siltstone.offline.topic_streams import PartitionName
from siltstone.record_columns.row_columns import OFFSET
from siltstone.scanning.density import END, dense_range
from siltstone.scanning.reading import INDEXES
from siltstone.scanning.request import ScanRequest
from siltstone.scanning.rows import unit_rows
from siltstone.scanning.scan import ScanPlan, plan_scan
from siltstone.scanning.unit import ScanPiece, ScanUnit

INDEXES_AT_A_TIME = 8
"""Requests for indexes side by side: each waits for a bucket for tens of milliseconds, and returns little."""


class TopicCount(msgspec.Struct, frozen=True):
    """``records`` are counted. ``to_read`` are the offsets of partitions whose records are counted by reading
    ``bytes_to_read`` of objects, and whatever is in no object yet."""

    records: int
    by_offsets: int
    by_indexes: int
    objects_asked: int
    to_read: Mapping[PartitionName, tuple[int, int]] = {}
    bytes_to_read: int = 0

    def __str__(self) -> str:
        ways = [f"{counted(self.by_offsets, 'record')} by offsets, without a read"]
        if self.objects_asked:
            indexes = counted(self.objects_asked, "index", "indexes")
            ways.append(f"{counted(self.by_indexes, 'record')} by {indexes}")
        if self.to_read:
            ways.append(
                f"the rest of {counted(len(self.to_read), 'partition')} by reading"
                f" {size_words(self.bytes_to_read)}"
            )
        return "; ".join(ways)


def count_records(source: MaintenanceContext, request: ScanRequest) -> TopicCount:
    """Counts what needs no reading of records. Raises what ``plan_scan`` raises, and what the buckets raise."""
    request = msgspec.structs.replace(
        request, columns=(OFFSET,), values=None, rows_max=0, unit_bytes_max=END
    )  # a piece is a whole range of an object, which ends where a block does
    plan = plan_scan(source, request)
    image = source.metadata.refresh()  # not older than the ends that the owners told
    by_offsets = 0
    to_ask: dict[PartitionName, tuple[int, int]] = {}
    to_read: dict[PartitionName, tuple[int, int]] = {}
    for each in plan.cuts:
        if request.times is not None:
            to_read[each.of.key] = each.start_offset, each.end_offset
            continue
        dense = dense_range(image, each.of)
        first, last = dense.within(each.start_offset, each.end_offset)
        if each.start_offset < first and last < each.end_offset:
            to_read[each.of.key] = each.start_offset, each.end_offset
            continue
        by_offsets += last - first
        rest = (each.start_offset, first) if each.start_offset < first else (last, each.end_offset)
        if rest[0] == rest[1]:
            continue
        (to_read if dense.end_offset < rest[1] else to_ask)[each.of.key] = rest
    pieces = list(_pieces_in(plan, to_ask))
    by_indexes = _count_by_indexes(source, pieces)
    return TopicCount(
        by_offsets + by_indexes,
        by_offsets,
        by_indexes,
        len({piece.object_id for piece in pieces}),
        to_read,
        sum(piece.size_bytes for piece in _pieces_in(plan, to_read)),
    )


def _pieces_in(plan: ScanPlan, ranges: Mapping[PartitionName, tuple[int, int]]) -> Iterator[ScanPiece]:
    """Yields the parts of the planned pieces that lie in the ranges."""
    for piece in (piece for unit in plan.units for piece in unit.pieces):
        first, last = ranges.get((piece.topic, piece.partition), (END, END))
        start, end = max(piece.start_offset, first), min(piece.end_offset, last)
        if start < end:
            size_bytes = piece.size_bytes * (end - start) // (piece.end_offset - piece.start_offset)
            yield msgspec.structs.replace(piece, start_offset=start, end_offset=end, size_bytes=size_bytes)


def _count_by_indexes(source: MaintenanceContext, pieces: list[ScanPiece]) -> int:
    with PacedThreads(INDEXES_AT_A_TIME, thread_name_prefix="count") as threads:
        return sum(threads.map(partial(_records_of, source), pieces))


def _records_of(source: MaintenanceContext, piece: ScanPiece) -> int:
    """Counts the records of whole blocks by the index of their object, and reads the blocks that the piece cuts."""
    urls = source.buckets.urls
    copies = copies_at([(each, urls[each]) for each in piece.bucket_ids if each in urls], piece.object_id)
    index = INDEXES.of(copies, piece.object_id, piece.object_bytes)
    records = 0
    cut_blocks: list[ScanPiece] = []
    for entry in index.blocks_of(piece.stream_id, piece.start_offset, piece.end_offset):
        first, last = max(entry.start_offset, piece.start_offset), min(entry.end_offset, piece.end_offset)
        if (first, last) == (entry.start_offset, entry.end_offset):
            records += entry.record_count
        else:
            cut_blocks.append(msgspec.structs.replace(piece, start_offset=first, end_offset=last))
    return records + sum(_rows_of(source, cut_blocks))


def _rows_of(source: MaintenanceContext, pieces: list[ScanPiece]) -> Iterator[int]:
    unit = ScanUnit("", (OFFSET,), source.buckets.urls, source.clock.now_ms(), 0, tuple(pieces))
    return (batch.num_rows for batch in unit_rows(unit, source.clock, source.rng))
