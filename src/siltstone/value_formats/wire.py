"""Confluent's wire format: what a value begins with that was written by a serializer with a schema registry.

===========  =====================================================================================
bytes        hold
===========  =====================================================================================
0            0, the magic byte
1 … 4        the id of the schema, big endian
5 …          Protobuf only: the path to the message in its file, a count and so many indexes, all
             zigzag varints; the single byte 0 is short for the path [0], the first message
then         the payload
===========  =====================================================================================

Null values have neither. The prefixes of a whole column are read at once, without a copy of the values.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

MAGIC = 0
PREFIX_BYTES = 5
NOT_FRAMED = -1
"""The id of a value that does not begin as the wire format does, and of a null."""

_PATH_LENGTH_MAX = 64
"""No real message is nested deeper than this; without the limit a damaged count would make the reader allocate
memory."""


class PathMalformed(Exception):
    """The bytes after the prefix are no path to a message."""


def schema_ids(values: Any) -> npt.NDArray[np.int64]:
    """Returns the schema id of each value of a pyarrow.BinaryArray; NOT_FRAMED where there is none."""
    ids = np.full(len(values), NOT_FRAMED, dtype=np.int64)
    if not len(values):
        return ids
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    if data_buffer is None or data_buffer.size < PREFIX_BYTES:
        return ids
    data = np.frombuffer(data_buffer, dtype=np.uint8)
    starts = offsets[:-1].astype(np.int64)
    is_long_enough = (offsets[1:] - offsets[:-1] >= PREFIX_BYTES) & ~nulls_of(values)
    rows = np.flatnonzero(is_long_enough)
    rows = rows[data[starts[rows]] == MAGIC]
    at = starts[rows] + 1
    ids[rows] = (
        data[at].astype(np.int64) << 24
        | data[at + 1].astype(np.int64) << 16
        | data[at + 2].astype(np.int64) << 8
        | data[at + 3].astype(np.int64)
    )
    return ids


def nulls_of(values: Any) -> npt.NDArray[np.bool_]:
    """Marks the values of a pyarrow.Array that are null."""
    found: npt.NDArray[np.bool_] = values.is_null().to_numpy(zero_copy_only=False)
    return found


def message_path(value: bytes, position: int = PREFIX_BYTES) -> tuple[tuple[int, ...], int]:
    """Returns the path to the message of a Protobuf value, and the position of its payload. Raises PathMalformed."""
    count, position = _zigzag(value, position)
    if count == 0:
        return (0,), position
    if not 0 < count <= _PATH_LENGTH_MAX:
        raise PathMalformed(f"a path of {count} messages")
    path = []
    for _ in range(count):
        index, position = _zigzag(value, position)
        path.append(index)
    return tuple(path), position


def _zigzag(value: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if position >= len(value) or shift > 63:
            raise PathMalformed("it ends inside a varint")
        byte = value[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7
