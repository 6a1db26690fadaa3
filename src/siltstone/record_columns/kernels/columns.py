"""The layout of the arrays that kernels take and return.

*Batches*: a row for each frame of a block, a column for each of its fields, 64-bit integers. *Records*: a row for each
field and a column for each record, so that one field of all records is contiguous. *Headers*: likewise, a column for
each header of the records.
"""

from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Integers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Words: TypeAlias = npt.NDArray[np.uint32]
Slots: TypeAlias = npt.NDArray[np.uint64]
"""A slot is three numbers: the two halves of the key's hash, and offset + 1, which is 0 in a free slot."""

BATCH_COLUMNS = 12
(
    FRAME_AT, FRAME_END, BASE_OFFSET, END_OFFSET, RECORD_COUNT, SMALLEST_MS, LARGEST_MS,
    ATTRIBUTES, BASE_MS, MAX_MS, PRODUCER_ID, PRODUCER_EPOCH,
) = range(BATCH_COLUMNS)  # fmt: skip
"""The frame's positions in the block, then fields of the frame, then fields of the batch header."""

RECORD_COLUMNS = 9
(
    BATCH, RECORD_AT, RECORD_END, OFFSET_DELTA, TIME_DELTA, KEY_AT, KEY_BYTES, VALUE_BYTES, VALUE_AT,
) = range(RECORD_COLUMNS)  # fmt: skip
"""The number of the batch to which the record belongs; positions in the data, where a record begins with its length;
lengths are -1 for null."""

HEADER_COLUMNS = 4
NAME_AT, NAME_BYTES, CONTENT_AT, CONTENT_BYTES = range(HEADER_COLUMNS)
"""A row for each field and a column for each record header; the length of a null content is -1."""

NULL = -1


class ByteColumn(msgspec.Struct, frozen=True):
    """Byte strings that lie in ``data``, which is read-only; the length of a null is NULL."""

    data: Bytes
    starts: Integers
    lengths: Integers


FRAME_AND_HEADER_BYTES = 72 + 61
RECORD_BYTES_MIN = 7
"""The smallest record: null key, null value and no headers; each of its seven fields takes a byte."""


def read_only(data: bytes | bytearray | memoryview) -> Bytes:
    """Returns the bytes as a read-only array, not copied. ``machine_code`` is compiled for read-only arrays."""
    array = np.frombuffer(data, dtype=np.uint8) if len(data) else np.zeros(0, dtype=np.uint8)
    array.flags.writeable = False
    return array
