"""The partition of a key: Kafka's hash of the key, murmur2 of 32 bits, without the sign, modulo the number of
partitions [Kafka: BuiltInPartitioner, Utils.murmur2]. So records of a key share a partition, whichever client wrote
them."""

from functools import lru_cache
from struct import unpack_from

from siltstone.model.buffers import Buffer

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFF_FFFF
_POSITIVE = 0x7FFF_FFFF


def murmur2(data: Buffer) -> int:
    """Kafka's hash of a key, as an unsigned integer of 32 bits."""
    length = len(data)
    words = length // 4
    hashed = (_SEED ^ length) & _MASK
    for word in unpack_from(f"<{words}I", data):
        mixed = word * _FACTOR & _MASK
        mixed ^= mixed >> 24
        hashed = (hashed * _FACTOR ^ mixed * _FACTOR) & _MASK
    if rest := data[4 * words :]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _FACTOR & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * _FACTOR & _MASK
    return hashed ^ hashed >> 15


@lru_cache(maxsize=65_536)  # keys repeat, and hashing in Python takes longer than a lookup
def partition_of_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & _POSITIVE) % partition_count
