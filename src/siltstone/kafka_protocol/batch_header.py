"""The 61 bytes before the records of a batch, magic 2: read, and patched where Kafka says the broker writes.

Big endian.

====== ==== ===========================================================================================
offset size field
====== ==== ===========================================================================================
0      8    base offset
8      4    length of what follows this field
12     4    partition leader epoch
16     1    magic, 2
17     4    CRC-32C of everything from byte 21 on
21     2    attributes: bits 0–2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
23     4    last offset delta
27     8    base timestamp in ms: what the timestamp deltas of the records are added to
35     8    max timestamp in ms; with log append time that of every record
43     8    producer id, -1 when none
51     2    producer epoch
53     4    base sequence, -1 when none
57     4    record count; less than the offsets it spans once compaction has removed some
61     n    records, compressed as a whole
====== ==== ===========================================================================================

Base offset and leader epoch lie before what the CRC covers: a producer's batch gets its place in the log without
being summed again. Nothing here judges a batch; ``batch_checks`` does. Read next: ``records``.
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
"""Where the counting of ``batch_length`` begins."""
CHECKED_FROM = 21
"""Where the bytes under the CRC begin."""
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
"""Sequence numbers count 0 … 2**31 - 1 and begin again."""

_MAGIC_AT = 16
_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")


class Codec(IntEnum):
    """How the records of a batch are compressed, by the number in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """All fields as they are written; the properties say what they mean."""

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
        """The offset of the next batch when no compaction has come between."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """A Codec; a number above 4 is none."""
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
        """The base timestamp is then the time from which tombstones may be removed; deltas are added to it all the
        same."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def last_sequence(self) -> int:
        """-1 when the batch has no sequence."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MASK


def read_batch_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at ``position``; its fields are not judged. Raises TruncatedBatch, UnsupportedMagic."""
    if len(buffer) - position < BATCH_HEADER_BYTES:
        raise _no_header(buffer, position)
    return BatchHeader(*BATCH_HEADER.unpack_from(buffer, position))


def _no_header(buffer: Buffer, position: int) -> TruncatedBatch | UnsupportedMagic:
    """Messages of magic 0 and 1 may be shorter than our header, and their magic lies where ours does."""
    available_bytes = len(buffer) - position
    if available_bytes > _MAGIC_AT and buffer[position + _MAGIC_AT] != MAGIC:
        return _unsupported(buffer[position + _MAGIC_AT])
    return TruncatedBatch(f"{available_bytes} bytes hold no batch header of {BATCH_HEADER_BYTES}")


def _unsupported(magic: int) -> UnsupportedMagic:
    return UnsupportedMagic(f"batch of magic {magic}; send batches of magic {MAGIC}")


def refuse_wrong_length(header: BatchHeader, available_bytes: int) -> None:
    """Raises UnsupportedMagic (whose header means something else), BatchLengthWrong, TruncatedBatch."""
    if header.magic != MAGIC:
        raise _unsupported(header.magic)
    if header.size_bytes < BATCH_HEADER_BYTES:
        raise BatchLengthWrong(f"batch length {header.batch_length} is less than its header")
    if header.size_bytes > available_bytes:
        raise TruncatedBatch(f"batch of {header.size_bytes} bytes, {available_bytes} there")


def checksum_of(buffer: Buffer) -> int:
    """The CRC-32C that the header of this one batch should carry."""
    return crc32c([memoryview(buffer)[CHECKED_FROM:]])


def patch_offset_and_epoch(buffer: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Gives the batch its place in the log, in place; its CRC stays right."""
    _BASE_OFFSET.pack_into(buffer, 0, base_offset)
    _LEADER_EPOCH.pack_into(buffer, 12, leader_epoch)


def patch_log_append_time(buffer: bytearray | memoryview, now_ms: int) -> None:
    """Every record of this one batch was appended at ``now_ms``: in place, with a new CRC. Deltas stay, unused."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, CHECKED_FROM)
    _ATTRIBUTES.pack_into(buffer, CHECKED_FROM, attributes | LOG_APPEND_TIME_BIT)
    patch_max_timestamp(buffer, now_ms)


def patch_max_timestamp(buffer: bytearray | memoryview, max_timestamp_ms: int) -> None:
    """For a producer that wrote another than its records have: in place, with a new CRC."""
    _MAX_TIMESTAMP.pack_into(buffer, 35, max_timestamp_ms)
    patch_checksum(buffer)


def patch_checksum(buffer: bytearray | memoryview) -> None:
    _CRC.pack_into(buffer, 17, checksum_of(buffer))
