"""Zigzag varints: seven bits per byte, lowest bits first; the lowest bit of the encoded value is the sign.

As in Kafka's ByteUtils, an int32 takes at most 5 bytes and an int64 at most 10. Unlike there, bits beyond the integer's
width are refused instead of dropped.
"""

from siltstone.kafka_protocol.batch_errors import MalformedRecords
from siltstone.model.buffers import Buffer

INT32_BITS = 32
INT64_BITS = 64


def decode_varint(data: Buffer, position: int, bits: int = INT32_BITS) -> tuple[int, int]:
    """Returns the integer at ``position`` and the position after it. Raises IndexError at the end of the data, which
    the caller turns into an error that names the record, and MalformedRecords for an integer that is too wide."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    raw = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        if shift >= bits:
            raise MalformedRecords(f"an integer at {position} is longer than {bits} bits allow")
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
    if raw >> bits:
        raise MalformedRecords(f"an integer before {position} has more than {bits} bits")
    return (raw >> 1) ^ -(raw & 1), position


def append_varint(target: bytearray, value: int) -> None:
    raw = value << 1 if value >= 0 else ~(value << 1)
    while raw >= 0x80:
        target.append(raw & 0x7F | 0x80)
        raw >>= 7
    target.append(raw)
