import gzip
import random
import tracemalloc

import cramjam
import lz4.frame
import pytest

from siltstone.kafka_protocol.batch_errors import DecompressedTooLarge, DecompressionFailed, UnknownCodec
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.kafka_protocol.records import compression
from siltstone.kafka_protocol.records.compression import XERIAL_HEADER, compress, decompress
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import MIB

COMPRESSED = [codec for codec in Codec if codec != Codec.NONE]
NOISE = random.Random(1).randbytes(100_000)
SAMPLES = {
    "empty": b"",
    "byte": b"x",
    "short": b"siltstone " * 5,
    "one block": bytes(32 * 1024),
    "block and a byte": bytes(32 * 1024 + 1),
    "noise": NOISE,
    "large": (NOISE[:1000] + bytes(1000)) * 600,
}


def there_and_back(codec, data, limit=2 * MIB):
    return bytes(decompress(codec, memoryview(bytes(compress(codec, data))), limit))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("sample", SAMPLES)
def test_bytes_come_back(codec, sample):
    assert there_and_back(codec, SAMPLES[sample]) == SAMPLES[sample]


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_taken(codec, kind):
    compressed = compress(codec, kind(SAMPLES["short"]))
    assert bytes(decompress(codec, memoryview(compressed), 100)) == SAMPLES["short"]


def test_no_compression_is_the_same_view():
    view = memoryview(b"records")
    assert decompress(Codec.NONE, view, 0) is view
    assert compress(Codec.NONE, view) is view


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs(codec):
    with pytest.raises(UnknownCodec, match=f"codec {codec} does not exist"):
        decompress(codec, memoryview(b""), 10)


def xerial(data: bytes, block_bytes: int) -> bytes:
    framed = XERIAL_HEADER
    for start in range(0, len(data), block_bytes):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + block_bytes]))
        framed += len(block).to_bytes(4, "big") + block
    return framed


def zstd_stream(data: bytes) -> bytes:
    """Written as it comes, as Java and librdkafka do: the frame cannot say how long it gets."""
    compressor = compression.zstd.ZstdCompressor()
    written = (
        b"".join(compressor.compress(data[at : at + 999]) for at in range(0, len(data), 999))
        + compressor.flush()
    )
    assert not compression.zstd.get_frame_info(written).decompressed_size
    return written


# Cramjam, the standard library and lz4's own defaults as the other side, streaming where they can.
FOREIGN = {
    "gzip of another library": (Codec.GZIP, cramjam.gzip.compress),
    "gzip with a file name": (Codec.GZIP, lambda data: gzip.compress(data, 9)),
    "gzip of two members": (Codec.GZIP, lambda data: gzip.compress(data[:70]) + gzip.compress(data[70:])),
    "raw snappy, as librdkafka writes it": (Codec.SNAPPY, cramjam.snappy.compress_raw),
    "xerial in large blocks": (Codec.SNAPPY, lambda data: xerial(data, 100_000)),
    "xerial in small blocks": (Codec.SNAPPY, lambda data: xerial(data, 1_000)),
    "two xerial streams": (Codec.SNAPPY, lambda data: xerial(data[:70], 50) + xerial(data[70:], 1_000)),
    "lz4 with linked blocks and content size": (
        Codec.LZ4,
        lambda data: lz4.frame.compress(data, block_linked=True, store_size=True, content_checksum=True),
    ),
    "lz4 of another library": (Codec.LZ4, cramjam.lz4.compress),
    "lz4 of two frames": (
        Codec.LZ4,
        lambda data: lz4.frame.compress(data[:70]) + lz4.frame.compress(data[70:]),
    ),
    "zstd without content size": (Codec.ZSTD, zstd_stream),
    "zstd of two frames": (Codec.ZSTD, lambda data: zstd_stream(data[:70]) + zstd_stream(data[70:])),
    "zstd of another library": (Codec.ZSTD, cramjam.zstd.compress),
    "zstd with a frame to skip": (
        Codec.ZSTD,
        lambda data: b"\x50\x2a\x4d\x18\x02\0\0\0xy" + zstd_stream(data),
    ),
}


@pytest.mark.parametrize("form", FOREIGN)
@pytest.mark.parametrize("sample", ["short", "noise", "large"])
def test_what_others_write(form, sample):
    codec, written_by = FOREIGN[form]
    written = memoryview(bytes(written_by(SAMPLES[sample])))
    assert bytes(decompress(codec, written, 2 * MIB)) == SAMPLES[sample]


def test_others_read_what_we_write():
    data = SAMPLES["large"]
    assert gzip.decompress(compress(Codec.GZIP, data)) == data
    assert lz4.frame.decompress(compress(Codec.LZ4, data)) == data
    assert bytes(cramjam.zstd.decompress(compress(Codec.ZSTD, data))) == data
    assert bytes(compress(Codec.SNAPPY, data)) == xerial(data, 32 * 1024)


