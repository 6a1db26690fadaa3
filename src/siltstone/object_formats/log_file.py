"""Log file, version 2: one file of a node's write-ahead log (WAL).

Little endian. The whole file is ``file header | record | record | … | (zeros or stale bytes)``.

File header, 64 bytes:

====== ==== =======================================================================
offset size field
====== ==== =======================================================================
0      8    magic "SILTSWAL"
8      4    format version, 2
12     4    zero
16     8    node id
24     8    node epoch
32     8    log position of the first record of this file
40     8    size in bytes that was reserved for the file; 0: not known, in files of older programs
48     12   zero
60     4    CRC-32C of bytes 0–59
====== ==== =======================================================================

Record, 32 bytes and a batch frame:

====== ==== =======================================================================
offset size field
====== ==== =======================================================================
0      4    magic "SWR1"
4      4    CRC-32C of bytes 8–31 and of the frame
8      8    log position of this record: bytes of all records before it since the log began
16     8    confirmed position: the log below it was durable when this record was written
24     4    frame length in bytes
28     4    metadata version: that of the metadata which the node had read when it
            appended the record; 2³²−1 stands for all higher ones
32     n    batch frame
====== ==== =======================================================================

In version 1, which is read and not written, the frame length has 8 bytes, so the metadata version is 0: not known.

A *log position* never repeats, neither over files nor over node epochs, so in a file that is used again the stale
records are recognised by their positions alone. The *tear* is the first record that is incomplete or fails its check: a
crash leaves one at the end of the log. If a later record confirms a position beyond the tear, the log is *damaged*, not
torn, because everything below a confirmed position was acknowledged and must be whole. A file that is shorter than the
size in its header is damaged, too: its end may have held acknowledged records, and no later record confirms the newest.
"""

from collections.abc import Iterator
from struct import Struct, error

import msgspec

from siltstone.foundation.crc32c import crc32c
from siltstone.model.buffers import Buffer
from siltstone.model.errors import CorruptData
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import (
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    DamagedFrame,
    decode_frame,
    not_encodable,
    refuse_impossible,
)

LOG_FILE_MAGIC = b"SILTSWAL"
LOG_FILE_VERSION = 2
RECORD_MAGIC = int.from_bytes(b"SWR1", "little")
_LOG_FILE_HEADER = Struct("<8sIIQQQQ12s")
_CRC = Struct("<I")
LOG_FILE_HEADER_BYTES = _LOG_FILE_HEADER.size + _CRC.size
_RECORD_HEADER = Struct("<IIQQII")
RECORD_HEADER_BYTES = _RECORD_HEADER.size
_RECORD_AND_FRAME = Struct("<IIQQII" + FRAME_HEADER.format.removeprefix("<"))
METADATA_VERSION_MAX = 2**32 - 1
RECORD_OVERHEAD_BYTES = RECORD_HEADER_BYTES + FRAME_HEADER_BYTES
assert LOG_FILE_HEADER_BYTES == 64
assert RECORD_HEADER_BYTES == 32
assert _RECORD_AND_FRAME.size == RECORD_OVERHEAD_BYTES


class DamagedWal(CorruptData):
    """Acknowledged bytes of the write-ahead log differ from what was written."""


class WalOfNewerVersion(DamagedWal):
    """A newer version of Siltstone wrote this part of the write-ahead log. Nothing is damaged, so nobody restores or
    gives up anything."""


def damage_at(place: str, damage: DamagedWal, what: str) -> DamagedWal:
    """Returns the damage with its place, and with the advice to restore ``what``."""
    if isinstance(damage, WalOfNewerVersion):
        return WalOfNewerVersion(f"{place}: {damage}")
    return DamagedWal(f"{place}: {damage}; restore the {what}")


def unknown_version(what: str, version: int, newest: int) -> DamagedWal:
    """Returns the error for a version that this program does not read."""
    text = f"{what} version {version}; this program reads 1 to {newest}"
    if version > newest:
        return WalOfNewerVersion(f"{text}: a newer version of Siltstone wrote it, so use that version")
    return DamagedWal(text)


class LogFileHeader(msgspec.Struct, frozen=True):
    node_id: int
    node_epoch: int
    first_position: int
    reserved_bytes: int = 0


class WalRecord(msgspec.Struct, frozen=True):
    """``metadata_version``: of the metadata that the node had read when it appended the record; 0: not known."""

    position: int
    confirmed_position: int
    end_position: int
    batch: RecordBatch
    metadata_version: int = 0


def encode_log_file_header(header: LogFileHeader) -> bytes:
    checked = _LOG_FILE_HEADER.pack(
        LOG_FILE_MAGIC,
        LOG_FILE_VERSION,
        0,
        header.node_id,
        header.node_epoch,
        header.first_position,
        header.reserved_bytes,
        bytes(12),
    )
    return checked + _CRC.pack(crc32c([checked]))


