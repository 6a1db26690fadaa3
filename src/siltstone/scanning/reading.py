"""Reads the blocks of a scan unit, each verified against its index entry, in the order of the pieces.

Adjacent blocks of an object are read by one request of at most READ_REQUEST_BYTES_MAX. One request is read ahead while
the blocks of the one before are decoded, so two requests are in memory. Indexes are kept in a small cache of the
process, because the tasks that read other parts of the same object need them, too.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock

import msgspec

from siltstone.model.errors import CorruptData
from siltstone.model.limits import INDEX_CACHE_BYTES_MAX, READ_REQUEST_BYTES_MAX
from siltstone.model.objects import object_key
from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.block_index import BlockIndex, DamagedBlock, verify_block
from siltstone.object_store.buckets import UnknownBucket, read_index
from siltstone.object_store.copies import Copies
from siltstone.object_store.port import ObjectNotFound
from siltstone.offline.tasks.pacing import PacedThreads
from siltstone.offline.tasks.source_bytes import copies_at, read_block
from siltstone.runtime.clock import Clock
from siltstone.scanning.failures import RangeNotCovered, ScanDamaged, ScanOutdated
from siltstone.scanning.unit import ScanPiece, ScanUnit

Block = tuple[ScanPiece, BlockEntry, memoryview]


class Indexes:
    """Indexes of objects by bucket URL and object id, at most ``bytes_max`` of them; the oldest is dropped first."""

    def __init__(self, bytes_max: int = INDEX_CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held: OrderedDict[tuple[str, int], BlockIndex] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def of(self, copies: Copies, object_id: int, object_bytes: int) -> BlockIndex:
        """Raises what ``read_index`` raises."""
        key = (copies.first.url, object_id)
        with self._lock:
            if (held := self._held.get(key)) is not None:
                self._held.move_to_end(key)
                return held
        index = copies.read(lambda store: read_index(store, object_key(object_id), object_bytes))
        with self._lock:
            if key not in self._held:
                self._held[key] = index
                self._bytes += len(index.raw)
            while self._bytes > self._bytes_max and len(self._held) > 1:
                self._bytes -= len(self._held.popitem(last=False)[1].raw)
        return index

    def clear(self) -> None:
        """Drops all: what has the same URL and ids is another store from now on."""
        with self._lock:
            self._held.clear()
            self._bytes = 0


INDEXES = Indexes()


class _Request(msgspec.Struct):
    """A ranged GET of adjacent blocks of one object. If two pieces meet inside a block, the block belongs to both."""

    copies: Copies
    wanted: list[tuple[ScanPiece, BlockEntry]]

    @property
    def start(self) -> int:
        return self.wanted[0][1].position

    @property
    def end(self) -> int:
        return self.wanted[-1][1].end_position

    def joins(self, piece: ScanPiece, entry: BlockEntry, bytes_max: int) -> bool:
        last_piece, last = self.wanted[-1]
        is_adjacent = entry.position in (last.position, last.end_position)
        return (
            piece.object_id == last_piece.object_id
            and piece.bucket_id == last_piece.bucket_id
            and is_adjacent
            and entry.end_position - self.start <= bytes_max
        )


def _verified(copies: Copies, piece: ScanPiece, entry: BlockEntry, block: memoryview) -> memoryview:
    """Returns the block, or the block of another copy if it is damaged. Raises DamagedBlock, and what the stores
    raise."""
    try:
        verify_block(block, entry, piece.object_id)
    except DamagedBlock:
        if not copies.are_several:
            raise
        return memoryview(read_block(copies, piece.object_id, entry))
    return block


class UnitBlocks:
    """Reads the blocks of a unit's pieces. ``bytes_read`` counts blocks."""

    def __init__(self, unit: ScanUnit, clock: Clock, request_bytes_max: int = READ_REQUEST_BYTES_MAX) -> None:
        self._unit = unit
        self._clock = clock
        self._request_bytes_max = request_bytes_max
        self.bytes_read = 0

    def read(self) -> Iterator[Block]:
        """Yields the blocks that hold the offsets of the pieces; the first and the last block of a piece may hold other
        offsets, too. Raises ScanOutdated, ScanDamaged, UnknownBucket, and what the stores raise."""
        for request, data in self._fetched(self._requests()):
            self.bytes_read += len(data)
            for piece, entry in request.wanted:
                block = data[entry.position - request.start : entry.end_position - request.start]
                with self._naming(piece, entry.start_offset):
                    block = _verified(request.copies, piece, entry, block)
                yield piece, entry, block

    def _requests(self) -> Iterator[_Request]:
        request: _Request | None = None
        for piece in self._unit.pieces:
            copies = self._copies_of(piece)
            for entry in self._entries(copies, piece):
                if request is not None and request.joins(piece, entry, self._request_bytes_max):
                    request.wanted.append((piece, entry))
                    continue
                if request is not None:
                    yield request
                request = _Request(copies, [(piece, entry)])
        if request is not None:
            yield request

    def _copies_of(self, piece: ScanPiece) -> Copies:
        """Raises UnknownBucket if the unit has the URL of none of the buckets."""
        urls = self._unit.bucket_urls
        known = [(each, urls[each]) for each in piece.bucket_ids if each in urls]
        if not known:
            raise UnknownBucket(piece.bucket_id)
        return copies_at(known, piece.object_id)

    def _entries(self, copies: Copies, piece: ScanPiece) -> Iterator[BlockEntry]:
        with self._naming(piece, piece.start_offset):
            index = INDEXES.of(copies, piece.object_id, piece.object_bytes)
            next_offset = piece.start_offset
            for entry in index.blocks_of(piece.stream_id, piece.start_offset, piece.end_offset):
                if entry.start_offset > next_offset:
                    break
                next_offset = entry.end_offset
                if piece.passed_over_ms is None or entry.largest_timestamp_ms >= piece.passed_over_ms:
                    yield entry
            if next_offset < piece.end_offset:
                raise RangeNotCovered(f"object {piece.object_id} has no block for offset {next_offset}")

    def _fetched(self, requests: Iterable[_Request]) -> Iterator[tuple[_Request, memoryview]]:
        with PacedThreads(1, thread_name_prefix="scan-read") as reader:
            ahead: tuple[_Request, Future[bytes]] | None = None
            for request in requests:
                begun = (request, reader.submit(self._fetch, request))
                if ahead is not None:
                    yield ahead[0], memoryview(ahead[1].result())
                ahead = begun
            if ahead is not None:
                yield ahead[0], memoryview(ahead[1].result())

    def _fetch(self, request: _Request) -> bytes:
        piece, entry = request.wanted[0]
        with self._naming(piece, entry.start_offset):
            key = object_key(piece.object_id)
            return request.copies.read(lambda store: store.get_range(key, request.start, request.end))

    @contextmanager
    def _naming(self, piece: ScanPiece, offset: int) -> Iterator[None]:
        """Inside the ``with`` block, an object that is gone is ScanOutdated, and one that is damaged is ScanDamaged."""
        try:
            yield
        except ObjectNotFound as gone:
            unit = self._unit
            raise ScanOutdated(
                piece.object_id, unit.planned_ms, self._clock.now_ms(), unit.lease_until_ms
            ) from gone
        except CorruptData as damage:
            raise ScanDamaged(piece.name, max(offset, piece.start_offset), damage) from damage