def test_lz4_is_what_java_reads():
    """Its reader knows version 1, blocks that it can read one by one, of up to 4 MiB, and no dictionary."""
    flags, block = compress(Codec.LZ4, SAMPLES["large"])[4:6]
    assert flags == 0b0110_0000
    assert block == 4 << 4  # 64 KiB


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("sample", ["byte", "short", "noise", "large"])
def test_the_limit_is_exact(codec, sample):
    size = len(SAMPLES[sample])
    assert len(there_and_back(codec, SAMPLES[sample], size)) == size
    with pytest.raises(DecompressedTooLarge, match=f"more than {size - 1} bytes"):
        there_and_back(codec, SAMPLES[sample], size - 1)


@pytest.mark.parametrize("form", FOREIGN)
def test_the_limit_is_that_of_all_members(form):
    codec, written_by = FOREIGN[form]
    written = memoryview(bytes(written_by(SAMPLES["noise"])))
    assert len(decompress(codec, written, 100_000)) == 100_000
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, written, 99_999)


BOMB_BYTES = 256 * MIB
BOMBS = {
    "gzip": (Codec.GZIP, lambda: compress(Codec.GZIP, bytes(BOMB_BYTES // 4)) * 4),
    "lz4": (Codec.LZ4, lambda: compress(Codec.LZ4, bytes(BOMB_BYTES // 16)) * 16),
    "zstd": (Codec.ZSTD, lambda: compress(Codec.ZSTD, bytes(BOMB_BYTES))),
    "snappy": (Codec.SNAPPY, lambda: xerial(bytes(BOMB_BYTES // 16), 16 * MIB) * 16),
    "snappy that only says so": (Codec.SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + bytes(20)),
    "xerial that only says so": (
        Codec.SNAPPY,
        lambda: XERIAL_HEADER + b"\0\0\0\x19\xff\xff\xff\xff\x0f" + bytes(20),
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_ab04_bombs_are_given_up_at_the_limit(bomb, monkeypatch):
    codec, made = BOMBS[bomb]
    data = memoryview(bytes(made()))
    assert len(data) < BOMB_BYTES // 10
    decompressed = []
    raw = cramjam.snappy.decompress_raw
    monkeypatch.setattr(
        cramjam.snappy, "decompress_raw", lambda block: decompressed.append(block) or raw(block)
    )
    tracemalloc.start()
    try:
        with pytest.raises(DecompressedTooLarge):
            decompress(codec, data, 1 * MIB)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not decompressed
    assert peak_bytes < 4 * MIB


@pytest.mark.parametrize("codec", COMPRESSED)
def test_truncated_at_every_byte(codec):
    compressed = bytes(compress(codec, NOISE[:300] + bytes(300)))
    whole = {len(XERIAL_HEADER)} if codec == Codec.SNAPPY else set()  # no blocks: of nothing
    for length in set(range(1, len(compressed))) - whole:
        with pytest.raises(DecompressionFailed):
            decompress(codec, memoryview(compressed)[:length], MIB)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_flipped_bits_are_read_or_named(codec):
    compressed = bytes(compress(codec, NOISE[:100] + bytes(100)))
    for bit in range(len(compressed) * 8):
        flipped = bytearray(compressed)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            assert len(decompress(codec, memoryview(flipped), MIB)) <= MIB
        except SiltstoneError as error:
            assert str(error)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("garbage", [b"garbage", bytes(100), NOISE[:1000], b"\xff" * 100])
def test_garbage_is_named(codec, garbage):
    with pytest.raises((DecompressionFailed, DecompressedTooLarge)):
        decompress(codec, memoryview(garbage), MIB)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_garbage_after_a_stream_is_named(codec):
    compressed = bytes(compress(codec, SAMPLES["short"]))
    with pytest.raises(DecompressionFailed):
        decompress(codec, memoryview(compressed + b"garbage"), MIB)


@pytest.mark.parametrize("length", ["ffffffff", "7fffffff", "80000000", "00000010"])
def test_xerial_blocks_of_impossible_lengths(length):
    with pytest.raises(DecompressionFailed):
        decompress(Codec.SNAPPY, memoryview(XERIAL_HEADER + bytes.fromhex(length) + b"block"), MIB)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_many_tiny_streams_are_refused(codec):
    one = bytes(compress(codec, b"x"))
    most = memoryview(one * compression.MEMBERS_MAX)
    assert bytes(decompress(codec, most, MIB)) == b"x" * compression.MEMBERS_MAX
    with pytest.raises(DecompressionFailed, match="more than 100"):
        decompress(codec, memoryview(bytes(most) + one), MIB)


def test_xerial_framing_of_nothing():
    assert bytes(decompress(Codec.SNAPPY, memoryview(XERIAL_HEADER), 0)) == b""
