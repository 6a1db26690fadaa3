"""Compresses and decompresses the records of a batch, by the codec number of its header, up to a limit of bytes.

docs/decisions/0006-kafka-codecs.md names the library of each codec and the reasons. gzip, lz4 and zstd are streams of
one or more members, which need not state their decompressed size; one loop reads all three and stops at the limit.
snappy states the decompressed size before the data.

The output can be read by the strictest reader: lz4 frames have independent blocks of 64 KiB, because Java reads each
block by itself; snappy has xerial's framing with blocks of 32 KiB, as Java writes it.

What is stored is read in every framing that its codec has. What a producer sends is read ``as_kafka`` reads it, where a
topic checks records: of lz4, Kafka's reader takes the first frame alone and each of its blocks by itself, so records
behind them would be stored, and no Java consumer would ever see them. ``lz4_frames`` has these rules.
"""

import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import cramjam
import lz4.frame

from siltstone.kafka_protocol.batch_errors import DecompressedTooLarge, DecompressionFailed, UnknownCodec
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.kafka_protocol.records.lz4_frames import with_separate_blocks
from siltstone.model.buffers import Buffer

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01" * 2  # version, and the oldest version that reads it
XERIAL_BLOCK_BYTES = 32 * 1024
MEMBERS_MAX = 100
"""The most members of a compressed stream; producers write one. The bytes after each member are copied, so a batch of
thousands of tiny members would block the broker."""
_OUTPUT_BYTES_MIN = 64 * 1024
_FAILURES = (
    zlib.error,
    zstd.ZstdError,
    cramjam.DecompressionError,
    RuntimeError,
    EOFError,
)  # lz4 raises RuntimeError


class Decompressor(Protocol):
    """The interface that the decompressors of zstd and lz4 share: each decompresses one member of a stream and
    returns at most ``max_length`` bytes per call."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> Buffer: ...
    def decompress(self, data: Buffer, max_length: int) -> bytes: ...


class GzipDecompressor:
    """zlib's decompressor with the interface of the others: it gives zlib the input that it did not consume."""

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


def decompress(
    codec_number: int, records: memoryview, size_bytes_max: int, *, as_kafka: bool = False
) -> memoryview:
    """Decompresses ``records`` to at most ``size_bytes_max``; returns the same view if they are not compressed.
    ``as_kafka``: reads no more than Kafka's own reader does.

    Raises UnknownCodec, DecompressionFailed, DecompressedTooLarge.
    """
    if codec_number == Codec.NONE:
        return records
    if codec_number not in _DECOMPRESS:
        raise UnknownCodec(f"compression codec {codec_number} does not exist; use 0 to {Codec.ZSTD:d}")
    read = _decompress_lz4_as_kafka if as_kafka and codec_number == Codec.LZ4 else _DECOMPRESS[codec_number]
    try:
        return memoryview(read(records, size_bytes_max))
    except _FAILURES as cause:
        raise DecompressionFailed(
            f"the records are not a {Codec(codec_number).name} stream: {cause}"
        ) from cause


def _decompress_stream(
    new: Callable[[], Decompressor], data: Buffer, size_bytes_max: int, *, first_only: bool = False
) -> bytes:
    """Decompresses all members of the stream, or the first one. The loop requests up to one byte more than the limit,
    to distinguish a stream that reaches the limit from one that exceeds it. Each call requests a moderate size, because
    lz4 allocates all that is requested."""
    pieces: list[bytes] = []
    left_bytes = size_bytes_max + 1
    step_bytes = max(_OUTPUT_BYTES_MIN, 4 * len(data))
    members = 0
    while data:
        members += 1
        if members > MEMBERS_MAX:
            raise DecompressionFailed(
                f"the records are more than {MEMBERS_MAX} compressed streams in one batch; send one stream"
            )
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
        data = b"" if first_only else member.unused_data
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _ends_early() -> DecompressionFailed:
    return DecompressionFailed("the compressed records end early")


def _too_large(size_bytes_max: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(
        f"the records of a batch decompress to more than {size_bytes_max} bytes; send smaller batches"
    )


def _decompress_gzip(data: Buffer, size_bytes_max: int) -> Buffer:
    return _decompress_stream(GzipDecompressor, data, size_bytes_max)


def _decompress_lz4(data: Buffer, size_bytes_max: int) -> Buffer:
    return _decompress_stream(lz4.frame.LZ4FrameDecompressor, data, size_bytes_max)


def _decompress_lz4_as_kafka(data: memoryview, size_bytes_max: int) -> Buffer:
    frame = with_separate_blocks(data)
    return _decompress_stream(lz4.frame.LZ4FrameDecompressor, frame, size_bytes_max, first_only=True)


def _decompress_zstd(data: Buffer, size_bytes_max: int) -> Buffer:
    return _decompress_stream(zstd.ZstdDecompressor, data, size_bytes_max)


def _decompress_snappy(data: memoryview, size_bytes_max: int) -> Buffer:
    """Decompresses blocks in xerial's framing, or one raw block, which librdkafka writes. Each block begins with its
    decompressed size."""
    framed = data[: len(XERIAL_MAGIC)] == XERIAL_MAGIC
    records = bytearray()
    for block in _xerial_blocks(data) if framed else (data,):
        if len(records) + cramjam.snappy.decompress_raw_len(block) > size_bytes_max:
            raise _too_large(size_bytes_max)
        records += memoryview(cramjam.snappy.decompress_raw(block))
    return records


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    """Yields the blocks of one stream, or of several after one another, which Java reads, too."""
    position = len(XERIAL_HEADER)
    while position < len(data):
        if data[position : position + len(XERIAL_MAGIC)] == XERIAL_MAGIC:
            position += len(XERIAL_HEADER)
            continue
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
