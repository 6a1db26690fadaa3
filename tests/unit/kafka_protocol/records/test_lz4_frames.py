"""What Kafka's reader takes of lz4; tests/integration/test_java_codecs.py asks that reader itself."""

import random

import lz4.frame
import pytest

from siltstone.kafka_protocol.batch_errors import DecompressionFailed
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.kafka_protocol.records.compression import decompress
from siltstone.kafka_protocol.records.lz4_frames import with_separate_blocks, xxh32_of_few
from siltstone.model.limits import MIB

DATA = random.Random(1).randbytes(500) * 400


def as_kafka(stream: bytes) -> bytes:
    return bytes(decompress(Codec.LZ4, memoryview(stream), MIB, as_kafka=True))


def frame(data: bytes = DATA, **options: object) -> bytes:
    return bytes(lz4.frame.compress(data, **options))


@pytest.mark.parametrize(
    ("data", "hash_of_it"),
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)],
)
def test_the_hash_is_xxhash(data: bytes, hash_of_it: int) -> None:
    assert xxh32_of_few(data) == hash_of_it


def test_separate_blocks_are_not_copied() -> None:
    stream = memoryview(frame(block_linked=False))
    assert with_separate_blocks(stream) is stream


@pytest.mark.parametrize("size", [True, False])
def test_a_frame_that_calls_its_blocks_linked_is_read_block_by_block(size: bool) -> None:
    assert as_kafka(frame(DATA[:60_000], block_linked=True, store_size=size)) == DATA[:60_000]
    noise = random.Random(2).randbytes(200_000)
    assert as_kafka(frame(noise, block_linked=True, store_size=size)) == noise, "no block refers to another"
    with pytest.raises(DecompressionFailed):
        as_kafka(frame(block_linked=True, store_size=size))


def test_what_follows_the_first_frame_is_not_read() -> None:
    assert as_kafka(frame(b"a", block_linked=False) + frame(b"b") + b"garbage") == b"a"
    assert bytes(decompress(Codec.LZ4, memoryview(frame(b"a") + frame(b"b")), MIB)) == b"ab"


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (b"", "do not begin with a frame"),
        (b"\x50\x2a\x4d\x18\x02\0\0\0xy" + frame(), "do not begin with a frame"),
        (b"\x04\x22\x4d\x18\x61" + frame()[5:], "dictionary"),
        (frame(block_linked=True)[:6], "ends early"),
        (frame(block_linked=True)[:6] + b"?" + frame()[7:], "damaged"),
    ],
)
def test_what_kafkas_reader_does_not_know_is_refused(stream: bytes, why: str) -> None:
    with pytest.raises(DecompressionFailed, match=why):
        as_kafka(stream)
