"""The rare or long steps that compiled functions call: varints, tagged fields, errors.

Malformed input raises ValueError here; ``codec`` turns it into a MalformedMessage that names the message and version.
"""

from siltstone.model.buffers import Buffer

VARINT_BYTES_MAX = 5
"""Lengths and tags have 32 bits; each byte of a varint carries 7 of them."""


TAGGED_FIELDS_MAX = 1_000
"""The most tagged fields at one place, as in Kafka. Messages define a few at most, but each takes only two bytes, so a
frame may claim millions, and walking over these would hold up all other clients for seconds."""


def rest_of_varint(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Returns the value of an unsigned varint and the position after it; its first byte, 128 or more, has been read
    already."""
    value = first & 0x7F
    for shift in range(7, 7 * VARINT_BYTES_MAX, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError(f"varint that ends at byte {position} is longer than {VARINT_BYTES_MAX} bytes")


def varint_at(data: Buffer, position: int) -> tuple[int, int]:
    first = data[position]
    if first < 0x80:
        return first, position + 1
    return rest_of_varint(data, position + 1, first)


def varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def skip_tagged(data: Buffer, position: int, count: int) -> int:
    """Returns the position after ``count`` tagged fields, which are skipped."""
    if count > TAGGED_FIELDS_MAX:
        raise too_many_tagged(count)
    for _ in range(count):
        _, position, end = tagged_at(data, position)
        position = end
    return position


def tagged_at(data: Buffer, position: int) -> tuple[int, int, int]:
    """Returns the tag of the tagged field at ``position``, and the positions where its value begins and ends."""
    tag, position = varint_at(data, position)
    size, position = varint_at(data, position)
    end = position + size
    if end > len(data):
        raise out_of_bounds(f"tagged field {tag}", size, position)
    return tag, position, end


def out_of_bounds(what: str, length: int, position: int) -> ValueError:
    if length < 0:
        return ValueError(f"{what} is null at byte {position}, but is not nullable")
    return ValueError(f"{what} has length {length}, more than the bytes that remain at byte {position}")


def too_long_text(what: str, length: int) -> ValueError:
    return ValueError(f"{what} has length {length}, more than a string may have")


def too_many_elements(elements_max: int) -> ValueError:
    return ValueError(f"its arrays have more than {elements_max} elements in all")


def too_many_tagged(count: int) -> ValueError:
    return ValueError(f"{count} tagged fields at one place, more than {TAGGED_FIELDS_MAX}")


def wrong_tagged(what: str, position: int, end: int) -> ValueError:
    return ValueError(f"tagged field {what} ends at byte {position}, but by its size at byte {end}")


def check_uuid(value: bytes) -> bytes:
    """Returns the uuid. The struct module would pad a shorter value with zeros and cut off a longer one."""
    if len(value) != 16:
        raise ValueError(f"a uuid has 16 bytes, not {len(value)}")
    return value
