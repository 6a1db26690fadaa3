"""Plans a read: finds the blocks to read and the ranged GETs from ranges of the image and index entries. Pure.

The bytes wanted are counted over the blocks that a read needs whole. A read usually needs only a part of its first
block, so a first block that begins before the start offset is not counted: a reader never gets less than it asked for
because it began in the middle of a block (T33).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

import msgspec

from siltstone.model.errors import CorruptData
from siltstone.model.objects import ObjectRange
from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.block_index import BlockIndex


class IndexNotMatched(CorruptData):
    """The index of an object lacks the offsets up to ``end_offset``, which the object holds according to the
    metadata."""

    def __init__(self, held: ObjectRange, offset: int, end_offset: int) -> None:
        super().__init__(
            f"the index of object {held.object_id} has no block for offset {offset} of stream {held.stream_id}, but "
            f"according to the metadata the object holds [{held.start_offset}, {held.end_offset})"
        )
        self.object_id = held.object_id
        self.end_offset = end_offset


class PlannedBlock(msgspec.Struct, frozen=True, gc=False):
    object_id: int
    entry: BlockEntry

    @property
    def key(self) -> tuple[int, int]:
        return self.object_id, self.entry.position


class BlockRequest(msgspec.Struct, frozen=True):
    """One ranged GET: adjacent blocks of one object."""

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
        """The memory that the request needs at its peak: the answer, and copies of its blocks if there are several."""
        return self.size_bytes * (1 if len(self.entries) == 1 else 2)


def ranges_wanted(ranges: Iterable[ObjectRange], start_offset: int, bytes_wanted: int) -> list[ObjectRange]:
    """Returns the first ranges that probably hold ``bytes_wanted`` from the offset on; their indexes are read next."""
    wanted: list[ObjectRange] = []
    for held in ranges:
        if bytes_wanted <= 0 and wanted:
            break
        wanted.append(held)
        bytes_wanted -= bytes_from(held, start_offset)
    return wanted


def bytes_from(held: ObjectRange, start_offset: int) -> int:
    """Estimates how many bytes the range has from the offset on."""
    offsets = held.end_offset - held.start_offset
    offsets_before = max(0, start_offset - held.start_offset)
    return held.size_bytes * (offsets - offsets_before) // offsets


def blocks_wanted(
    ranges: Sequence[ObjectRange],
    indexes: Mapping[int, BlockIndex],
    start_offset: int,
    end_offset: int | None,
    bytes_wanted: int,
) -> list[PlannedBlock]:
    """Returns the blocks that hold [start, end) in order: as many as ``bytes_wanted`` need, at least one. The list ends
    before an offset that an index lacks. Raises IndexNotMatched if that is ``start_offset``."""
    blocks: list[PlannedBlock] = []
    next_offset = start_offset
    for held in ranges:
        stop = held.end_offset if end_offset is None else min(end_offset, held.end_offset)
        for entry in indexes[held.object_id].blocks_of(held.stream_id, next_offset, stop):
            if bytes_wanted <= 0 and blocks:
                return blocks
            if entry.start_offset > next_offset:
                return blocks or _refuse(held, next_offset, entry.start_offset)
            blocks.append(PlannedBlock(held.object_id, entry))
            bytes_wanted -= entry.size_bytes if entry.start_offset >= start_offset else 0
            next_offset = entry.end_offset
        if next_offset < stop:
            return blocks or _refuse(held, next_offset, held.end_offset)
    return blocks


def requests_for(blocks: Iterable[PlannedBlock], request_bytes_max: int) -> list[BlockRequest]:
    """Joins adjacent blocks into requests of at most ``request_bytes_max``; a larger block is a request of its own."""
    requests: list[BlockRequest] = []
    adjacent: list[PlannedBlock] = []
    for block in blocks:
        if adjacent and not _joins(adjacent, block, request_bytes_max):
            requests.append(_request_of(adjacent))
            adjacent = []
        adjacent.append(block)
    if adjacent:
        requests.append(_request_of(adjacent))
    return requests


def _joins(adjacent: Sequence[PlannedBlock], block: PlannedBlock, request_bytes_max: int) -> bool:
    return (
        block.object_id == adjacent[-1].object_id
        and block.entry.position == adjacent[-1].entry.end_position
        and block.entry.end_position - adjacent[0].entry.position <= request_bytes_max
    )


def _request_of(adjacent: Sequence[PlannedBlock]) -> BlockRequest:
    return BlockRequest(adjacent[0].object_id, tuple(block.entry for block in adjacent))


def _refuse(held: ObjectRange, offset: int, end_offset: int) -> NoReturn:
    raise IndexNotMatched(held, offset, end_offset)
