"""Payloads that say themselves what they are, so that a reader can tell whether it got the right one."""

import struct
import zlib

_HEADER = struct.Struct("<QQQI")


def crash_payload(stream_id: int, base_offset: int, record_count: int, size_bytes: int) -> bytes:
    body = bytes((stream_id * 31 + base_offset * 7 + i) & 0xFF for i in range(min(size_bytes, 256)))
    body = (body * (size_bytes // max(1, len(body)) + 1))[:size_bytes]
    return _HEADER.pack(stream_id, base_offset, record_count, zlib.crc32(body)) + body


def describe(payload: bytes | memoryview) -> tuple[int, int, int]:
    """(stream id, base offset, record count); fails on a payload that is not whole."""
    stream_id, base_offset, record_count, crc = _HEADER.unpack_from(payload)
    assert zlib.crc32(payload[_HEADER.size :]) == crc, "payload damaged"
    return stream_id, base_offset, record_count
