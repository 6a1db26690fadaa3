"""What the codec number of a batch stands for: bytes in, bytes out, and never more than was asked for.

Which library serves which codec, and why: docs/decisions/0006-kafka-codecs.md. gzip, lz4 and zstd come as streams of
one or more members that do not have to say how long they get; all three are read by one loop that takes at most what
the limit leaves. snappy says its length before its bytes.

What is written is what the strictest reader takes: lz4 frames of independent 64 KiB blocks (Java reads no linked
ones), snappy in xerial's framing of 32 KiB blocks (Java reads no other).
"""

import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import cramjam
import lz4.frame

from siltstone.kafka_protocol.batch_errors import DecompressedTooLarge, DecompressionFailed, UnknownCodec
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.model.buffers import Buffer

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01" * 2  # version, and the oldest version that reads it
XERIAL_BLOCK_BYTES = 32 * 1024
MEMBERS_MAX = 100
"""Writers make one. What follows a member is copied, so thousands of tiny ones would hold up everything else."""
_OUTPUT_BYTES_MIN = 64 * 1024
_FAILURES = (
    zlib.error,
    zstd.ZstdError,
    cramjam.DecompressionError,
    RuntimeError,
    EOFError,
)  # RuntimeError: lz4's


class Decompressor(Protocol):
    """What bz2, lzma, zstd and lz4 have in common: one member of a stream, at most ``max_length`` bytes a call."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> Buffer: ...
    def decompress(self, data: Buffer, max_length: int) -> bytes: ...


class GzipDecompressor:
    """zlib's, which wants back what it left over, behind the interface of the others."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: Buffer, max_length: int) -> bytes:
        return self._inner.decompress(data or self._inner.unconsumed_tail, max_length)


def compress(codec: Codec, records: Buffer) -> Buffer:
    return records if codec == Codec.NONE else _COMPRESS[codec](records)


def decompress(codec_number: int, records: memoryview, size_bytes_max: int) -> memoryview:
    """The records as they were before compression; the same view when they were not.

    Raises UnknownCodec, DecompressionFailed, DecompressedTooLarge.
    """
    if codec_number == Codec.NONE:
        return records
    if codec_number not in _DECOMPRESS:
        raise UnknownCodec(f"compression codec {codec_number} does not exist; use 0 to {Codec.ZSTD:d}")
    try:
        return memoryview(_DECOMPRESS[codec_number](records, size_bytes_max))
    except _FAILURES as cause:
        raise DecompressionFailed(f"records are no {Codec(codec_number).name} stream: {cause}") from cause


def _decompress_stream(new: Callable[[], Decompressor], data: Buffer, size_bytes_max: int) -> bytes:
    """All members of the stream. Asking for one byte more than the limit tells a stream that fills it from one that
    passes it; asking for little at first spares lz4, which allocates what it is asked for."""
    pieces: list[bytes] = []
    left_bytes = size_bytes_max + 1
    step_bytes = max(_OUTPUT_BYTES_MIN, 4 * len(data))
    members = 0
    while data:
        members += 1
        if members > MEMBERS_MAX:
            raise DecompressionFailed(f"more than {MEMBERS_MAX} compressed streams in one batch; send one")
        member = new()
        while not member.eof:
            piece = member.decompress(data, min(step_bytes, left_bytes))
            if not piece and not member.eof:
                raise _ends_early()
            pieces.append(piece)
            left_bytes -= len(piece)
            if left_bytes <= 0:
                raise _too_large(size_bytes_max)
            data = b""
        data = member.unused_data
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _ends_early() -> DecompressionFailed:
    return DecompressionFailed("compressed records end early")


def _too_large(size_bytes_max: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(
        f"records decompress to more than {size_bytes_max} bytes; send smaller batches"
    )


def _decompress_gzip(data: Buffer, size_bytes_max: int) -> Buffer:
    return _decompress_stream(GzipDecompressor, data, size_bytes_max)


def _decompress_lz4(data: Buffer, size_bytes_max: int) -> Buffer:
    return _decompress_stream(lz4.frame.LZ4FrameDecompressor, data, size_bytes_max)


def _decompress_zstd(data: Buffer, size_bytes_max: int) -> Buffer:
    return _decompress_stream(zstd.ZstdDecompressor, data, size_bytes_max)


def _decompress_snappy(data: memoryview, size_bytes_max: int) -> Buffer:
    """xerial's framing, or one raw block as librdkafka writes it. Each block says first how long it gets."""
    framed = data[: len(XERIAL_MAGIC)] == XERIAL_MAGIC
    records = bytearray()
    for block in _xerial_blocks(data) if framed else (data,):
        if len(records) + cramjam.snappy.decompress_raw_len(block) > size_bytes_max:
            raise _too_large(size_bytes_max)
        records += memoryview(cramjam.snappy.decompress_raw(block))
    return records


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    position = len(XERIAL_HEADER)
    while position < len(data):
        start = position + 4
        position = start + int.from_bytes(data[position:start], "big")
        yield data[start:position]
    if position != len(data):
        raise _ends_early()


def _compress_gzip(records: Buffer) -> Buffer:
    return zlib.compress(records, wbits=zlib.MAX_WBITS | 16)


def _compress_snappy(records: Buffer) -> Buffer:
    view = memoryview(records)
    framed = bytearray(XERIAL_HEADER)
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES])
        framed += len(block).to_bytes(4, "big")
        framed += memoryview(block)
    return framed


def _compress_lz4(records: Buffer) -> Buffer:
    compressed: bytes = lz4.frame.compress(
        records, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return compressed


def _compress_zstd(records: Buffer) -> Buffer:
    return zstd.compress(records)


_COMPRESS: dict[int, Callable[[Buffer], Buffer]] = {
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}
_DECOMPRESS: dict[int, Callable[[memoryview, int], Buffer]] = {
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
