"""Lays out a whole object: builds it, finds its index, and finds the ranges it holds.

    blocks (one stream each, streams ascending, offsets ascending) | index | footer

``ObjectBuilder`` makes the gather list of an object from record batches. ``trailer_bytes`` makes only index and footer,
for compaction, which writes existing blocks. ``index_of_tail`` finds the index in the last bytes of an object.
``ranges_of_entries`` returns the ranges that a commit registers in the metadata. The index is in ``block_index``.

The footer, version 1, is the last 64 bytes of every stream set object and stream object. Little endian:

====== ==== =======================================================================
offset size field
====== ==== =======================================================================
0      8    position of the index in the object
8      8    length of the index in bytes
16     8    size of the whole object in bytes, footer included
24     4    CRC-32C of the index
28     4    format version, 1
32     20   zero
52     4    CRC-32C of footer bytes 0–51
56     8    magic "SILTSOBJ"
====== ==== =======================================================================

The magic comes last, so that a truncated object is recognised. The footer holds the object's size, so that an object
with bytes added or lost before the footer is recognised as well.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from struct import Struct

import msgspec

from siltstone.foundation.crc32c import crc32c
from siltstone.model.buffers import Buffer
from siltstone.model.errors import CorruptData
from siltstone.model.limits import BLOCK_SIZE_BYTES
from siltstone.model.objects import ObjectRange
from siltstone.model.record_batch import NO_TIMESTAMP, BlockEntry, RecordBatch
from siltstone.object_formats.block_index import BlockIndex, DamagedIndex, encode_index

FOOTER_MAGIC = b"SILTSOBJ"
FORMAT_VERSION = 1
_CHECKED = Struct("<QQQII20s")
_SEAL = Struct("<I8s")
FOOTER_BYTES = _CHECKED.size + _SEAL.size
assert FOOTER_BYTES == 64


class DamagedFooter(CorruptData):
    """The last bytes of an object are not a footer, or a footer of a version that this program does not read."""


class Footer(msgspec.Struct, frozen=True):
    index_position: int
    index_bytes: int
    object_bytes: int
    index_crc32c: int


def encode_footer(footer: Footer) -> bytes:
    checked = _CHECKED.pack(
        footer.index_position,
        footer.index_bytes,
        footer.object_bytes,
        footer.index_crc32c,
        FORMAT_VERSION,
        bytes(20),
    )
    return checked + _SEAL.pack(crc32c([checked]), FOOTER_MAGIC)


def decode_footer(tail: Buffer, object_bytes: int) -> Footer:
    """Returns the footer of an object of ``object_bytes`` bytes; ``tail`` is the end of the object. Raises
    DamagedFooter."""
    if len(tail) < FOOTER_BYTES:
        raise DamagedFooter(f"the object has {object_bytes} bytes, too few for a footer")
    raw = bytes(tail[-FOOTER_BYTES:])
    stored_crc, magic = _SEAL.unpack_from(raw, _CHECKED.size)
    if magic != FOOTER_MAGIC:
        raise DamagedFooter("the object has no footer: it is truncated, or Siltstone did not write it")
    if crc32c([raw[: _CHECKED.size]]) != stored_crc:
        raise DamagedFooter("the checksum of the footer does not match")
    index_position, index_bytes, written_bytes, index_crc, version, _ = _CHECKED.unpack_from(raw)
    if version != FORMAT_VERSION:
        raise DamagedFooter(f"the object has format version {version}; this program reads {FORMAT_VERSION}")
    if written_bytes != object_bytes:
        raise DamagedFooter(f"the object has {object_bytes} bytes, but was written with {written_bytes}")
    if index_position + index_bytes + FOOTER_BYTES != object_bytes:
        raise DamagedFooter("the footer is inconsistent: the index does not end where the footer begins")
    return Footer(index_position, index_bytes, written_bytes, index_crc)


class EncodedObject(msgspec.Struct, frozen=True):
    """A whole object, ready to be put into a bucket: its gather list, its size and its index entries."""

    buffers: list[Buffer]
    size_bytes: int
    entries: list[BlockEntry]


class IndexLiesBefore(msgspec.Struct, frozen=True):
    """The given tail of an object does not hold the whole index: the caller reads [position, end) of the object and
    calls ``verified_index``."""

    position: int
    end: int
    footer: Footer


class ObjectBuilder:
    """Collects batches in (stream id, offset) order, and closes a block when it reaches ``block_size_bytes``.

    A block is larger than that by up to one batch, and batches may be large: readers must not assume a maximum.
    """

    def __init__(self, block_size_bytes: int = BLOCK_SIZE_BYTES) -> None:
        self._block_size_bytes = block_size_bytes
        self._buffers: list[Buffer] = []
        self._entries: list[BlockEntry] = []
        self._position = 0
        self._taken_bytes = 0
        self._open: list[RecordBatch] = []
        self._open_buffers: list[Buffer] = []
        self._open_bytes = 0

    def append(self, batch: RecordBatch, frame_header: Buffer) -> None:
        """Adds a batch. Raises ValueError when the batch is out of order, which is a bug of the caller."""
        self._refuse_disorder(batch)
        if self._open and not self._continues_block(batch):
            self._close_block()
        self._open.append(batch)
        self._open_buffers += (frame_header, batch.payload)
        self._open_bytes += len(frame_header) + len(batch.payload)

    @property
    def closed_bytes(self) -> int:
        """The number of bytes of the closed blocks that were not taken."""
        return self._position - self._taken_bytes

    def take(self) -> list[Buffer]:
        """Returns the bytes of the closed blocks that were not taken before, for a caller that uploads an object in
        parts. The builder keeps only their entries."""
        taken, self._buffers, self._taken_bytes = self._buffers, [], self._position
        return taken

    def finish(self) -> EncodedObject:
        """Closes the last block. The gather list has the blocks that were not taken, then index and footer."""
        if self._open:
            self._close_block()
        trailer = trailer_bytes(self._entries, self._position)
        return EncodedObject([*self._buffers, trailer], self._position + len(trailer), self._entries)

    def _refuse_disorder(self, batch: RecordBatch) -> None:
        last_stream, last_end = self._last_key()
        if batch.stream_id < last_stream:
            raise ValueError(
                f"batches out of order: one of stream {batch.stream_id} after one of stream {last_stream}"
            )
        if batch.stream_id == last_stream and batch.base_offset < last_end:
            raise ValueError(
                f"batches of stream {last_stream} out of order: {batch.base_offset} begins before {last_end}"
            )

    def _last_key(self) -> tuple[int, int]:
        if self._open:
            return self._open[-1].stream_id, self._open[-1].end_offset
        if self._entries:
            return self._entries[-1].stream_id, self._entries[-1].end_offset
        return -1, 0

    def _continues_block(self, batch: RecordBatch) -> bool:
        last = self._open[-1]
        return (
            batch.stream_id == last.stream_id
            and batch.base_offset == last.end_offset
            and self._open_bytes < self._block_size_bytes
        )

    def _close_block(self) -> None:
        batches = self._open
        entry = BlockEntry(
            stream_id=batches[0].stream_id,
            start_offset=batches[0].base_offset,
            end_offset=batches[-1].end_offset,
            record_count=sum(batch.record_count for batch in batches),
            position=self._position,
            size_bytes=self._open_bytes,
            smallest_timestamp_ms=smallest_timestamp(b.smallest_timestamp_ms for b in batches),
            largest_timestamp_ms=max(b.largest_timestamp_ms for b in batches),
            crc32c=crc32c(self._open_buffers),
        )
        self._entries.append(entry)
        self._buffers += self._open_buffers
        self._position += self._open_bytes
        self._open, self._open_buffers, self._open_bytes = [], [], 0


def smallest_timestamp(timestamps: Iterable[int]) -> int:
    """Returns the smallest timestamp. NO_TIMESTAMP is skipped, and returned when there is no other."""
    return min((t for t in timestamps if t != NO_TIMESTAMP), default=NO_TIMESTAMP)


def trailer_bytes(entries: Sequence[BlockEntry], data_bytes: int) -> bytes:
    """Returns the index and the footer of an object whose blocks take ``data_bytes``."""
    return trailer_of_index(encode_index(entries), data_bytes)


def trailer_of_index(index: bytes, data_bytes: int) -> bytes:
    """Returns the encoded index followed by the footer of an object whose blocks take ``data_bytes``."""
    footer = Footer(
        index_position=data_bytes,
        index_bytes=len(index),
        object_bytes=data_bytes + len(index) + FOOTER_BYTES,
        index_crc32c=crc32c([index]),
    )
    return index + encode_footer(footer)


def index_of_tail(tail: Buffer, object_bytes: int) -> BlockIndex | IndexLiesBefore:
    """Returns the index from the last bytes of an object, or the range that the caller has to read for it.

    Raises DamagedFooter or DamagedIndex.
    """
    footer = decode_footer(tail, object_bytes)
    tail_position = object_bytes - len(tail)
    if footer.index_position < tail_position:
        return IndexLiesBefore(footer.index_position, object_bytes - FOOTER_BYTES, footer)
    start = footer.index_position - tail_position
    return verified_index(memoryview(tail)[start : start + footer.index_bytes], footer)


def verified_index(raw: Buffer, footer: Footer) -> BlockIndex:
    """Returns the index from its bytes, checked against the footer. Raises DamagedIndex."""
    if len(raw) != footer.index_bytes:
        raise DamagedIndex(f"the index has {footer.index_bytes} bytes, but {len(raw)} were read")
    if crc32c([raw]) != footer.index_crc32c:
        raise DamagedIndex("the checksum of the index does not match")
    return BlockIndex(raw)


def ranges_of_entries(entries: Iterable[BlockEntry], object_id: int) -> tuple[ObjectRange, ...]:
    """Returns one range for each extent, that is, each series of contiguous blocks of one stream, in index order."""
    return tuple(
        _range_of_extent(extent, object_id)
        for _, blocks in groupby(entries, key=lambda entry: entry.stream_id)
        for extent in _extents(blocks)
    )


def _extents(blocks: Iterable[BlockEntry]) -> Iterable[list[BlockEntry]]:
    extent: list[BlockEntry] = []
    for block in blocks:
        if extent and extent[-1].end_offset != block.start_offset:
            yield extent
            extent = []
        extent.append(block)
    yield extent


def _range_of_extent(extent: list[BlockEntry], object_id: int) -> ObjectRange:
    return ObjectRange(
        stream_id=extent[0].stream_id,
        object_id=object_id,
        start_offset=extent[0].start_offset,
        end_offset=extent[-1].end_offset,
        size_bytes=sum(block.size_bytes for block in extent),
        largest_timestamp_ms=max(block.largest_timestamp_ms for block in extent),
    )
