"""The framings of compressed batches that Kafka's reader takes and refuses: a topic that checks records does the same.

Java decides, for each codec and framing; what is refused would be stored, and no Java consumer could read it.
"""

import gzip
import random
from collections.abc import Callable, Iterator

import cramjam
import lz4.frame
import pytest
from py4j.protocol import Py4JError

from oracles.java_records import JavaRecords, running_java_records
from siltstone.kafka_protocol.batch_errors import DecompressionFailed, RecordCountWrong
from siltstone.kafka_protocol.batch_header import BATCH_HEADER_BYTES, Codec
from siltstone.kafka_protocol.records import compression
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.compression import XERIAL_HEADER
from siltstone.kafka_protocol.records.reading import MalformedRecords, Record
from siltstone.kafka_protocol.records.validation import validate_keys, validate_records
from siltstone.model.errors import SiltstoneError
from support.kafka.kafka_batches import with_body
from support.kafka.kafka_oracles import or_skip

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka"), pytest.mark.timeout(600)]

PLAIN = bytes(
    build_batch([Record(key=b"k", value=random.Random(number).randbytes(400) * 8) for number in range(60)])
)
RECORDS = PLAIN[BATCH_HEADER_BYTES:]
HALF = len(RECORDS) // 2
SKIPPED = b"\x50\x2a\x4d\x18\x02\0\0\0xy"
"""A frame to be skipped, as lz4 and zstd have it."""


def xerial(data: bytes, block_bytes: int = 32_768) -> bytes:
    framed = XERIAL_HEADER
    for start in range(0, len(data), block_bytes):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + block_bytes]))
        framed += len(block).to_bytes(4, "big") + block
    return framed


def lz4_frame(data: bytes, **options: object) -> bytes:
    given = {"block_linked": False, "block_size": lz4.frame.BLOCKSIZE_MAX64KB, "store_size": False, **options}
    return bytes(lz4.frame.compress(data, **given))


def zstd_stream(data: bytes) -> bytes:
    compressor = compression.zstd.ZstdCompressor()
    return bytes(compressor.compress(data) + compressor.flush())


def halves(framed: Callable[[bytes], bytes]) -> bytes:
    return framed(RECORDS[:HALF]) + framed(RECORDS[HALF:])


FRAMINGS: dict[str, tuple[Codec, bytes]] = {
    "gzip": (Codec.GZIP, gzip.compress(RECORDS)),
    "gzip, two members": (Codec.GZIP, halves(gzip.compress)),
    "gzip, an empty member first": (Codec.GZIP, gzip.compress(b"") + gzip.compress(RECORDS)),
    "snappy raw": (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(RECORDS))),
    "snappy xerial": (Codec.SNAPPY, xerial(RECORDS)),
    "snappy xerial, large blocks": (Codec.SNAPPY, xerial(RECORDS, 150_000)),
    "snappy, two xerial streams": (Codec.SNAPPY, halves(xerial)),
    "lz4": (Codec.LZ4, lz4_frame(RECORDS)),
    "lz4, content size": (Codec.LZ4, lz4_frame(RECORDS, store_size=True)),
    "lz4, content checksum": (Codec.LZ4, lz4_frame(RECORDS, content_checksum=True)),
    "lz4, block checksums": (Codec.LZ4, lz4_frame(RECORDS, block_checksum=True)),
    "lz4, blocks of 256 KiB": (Codec.LZ4, lz4_frame(RECORDS, block_size=lz4.frame.BLOCKSIZE_MAX256KB)),
    "lz4, blocks of 1 MiB": (Codec.LZ4, lz4_frame(RECORDS, block_size=lz4.frame.BLOCKSIZE_MAX1MB)),
    "lz4, blocks of 4 MiB": (Codec.LZ4, lz4_frame(RECORDS, block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
    "lz4, several linked blocks": (Codec.LZ4, lz4_frame(RECORDS, block_linked=True)),
    "lz4, one block called linked": (
        Codec.LZ4, lz4_frame(RECORDS, block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    ),
    "lz4, two frames": (Codec.LZ4, halves(lz4_frame)),
    "lz4, an empty frame first": (Codec.LZ4, lz4_frame(b"") + lz4_frame(RECORDS)),
    "lz4, an empty frame last": (Codec.LZ4, lz4_frame(RECORDS) + lz4_frame(b"")),
    "lz4, a frame to skip first": (Codec.LZ4, SKIPPED + lz4_frame(RECORDS)),
    "lz4, a frame to skip last": (Codec.LZ4, lz4_frame(RECORDS) + SKIPPED),
    "zstd": (Codec.ZSTD, bytes(compression.zstd.compress(RECORDS))),
    "zstd, no content size": (Codec.ZSTD, zstd_stream(RECORDS)),
    "zstd, two frames": (Codec.ZSTD, halves(zstd_stream)),
    "zstd, a frame to skip first": (Codec.ZSTD, SKIPPED + zstd_stream(RECORDS)),
    "zstd, a frame to skip last": (Codec.ZSTD, zstd_stream(RECORDS) + SKIPPED),
}  # fmt: skip


@pytest.fixture(scope="module")
def java() -> Iterator[JavaRecords]:
    with or_skip(running_java_records) as found:
        yield found


def is_taken_by_java(java: JavaRecords, batch: bytes) -> bool:
    try:
        return len(java.read(batch)) == 60
    except Py4JError:
        return False


@pytest.mark.parametrize("framing", FRAMINGS)
def test_what_kafkas_reader_takes_is_taken_and_nothing_else(java: JavaRecords, framing: str) -> None:
    codec, records = FRAMINGS[framing]
    batch = bytes(with_body(PLAIN, records, attributes=codec))
    is_taken = is_taken_by_java(java, batch)
    for check in (validate_records, validate_keys):
        try:
            check(batch)
        except SiltstoneError as refusal:
            assert isinstance(refusal, DecompressionFailed | MalformedRecords | RecordCountWrong)
            assert not is_taken, refusal
        else:
            assert is_taken
