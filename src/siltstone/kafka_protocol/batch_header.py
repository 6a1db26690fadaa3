"""The header of a record batch, magic 2: 61 bytes before the records. Read here, and patched in the fields that Kafka
lets the broker write.

Big endian.

====== ==== ===========================================================================================
offset size field
====== ==== ===========================================================================================
0      8    base offset
8      4    batch length: the bytes that follow this field
12     4    partition leader epoch
16     1    magic, 2
17     4    CRC-32C of everything from byte 21 on
21     2    attributes: bits 0–2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
23     4    last offset delta
27     8    base timestamp in ms: each record has a delta to it
35     8    max timestamp in ms; with log append time the timestamp of every record
43     8    producer id, -1 when none
51     2    producer epoch
53     4    base sequence, -1 when none
57     4    record count; less than the number of offsets once compaction has removed records
61     n    records, compressed as a whole
====== ==== ===========================================================================================

The CRC does not cover base offset and leader epoch, so the broker can assign them without computing the CRC again.
Field values are checked in ``batch_checks``, not here. Read next: ``records``.
"""

from enum import IntEnum
from struct import Struct

import msgspec

from siltstone.foundation.crc32c import crc32c
from siltstone.kafka_protocol.batch_errors import BatchLengthWrong, TruncatedBatch, UnsupportedMagic
from siltstone.model.buffers import Buffer

MAGIC = 2
BATCH_HEADER = Struct(">qiibIhiqqqhii")
BATCH_HEADER_BYTES = BATCH_HEADER.size
LENGTH_END = 12
"""The position from which ``batch_length`` counts."""
CHECKED_FROM = 21
"""The position of the first byte that the CRC covers."""
assert BATCH_HEADER_BYTES == 61

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_LEADER_EPOCH = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
SEQUENCE_MASK = 0x7FFF_FFFF
"""Sequence numbers run from 0 to 2**31 - 1, then start again at 0."""

_MAGIC_AT = 16
_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")
_PRODUCER = Struct(">qhi")


class Codec(IntEnum):
    """The compression of a batch's records, by its number in the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """All fields as they are encoded; the properties interpret them."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return LENGTH_END + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def end_offset(self) -> int:
        """The offset after the last one of this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The number of a Codec; a damaged header may have 5 to 7, which are not codecs."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp is the delete horizon: the time from which compaction may remove tombstones.
        Timestamp deltas are relative to it all the same."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; -1 when the batch has no sequence numbers."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MASK


def read_batch_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Returns the header at ``position``; its fields are not checked. Raises TruncatedBatch, and UnsupportedMagic for
    an old message that is shorter than a header."""
    if len(buffer) - position < BATCH_HEADER_BYTES:
        raise _no_header(buffer, position)
    return BatchHeader(*BATCH_HEADER.unpack_from(buffer, position))


def _no_header(buffer: Buffer, position: int) -> TruncatedBatch | UnsupportedMagic:
    """Messages of magic 0 and 1 may be shorter than a batch header; they have their magic at the same position."""
    available_bytes = len(buffer) - position
    if available_bytes > _MAGIC_AT and buffer[position + _MAGIC_AT] != MAGIC:
        return _unsupported(buffer[position + _MAGIC_AT])
    return TruncatedBatch(f"{available_bytes} bytes are too few for a batch header of {BATCH_HEADER_BYTES}")


def _unsupported(magic: int) -> UnsupportedMagic:
    return UnsupportedMagic(f"batch of magic {magic}; send batches of magic {MAGIC}")


def refuse_wrong_length(header: BatchHeader, available_bytes: int) -> None:
    """Checks the length in the header. Raises UnsupportedMagic, since an older format has other fields there,
    BatchLengthWrong and TruncatedBatch."""
    if header.magic != MAGIC:
        raise _unsupported(header.magic)
    if header.size_bytes < BATCH_HEADER_BYTES:
        raise BatchLengthWrong(f"batch length {header.batch_length} is less than a batch header")
    if header.size_bytes > available_bytes:
        raise TruncatedBatch(f"batch of {header.size_bytes} bytes, only {available_bytes} are there")


def checksum_of(buffer: Buffer) -> int:
    """Returns the CRC-32C that belongs into the header of the single batch in ``buffer``."""
    return crc32c([memoryview(buffer)[CHECKED_FROM:]])


def patch_offset_and_epoch(buffer: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Writes the batch's base offset and leader epoch in place; its CRC stays valid."""
    _BASE_OFFSET.pack_into(buffer, 0, base_offset)
    _LEADER_EPOCH.pack_into(buffer, 12, leader_epoch)


def patch_producer(
    buffer: bytearray | memoryview,
    producer_id: int,
    epoch: int,
    base_sequence: int,
    *,
    is_transactional: bool = False,
) -> None:
    """Writes the producer of a batch and its sequence in place, with a new CRC. ``is_transactional`` makes it a batch
    of the producer's transaction."""
    if is_transactional:
        (attributes,) = _ATTRIBUTES.unpack_from(buffer, CHECKED_FROM)
        _ATTRIBUTES.pack_into(buffer, CHECKED_FROM, attributes | TRANSACTIONAL_BIT)
    _PRODUCER.pack_into(buffer, 43, producer_id, epoch, base_sequence)
    patch_checksum(buffer)


def patch_log_append_time(buffer: bytearray | memoryview, now_ms: int) -> None:
    """Sets log append time: ``now_ms`` becomes the timestamp of every record of the batch. Changes the header in place,
    with a new CRC; the records keep their timestamp deltas, which readers then ignore."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, CHECKED_FROM)
    _ATTRIBUTES.pack_into(buffer, CHECKED_FROM, attributes | LOG_APPEND_TIME_BIT)
    patch_max_timestamp(buffer, now_ms)


def patch_max_timestamp(buffer: bytearray | memoryview, max_timestamp_ms: int) -> None:
    """Corrects the max timestamp, in place and with a new CRC, for a producer that sent a wrong one."""
    _MAX_TIMESTAMP.pack_into(buffer, 35, max_timestamp_ms)
    patch_checksum(buffer)


def patch_checksum(buffer: bytearray | memoryview) -> None:
    _CRC.pack_into(buffer, 17, checksum_of(buffer))
