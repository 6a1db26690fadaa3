"""The blocks of a unit's sources, in offset order, each checked against its index entry.

One request is read ahead while the blocks of the last are worked on, so two are in memory.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from siltstone.maintenance.key_compaction.rewriting.failures import StreamNotCompactable
from siltstone.maintenance.key_compaction.unit import KeyCompactionUnit, SourceObject
from siltstone.model.block import BlockEntry
from siltstone.model.objects import object_key
from siltstone.object_formats.block_check import verify_block
from siltstone.object_store.object_index import read_index
from siltstone.object_store.port import ObjectStore


class SourceBlock(msgspec.Struct, frozen=True):
    object_id: int
    entry: BlockEntry
    data: memoryview


class _Request(msgspec.Struct, frozen=True):
    """One ranged GET: blocks of one object that lie next to each other."""

    source: SourceObject
    entries: list[BlockEntry]


class SourceBlocks:
    """Indexes are read once. ``bytes_read`` counts every reading again."""

    def __init__(self, unit: KeyCompactionUnit, store_of: Callable[[int], ObjectStore]) -> None:
        """Raises what ``read_index`` does, and StreamNotCompactable."""
        self._store_of = store_of
        self._requests = [
            request
            for source in unit.sources
            for request in self._requests_of(source, unit.read_request_bytes_max)
        ]
        self.bytes_read = 0

    def _requests_of(self, source: SourceObject, bytes_max: int) -> Iterator[_Request]:
        held = source.held
        index = read_index(self._store_of(source.bucket_id), object_key(source.object_id), source.size_bytes)
        run: list[BlockEntry] = []
        next_offset = held.start_offset
        for entry in index.blocks_of(held.stream_id, held.start_offset, held.end_offset):
            if entry.start_offset > next_offset:
                break
            next_offset = entry.end_offset
            if run and not _joins(run, entry, bytes_max):
                yield _Request(source, run)
                run = []
            run.append(entry)
        if next_offset < held.end_offset:
            raise StreamNotCompactable(
                f"object {source.object_id} has no block for offset {next_offset} of stream {held.stream_id}: run"
                " siltstone check"
            )
        yield _Request(source, run)

    def records_between(self, start_offset: int, end_offset: int) -> int:
        """At most so many have offsets in [start, end)."""
        return sum(
            entry.record_count
            for request in self._requests
            for entry in request.entries
            if start_offset < entry.end_offset and entry.start_offset < end_offset
        )

    def read(self, from_offset: int = 0) -> Iterator[SourceBlock]:
        """The blocks that end after the offset. Raises DamagedBlock and what the store raises."""
        wanted = (each for each in self._requests if each.entries[-1].end_offset > from_offset)
        for request, data in self._fetched(wanted):
            first = request.entries[0].position
            for entry in request.entries:
                if entry.end_offset > from_offset:
                    block = data[entry.position - first : entry.end_position - first]
                    verify_block(block, entry, request.source.object_id)
                    yield SourceBlock(request.source.object_id, entry, block)

    def _fetched(self, requests: Iterable[_Request]) -> Iterator[tuple[_Request, memoryview]]:
        with ThreadPoolExecutor(1, thread_name_prefix="key-compaction-read") as reader:
            ahead: tuple[_Request, Future[bytes]] | None = None
            for request in requests:
                begun = (request, reader.submit(self._fetch, request))
                if ahead is not None:
                    yield self._arrived(*ahead)
                ahead = begun
            if ahead is not None:
                yield self._arrived(*ahead)

    def _fetch(self, request: _Request) -> bytes:
        store = self._store_of(request.source.bucket_id)
        first, last = request.entries[0], request.entries[-1]
        return store.get_range(object_key(request.source.object_id), first.position, last.end_position)

    def _arrived(self, request: _Request, fetched: "Future[bytes]") -> tuple[_Request, memoryview]:
        data = fetched.result()
        self.bytes_read += len(data)
        return request, memoryview(data)


def _joins(run: list[BlockEntry], entry: BlockEntry, bytes_max: int) -> bool:
    return entry.position == run[-1].end_position and entry.end_position - run[0].position <= bytes_max
