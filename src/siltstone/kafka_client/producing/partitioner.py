"""Which partition a record goes to, as Java clients decide it: records of one key stay together whoever wrote them.

murmur2 of the key, without its sign, modulo the number of partitions. Records without a key go to one partition for as
long as one batch, then to the next. Source of the rule: Kafka's BuiltInPartitioner and Utils.murmur2.
"""

from functools import lru_cache
from struct import unpack_from

from siltstone.model.buffers import Buffer

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFF_FFFF
_POSITIVE = 0x7FFF_FFFF


def murmur2(data: Buffer) -> int:
    """32 bits, unsigned."""
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


@lru_cache(maxsize=65_536)  # keys come again, and a hash in Python takes longer than looking it up
def partition_of_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & _POSITIVE) % partition_count


class RoundRobin:
    """For records without a key."""

    def __init__(self, partition_count: int, first: int) -> None:
        self._partition_count = partition_count
        self.partition = first % partition_count

    def turn(self) -> None:
        """The batch is full: the next partition's turn."""
        self.partition = (self.partition + 1) % self._partition_count
