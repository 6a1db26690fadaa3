"""The hashes are those of Kafka's own test of Utils.murmur2, there as signed numbers."""

import pytest

from siltstone.kafka_protocol.records.key_partition import murmur2, partition_of_key

HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", HASHES)
def test_a_hash_is_javas(key: bytes) -> None:
    assert murmur2(key) == HASHES[key] % 2**32
    assert murmur2(memoryview(key)) == murmur2(key)


def test_a_negative_hash_gives_a_partition_all_the_same() -> None:
    assert partition_of_key(b"21", 7) == (-973932308 & 0x7FFFFFFF) % 7
    assert {partition_of_key(b"%d" % number, 5) for number in range(100)} == {0, 1, 2, 3, 4}


def test_an_empty_key_is_a_key() -> None:
    assert partition_of_key(b"", 1000) == (murmur2(b"") & 0x7FFFFFFF) % 1000