def decode_log_file_header(data: Buffer) -> LogFileHeader:
    """Returns the header from the first bytes of a log file. Raises DamagedWal, WalOfNewerVersion."""
    if len(data) < LOG_FILE_HEADER_BYTES:
        raise DamagedWal(f"the log file has {len(data)} bytes, too few for a header")
    checked = bytes(data[: _LOG_FILE_HEADER.size])
    magic, version, _, node_id, node_epoch, first_position, reserved_bytes, _ = _LOG_FILE_HEADER.unpack(
        checked
    )
    if magic != LOG_FILE_MAGIC or _CRC.unpack_from(data, _LOG_FILE_HEADER.size)[0] != crc32c([checked]):
        raise DamagedWal("the header of the log file is damaged, or this is no write-ahead log")
    if not 1 <= version <= LOG_FILE_VERSION:
        raise unknown_version("the log file has", version, LOG_FILE_VERSION)
    return LogFileHeader(node_id, node_epoch, first_position, reserved_bytes)


def encode_record_header(
    batch: RecordBatch, position: int, confirmed_position: int, metadata_version: int
) -> bytearray:
    """Returns the record header and the frame header together, 104 bytes; the payload follows them in the file.

    The last 72 bytes are the frame header, so the upload uses ``header[32:]`` later.
    Raises ImpossibleBatch.
    """
    refuse_impossible(batch)
    header = bytearray(RECORD_OVERHEAD_BYTES)
    try:
        _RECORD_AND_FRAME.pack_into(
            header, 0,
            RECORD_MAGIC, 0, position, confirmed_position, FRAME_HEADER_BYTES + len(batch.payload),
            min(metadata_version, METADATA_VERSION_MAX),
            FRAME_MAGIC, 0, batch.stream_id, batch.stream_epoch, batch.base_offset, batch.end_offset,
            batch.record_count, batch.smallest_timestamp_ms, batch.largest_timestamp_ms, len(batch.payload),
        )  # fmt: skip
    except error as cause:
        raise not_encodable(batch) from cause
    _CRC.pack_into(header, 4, crc32c([memoryview(header)[8:], batch.payload]))
    return header


def decode_record(data: memoryview, at: int, expected_position: int) -> WalRecord | None:
    """Returns the record at byte ``at`` of ``data``, or None if it is not whole or has another log position than
    expected.

    Raises DamagedWal when the record's checksum matches but its bytes are no frame, which no crash can cause.
    """
    body = at + RECORD_HEADER_BYTES
    if body > len(data):
        return None
    magic, stored_crc, position, confirmed, length, version = _RECORD_HEADER.unpack_from(data, at)
    if magic != RECORD_MAGIC or position != expected_position or length > len(data) - body:
        return None
    if length < FRAME_HEADER_BYTES or crc32c([data[at + 8 : body + length]]) != stored_crc:
        return None
    try:
        batch, end = decode_frame(data[: body + length], body)
    except DamagedFrame as cause:
        raise DamagedWal(f"the record at log position {position} holds no batch frame: {cause}") from cause
    if end != body + length:
        raise DamagedWal(f"the record at log position {position} is longer than its batch frame")
    return WalRecord(position, confirmed, position + RECORD_HEADER_BYTES + length, batch, version)


def decode_records(data: memoryview, first_position: int) -> Iterator[WalRecord]:
    """Yields the whole records of a log file up to the tear; ``data`` is the file without its header.

    Raises DamagedWal when a record after the tear confirms a position beyond the tear.
    """
    at = 0
    position = first_position
    while (record := decode_record(data, at, position)) is not None:
        yield record
        at += record.end_position - record.position
        position = record.end_position
    if confirms_beyond(data, at, position, first_position):
        raise DamagedWal(
            f"the write-ahead log is damaged at log position {position}, in an acknowledged record"
        )


def newest_record(data: memoryview, first_position: int) -> WalRecord | None:
    """Returns the last whole record of a log file up to a tear; ``data`` is the file without its header. The records
    before it are passed by their lengths, not checked: a file of small records is decoded in seconds, and walked in a
    tenth of that. Raises DamagedWal, as ``decode_records`` does, only if the last record is torn."""
    at, newest = 0, None
    while at + RECORD_HEADER_BYTES <= len(data):
        magic, _, position, _, length, _ = _RECORD_HEADER.unpack_from(data, at)
        if magic != RECORD_MAGIC or position != first_position + at or length < FRAME_HEADER_BYTES:
            break
        newest, at = at, at + RECORD_HEADER_BYTES + length
    if newest is None:
        return None
    if (record := decode_record(data, newest, first_position + newest)) is not None:
        return record
    whole: WalRecord | None = None
    for whole in decode_records(data, first_position):  # noqa: B007  the last one is wanted
        pass
    return whole


def confirms_beyond(data: memoryview, at: int, position: int, first_position: int) -> bool:
    """Returns whether any whole record from byte ``at`` on confirms a position greater than ``position``.

    A record at byte i must have the log position ``first_position + i``. Bytes that only look like a record, in a
    payload or left over from an earlier use of the file, have another one.
    """
    magic = RECORD_MAGIC.to_bytes(4, "little")
    haystack = data.obj if isinstance(data.obj, bytes) and len(data.obj) == len(data) else bytes(data)
    found = haystack.find(magic, at)
    while 0 <= found <= len(data) - RECORD_HEADER_BYTES:
        record = decode_record(data, found, first_position + found)
        if record is not None and record.confirmed_position > position:
            return True
        found = haystack.find(magic, found + 1)
    return False
