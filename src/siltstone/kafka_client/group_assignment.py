"""Which partitions a member of a consumer group reads: the assignment of a protocol of type ``consumer``.

====== ============== ============================================================================
order  field          type
====== ============== ============================================================================
1      version        int16
2      topics         int32 count, then each: int16 length and UTF-8; int32 count, partitions int32
3      user data      not read
====== ============== ============================================================================

Big endian; later versions only add to the end. Bytes that do not fit are another assignor's business.
"""

from struct import Struct, error, unpack_from

from siltstone.kafka_client.topic_partition import TopicPartition
from siltstone.model.buffers import Buffer

_HEAD = Struct(">hi")
_LENGTH = Struct(">h")
_COUNT = Struct(">i")


def assigned_partitions(assignment: Buffer) -> tuple[TopicPartition, ...]:
    """None at all when ``assignment`` is no consumer's."""
    try:
        return tuple(_read(bytes(assignment)))
    except (error, UnicodeDecodeError, ValueError):
        return ()


def _read(data: bytes) -> list[TopicPartition]:
    _, topics = _HEAD.unpack_from(data)
    position = _HEAD.size
    found: list[TopicPartition] = []
    for _ in range(topics):
        (length,) = _LENGTH.unpack_from(data, position)
        name = data[position + _LENGTH.size : position + _LENGTH.size + length].decode()
        position += _LENGTH.size + length
        (count,) = _COUNT.unpack_from(data, position)
        position += _COUNT.size
        if length < 0 or not 0 <= count <= (len(data) - position) // _COUNT.size:
            raise ValueError(f"{count} partitions of a topic in {len(data) - position} bytes")
        found += [TopicPartition(name, number) for number in unpack_from(f">{count}i", data, position)]
        position += count * _COUNT.size
    return found
