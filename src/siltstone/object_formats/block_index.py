"""Block index, version 1: the table of an object's blocks, sorted by (stream id, start offset).

The index consists of N entries of 72 bytes, little endian. Its own CRC-32C is in the footer.

====== ==== =======================================================================
offset size field
====== ==== =======================================================================
0      8    stream id
8      8    start offset
16     8    end offset, exclusive
24     8    record count
32     8    position of the block in the object
40     8    size of the block in bytes
48     8    smallest timestamp in ms, signed, -1 when none
56     8    largest timestamp in ms, signed, -1 when none
64     4    CRC-32C of the block's bytes
68     4    zero
====== ==== =======================================================================

A decoded index keeps the raw bytes: a search decodes only the entries it compares, and planners read a million
entries as numpy columns (``siltstone.offline.blocks.columns``) without making a million values.

``verify_block`` checks a block against its entry. Readers call it once for every block they have read (rule 8).
"""

from collections.abc import Iterable, Iterator
from struct import Struct

from siltstone.foundation.crc32c import crc32c
from siltstone.model.buffers import Buffer
from siltstone.model.errors import CorruptData
from siltstone.model.record_batch import BlockEntry

INDEX_ENTRY = Struct("<QQQQQQqqII")
INDEX_ENTRY_BYTES = INDEX_ENTRY.size
assert INDEX_ENTRY_BYTES == 72
_KEY = Struct("<QQQ")


class DamagedIndex(CorruptData):
    """The index of an object is damaged, truncated or out of order."""


def encode_index(entries: Iterable[BlockEntry]) -> bytes:
    """Returns the bytes of the index. Asserts that the entries are sorted and do not overlap."""
    raw = bytearray()
    previous: BlockEntry | None = None
    for entry in entries:
        if previous is not None:
            assert _in_order(previous, entry), f"index out of order: {previous} before {entry}"
        raw += encode_entry(entry)
        previous = entry
    return bytes(raw)


def encode_entry(entry: BlockEntry) -> bytes:
    return INDEX_ENTRY.pack(
        entry.stream_id,
        entry.start_offset,
        entry.end_offset,
        entry.record_count,
        entry.position,
        entry.size_bytes,
        entry.smallest_timestamp_ms,
        entry.largest_timestamp_ms,
        entry.crc32c,
        0,
    )


def _in_order(first: BlockEntry, second: BlockEntry) -> bool:
    if first.stream_id == second.stream_id:
        return first.end_offset <= second.start_offset
    return first.stream_id < second.stream_id


class BlockIndex:
    """A decoded index whose order was verified. ``index[i]`` is an entry; ``raw`` is the index's bytes, from which
    planners make columns."""

    __slots__ = ("_count", "raw")

    def __init__(self, raw: Buffer) -> None:
        """``raw`` is the index of an object, whose CRC the caller has checked against the footer. Raises
        DamagedIndex."""
        if len(raw) % INDEX_ENTRY_BYTES:
            raise DamagedIndex(f"the index has {len(raw)} bytes, which is no multiple of {INDEX_ENTRY_BYTES}")
        self.raw = bytes(raw)
        self._count = len(raw) // INDEX_ENTRY_BYTES
        self._verify_order()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position: int) -> BlockEntry:
        if not 0 <= position < self._count:
            raise IndexError(position)
        fields = INDEX_ENTRY.unpack_from(self.raw, position * INDEX_ENTRY_BYTES)
        return BlockEntry(*fields[:9])

    def __iter__(self) -> Iterator[BlockEntry]:
        for fields in INDEX_ENTRY.iter_unpack(self.raw):
            yield BlockEntry(*fields[:9])

    def first_at_or_after(self, stream_id: int, offset: int) -> int:
        """Returns the number of the first entry of the stream whose end offset is greater than ``offset``, by binary
        search.

        When the stream has no such entry, it is the number of the first entry of a later stream, or ``len(index)``.
        """
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            stream, _, end = self._key(middle)
            if stream < stream_id or (stream == stream_id and end <= offset):
                low = middle + 1
            else:
                high = middle
        return low

    def blocks_of(self, stream_id: int, start: int, end: int) -> Iterator[BlockEntry]:
        """Yields the entries of the stream that overlap [start, end), in offset order."""
        if start >= end:
            return
        for position in range(self.first_at_or_after(stream_id, start), self._count):
            entry = self[position]
            if entry.stream_id != stream_id or entry.start_offset >= end:
                return
            yield entry

    def _key(self, position: int) -> tuple[int, int, int]:
        stream, start, end = _KEY.unpack_from(self.raw, position * INDEX_ENTRY_BYTES)
        return stream, start, end

    def _verify_order(self) -> None:
        last_stream, last_end = -1, 0
        for fields in INDEX_ENTRY.iter_unpack(self.raw):
            stream, start, end = fields[0], fields[1], fields[2]
            if start >= end or stream < last_stream or (stream == last_stream and start < last_end):
                raise DamagedIndex(f"the index entry of stream {stream} [{start}, {end}) is out of order")
            last_stream, last_end = stream, end


class DamagedBlock(CorruptData):
    """The bytes of a block differ from what was written. Carries the object id and the block's index entry."""

    def __init__(self, entry: BlockEntry, object_id: int, what_is_wrong: str) -> None:
        super().__init__(
            f"the block at {entry.position} of object {object_id}, stream {entry.stream_id}"
            f" [{entry.start_offset}, {entry.end_offset}), {what_is_wrong}"
        )
        self.entry = entry
        self.object_id = object_id


def verify_block(raw: Buffer, entry: BlockEntry, object_id: int) -> None:
    """Checks the bytes of a block against its index entry. Raises DamagedBlock."""
    if len(raw) != entry.size_bytes:
        raise DamagedBlock(entry, object_id, f"has {entry.size_bytes} bytes, but {len(raw)} were read")
    if crc32c([raw]) != entry.crc32c:
        raise DamagedBlock(entry, object_id, "is damaged: its checksum does not match")
