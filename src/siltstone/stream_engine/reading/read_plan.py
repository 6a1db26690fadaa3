"""What to fetch for a read: pure, from ranges of the image and index entries to ranged GETs.

Bytes wanted are counted over blocks that are wanted whole. The first one of a read is usually wanted in part, so it
is free: a reader never gets less than it asked for because it began in the middle of a block (T33).
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from siltstone.model.errors import CorruptData
from siltstone.model.objects import ObjectRange
from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.block_index import BlockIndex


class IndexNotMatched(CorruptData):
    """The index of an object lacks offsets that the metadata says the object holds."""


class PlannedBlock(msgspec.Struct, frozen=True, gc=False):
    object_id: int
    entry: BlockEntry

    @property
    def key(self) -> tuple[int, int]:
        return self.object_id, self.entry.position


class BlockRequest(msgspec.Struct, frozen=True):
    """One ranged GET: blocks of one object that lie next to each other."""

    object_id: int
    entries: tuple[BlockEntry, ...]

    @property
    def position(self) -> int:
        return self.entries[0].position

    @property
    def end_position(self) -> int:
        return self.entries[-1].end_position

    @property
    def size_bytes(self) -> int:
        return self.end_position - self.position

    @property
    def keys(self) -> list[tuple[int, int]]:
        return [(self.object_id, entry.position) for entry in self.entries]

    @property
    def memory_bytes(self) -> int:
        """What it holds at its peak: the answer, and the blocks cut from it when there are several."""
        return self.size_bytes * (1 if len(self.entries) == 1 else 2)


def ranges_wanted(ranges: Iterable[ObjectRange], start_offset: int, bytes_wanted: int) -> list[ObjectRange]:
    """The first ranges that probably hold ``bytes_wanted`` from the offset on: those whose indexes to look into."""
    wanted: list[ObjectRange] = []
    for held in ranges:
        if bytes_wanted <= 0 and wanted:
            break
        wanted.append(held)
        offsets = held.end_offset - held.start_offset
        offsets_before = max(0, start_offset - held.start_offset)
        bytes_wanted -= held.size_bytes * (offsets - offsets_before) // offsets
    return wanted


def blocks_wanted(
    ranges: Sequence[ObjectRange],
    indexes: Mapping[int, BlockIndex],
    start_offset: int,
    end_offset: int | None,
    bytes_wanted: int,
) -> list[PlannedBlock]:
    """The blocks that hold [start, end) in order, as many as ``bytes_wanted`` take, at least one. Raises
    IndexNotMatched."""
    blocks: list[PlannedBlock] = []
    next_offset = start_offset
    for held in ranges:
        stop = held.end_offset if end_offset is None else min(end_offset, held.end_offset)
        for entry in indexes[held.object_id].blocks_of(held.stream_id, next_offset, stop):
            if bytes_wanted <= 0 and blocks:
                return blocks
            _check_continues(entry, held, next_offset)
            blocks.append(PlannedBlock(held.object_id, entry))
            bytes_wanted -= entry.size_bytes if entry.start_offset >= start_offset else 0
            next_offset = entry.end_offset
        if next_offset < stop:
            raise _not_matched(held, next_offset)
    return blocks


def requests_for(blocks: Iterable[PlannedBlock], request_bytes_max: int) -> list[BlockRequest]:
    """Adjacent blocks joined, up to ``request_bytes_max`` each; a block larger than that is a request of its own."""
    requests: list[BlockRequest] = []
    run: list[PlannedBlock] = []
    for block in blocks:
        if run and not _joins(run, block, request_bytes_max):
            requests.append(_request_of(run))
            run = []
        run.append(block)
    if run:
        requests.append(_request_of(run))
    return requests


def _joins(run: Sequence[PlannedBlock], block: PlannedBlock, request_bytes_max: int) -> bool:
    return (
        block.object_id == run[-1].object_id
        and block.entry.position == run[-1].entry.end_position
        and block.entry.end_position - run[0].entry.position <= request_bytes_max
    )


def _request_of(run: Sequence[PlannedBlock]) -> BlockRequest:
    return BlockRequest(run[0].object_id, tuple(block.entry for block in run))


def _check_continues(entry: BlockEntry, held: ObjectRange, next_offset: int) -> None:
    if entry.start_offset > next_offset:
        raise _not_matched(held, next_offset)


def _not_matched(held: ObjectRange, offset: int) -> IndexNotMatched:
    return IndexNotMatched(
        f"the index of object {held.object_id} has no block for offset {offset} of stream {held.stream_id}, which the "
        f"metadata says it holds ([{held.start_offset}, {held.end_offset})): run siltstone check"
    )
