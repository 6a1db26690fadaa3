"""Confluent's wire format: what a value begins with that was written by a serializer with a schema registry.

===========  =====================================================================================
bytes        hold
===========  =====================================================================================
0            0, the magic byte
1 … 4        the id of the schema, big endian
or 0         1, the magic byte of newer serializers
   1 … 16    the GUID of the schema
then         Protobuf only: the path to the message in its file, a count and so many indexes, all
             zigzag varints; the single byte 0 is short for the path [0], the first message
then         the payload
===========  =====================================================================================

A serializer may write the same bytes into a header of the record instead; ``headers`` puts them before the value. Null
values have neither. The prefixes of a whole column are read at once, without a copy of the values.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt

MAGIC = 0
PREFIX_BYTES = 5
GUID_MAGIC = 1
GUID_PREFIX_BYTES = 17
NOT_FRAMED = -1
"""The id of a value that does not begin as the wire format does, and of a null."""

SchemaName: TypeAlias = int | str
"""How a value names its schema: by its id in the registry, or by its GUID, a text of hexadecimal digits and hyphens."""

Codes: TypeAlias = npt.NDArray[np.int64]

_PATH_LENGTH_MAX = 64
"""No real message is nested deeper than this; without the limit a damaged count would make the reader allocate
memory."""


class PathMalformed(Exception):
    """The bytes after the prefix are no path to a message."""


def schema_codes(values: Any) -> tuple[Codes, dict[int, SchemaName]]:
    """Returns a number for each value of a pyarrow.BinaryArray, the same for values that name one schema, and
    NOT_FRAMED for a value that names none; and the names of the schemas by these numbers. The number of an id is the
    id."""
    codes = np.full(len(values), NOT_FRAMED, dtype=np.int64)
    if not len(values):
        return codes, {}
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    if data_buffer is None or data_buffer.size < PREFIX_BYTES:
        return codes, {}
    data = np.frombuffer(data_buffer, dtype=np.uint8)
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    rows = np.flatnonzero((lengths >= PREFIX_BYTES) & ~nulls_of(values))
    magic = data[starts[rows]]
    with_id = rows[magic == MAGIC]
    codes[with_id] = _bytes_from(data, starts[with_id] + 1, 4).copy().view(">u4").ravel()
    names: dict[int, SchemaName] = {int(each): int(each) for each in np.unique(codes[with_id])}
    with_guid = rows[(magic == GUID_MAGIC) & (lengths[rows] >= GUID_PREFIX_BYTES)]
    if len(with_guid):
        found = _bytes_from(data, starts[with_guid] + 1, 16)
        guids, numbers = np.unique(found, axis=0, return_inverse=True)
        codes[with_guid] = NOT_FRAMED - 1 - numbers.reshape(-1)
        for number, guid in enumerate(guids):
            names[NOT_FRAMED - 1 - number] = str(UUID(bytes=guid.tobytes()))
    return codes, names


def _bytes_from(data: npt.NDArray[np.uint8], at: Codes, count: int) -> npt.NDArray[np.uint8]:
    """Returns so many bytes from each of the positions, a row for each."""
    found: npt.NDArray[np.uint8] = data[at[:, np.newaxis] + np.arange(count)]
    return found


def in_order(names: Iterable[SchemaName]) -> list[SchemaName]:
    """Returns the names of schemas, without repetitions: ids first, then GUIDs."""
    given = set(names)
    ids, guids = (sorted(each for each in given if isinstance(each, kind)) for kind in (int, str))
    return [*ids, *guids]


def payload_at(value: bytes) -> int:
    """Returns where the payload, or the path of Protobuf before it, begins in a value that names its schema; 0 in
    another."""
    magic = value[:1]
    if magic == bytes([MAGIC]):
        return PREFIX_BYTES
    return GUID_PREFIX_BYTES if magic == bytes([GUID_MAGIC]) else 0


def payloads(values: Any) -> Any:
    """Returns the values of a pyarrow.BinaryArray without the names of schemas before them: of JSON, which needs
    none."""
    from siltstone.record_columns.arrow import require_arrow  # noqa: PLC0415  loads pyarrow

    codes, _ = schema_codes(values)
    if (codes == NOT_FRAMED).all():
        return values
    arrow = require_arrow()
    return arrow.array(
        [each if each is None else each[payload_at(each) :] for each in values.to_pylist()], arrow.binary()
    )


def nulls_of(values: Any) -> npt.NDArray[np.bool_]:
    """Marks the values of a pyarrow.Array that are null."""
    found: npt.NDArray[np.bool_] = values.is_null().to_numpy(zero_copy_only=False)
    return found


def message_path(value: bytes) -> tuple[tuple[int, ...], int]:
    """Returns the path to the message of a Protobuf value, and the position of its payload. Raises PathMalformed."""
    count, position = _zigzag(value, payload_at(value))
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
