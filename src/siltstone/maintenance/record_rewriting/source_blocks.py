"""Reads the sources of a task block by block, in offset order, each block verified against its index entry.

One request is read ahead while the blocks of the one before are processed, so two requests are in memory. Both scans
of a task read through the same ``Scanner``, which decodes the batches of each block.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future

import msgspec

from siltstone.maintenance.record_rewriting.values import SourceObject, SourcesToRead
from siltstone.model.errors import CorruptData
from siltstone.model.objects import object_key
from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.block_index import BlockIndex, DamagedBlock, verify_block
from siltstone.object_store.buckets import read_index
from siltstone.object_store.copies import Copies
from siltstone.object_store.port import ObjectNotFound
from siltstone.offline.tasks.pacing import PacedThreads
from siltstone.offline.tasks.source_bytes import read_block, read_source
from siltstone.record_columns.batches import Batches, BlockPlace, batches_of_block
from siltstone.record_columns.chunking import Records
from siltstone.record_columns.kernels import columns
from siltstone.record_columns.kernels.columns import Slots, read_only
from siltstone.record_columns.kernels.port import Kernels


class StreamNotCompactable(CorruptData):
    """An object of the stream has an index that cannot be read, or lacks a block. ``object_id`` names the object."""

    def __init__(self, object_id: int, what_is_wrong: str) -> None:
        super().__init__(what_is_wrong)
        self.object_id = object_id


class SourceBlock(msgspec.Struct, frozen=True):
    """A block with its index entry and the id of its object."""

    object_id: int
    entry: BlockEntry
    data: memoryview


class _Request(msgspec.Struct, frozen=True):
    """A ranged GET of adjacent blocks of one object."""

    source: SourceObject
    entries: list[BlockEntry]


class SourceBlocks:
    """The blocks of all sources. Indexes are read once, when this is made. ``bytes_read`` counts the blocks each time
    that they are read."""

    def __init__(self, given: SourcesToRead, copies_of: Callable[[SourceObject], Copies]) -> None:
        """Reads the indexes. Raises what ``read_index`` raises, and StreamNotCompactable."""
        self._copies_of = copies_of
        self._requests = [
            request
            for source in given.sources
            for request in self._requests_of(source, given.read_request_bytes_max)
        ]
        self.bytes_read = 0

    def _requests_of(self, source: SourceObject, bytes_max: int) -> Iterator[_Request]:
        held = source.held
        index = self._index_of(source)
        adjacent: list[BlockEntry] = []
        next_offset = held.start_offset
        for entry in index.blocks_of(held.stream_id, held.start_offset, held.end_offset):
            if entry.start_offset > next_offset:
                break
            next_offset = entry.end_offset
            if adjacent and not _joins(adjacent, entry, bytes_max):
                yield _Request(source, adjacent)
                adjacent = []
            adjacent.append(entry)
        if next_offset < held.end_offset:
            raise StreamNotCompactable(
                source.object_id,
                f"object {source.object_id} has no block for offset {next_offset} of stream {held.stream_id}: run"
                " siltstone check",
            )
        yield _Request(source, adjacent)

    def _index_of(self, source: SourceObject) -> BlockIndex:
        key = object_key(source.object_id)
        try:
            return self._copies_of(source).read(lambda store: read_index(store, key, source.size_bytes))
        except (CorruptData, ObjectNotFound) as cause:
            reason = f"the index of object {source.object_id} cannot be read: {cause}"
            raise StreamNotCompactable(source.object_id, reason) from cause

    def records_between(self, start_offset: int, end_offset: int) -> int:
        """Returns an upper bound of the number of records with offsets in [start, end)."""
        return sum(
            entry.record_count
            for request in self._requests
            for entry in request.entries
            if start_offset < entry.end_offset and entry.start_offset < end_offset
        )

    def read(self, from_offset: int = 0) -> Iterator[SourceBlock]:
        """Yields the blocks that end after ``from_offset``. Raises DamagedBlock, and what the store raises."""
        wanted = (each for each in self._requests if each.entries[-1].end_offset > from_offset)
        for request, data in self._fetched(wanted):
            first = request.entries[0].position
            for entry in request.entries:
                if entry.end_offset > from_offset:
                    block = data[entry.position - first : entry.end_position - first]
                    yield SourceBlock(
                        request.source.object_id, entry, self._verified(request.source, entry, block)
                    )

    def _verified(self, source: SourceObject, entry: BlockEntry, block: memoryview) -> memoryview:
        """Returns the block, or the block of another copy if it is damaged. Raises DamagedBlock, and what the stores
        raise."""
        try:
            verify_block(block, entry, source.object_id)
        except DamagedBlock:
            copies = self._copies_of(source)
            if not copies.are_several:
                raise
            return memoryview(read_block(copies, source.object_id, entry))
        return block

    def _fetched(self, requests: Iterable[_Request]) -> Iterator[tuple[_Request, memoryview]]:
        with PacedThreads(1, thread_name_prefix="key-compaction-read") as reader:
            ahead: tuple[_Request, Future[bytes]] | None = None
            for request in requests:
                begun = (request, reader.submit(self._fetch, request))
                if ahead is not None:
                    yield self._arrived(*ahead)
                ahead = begun
            if ahead is not None:
                yield self._arrived(*ahead)

    def _fetch(self, request: _Request) -> bytes:
        copies = self._copies_of(request.source)
        first, last = request.entries[0], request.entries[-1]
        return read_source(copies, request.source.object_id, first.position, last.end_position)

    def _arrived(self, request: _Request, fetched: "Future[bytes]") -> tuple[_Request, memoryview]:
        data = fetched.result()
        self.bytes_read += len(data)
        return request, memoryview(data)


def _joins(adjacent: list[BlockEntry], entry: BlockEntry, bytes_max: int) -> bool:
    return (
        entry.position == adjacent[-1].end_position and entry.end_position - adjacent[0].position <= bytes_max
    )


class Scanner(msgspec.Struct, frozen=True):
    """Reads and decodes the batches of a stream, and hashes the keys of records."""

    stream_id: int
    hash_key: bytes
    blocks: SourceBlocks
    kernels: Kernels

    def scan(self, from_offset: int = 0) -> Iterator[Batches]:
        """Yields the batches of every block that ends after ``from_offset``. Raises DamagedBlock, UnreadableBatch, and
        what the store raises."""
        for block in self.blocks.read(from_offset):
            yield self._batches_of(block)

    def _batches_of(self, block: SourceBlock) -> Batches:
        where = BlockPlace(block.object_id, block.entry.position)
        return batches_of_block(read_only(block.data), self.stream_id, where, self.kernels)

    def hashes(self, records: Records) -> Slots:
        found = records.columns
        return self.kernels.hash_keys(
            records.data, found[columns.KEY_AT], found[columns.KEY_BYTES], self.hash_key
        )
