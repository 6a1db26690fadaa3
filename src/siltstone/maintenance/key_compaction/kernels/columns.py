"""What the columns of the arrays hold that kernels pass around.

*Batches*: a row for each frame of a block, 64-bit integers. *Records*: a row for each fact, a column for each record,
so that one fact of all records lies together.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Integers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Slots: TypeAlias = npt.NDArray[np.uint64]
"""Three numbers a slot: two of the key's hash, and offset + 1; 0 in the last one says that the slot is free."""

BATCH_COLUMNS = 12
(
    FRAME_AT, FRAME_END, BASE_OFFSET, END_OFFSET, RECORD_COUNT, SMALLEST_MS, LARGEST_MS,
    ATTRIBUTES, BASE_MS, MAX_MS, PRODUCER_ID, PRODUCER_EPOCH,
) = range(BATCH_COLUMNS)  # fmt: skip
"""Positions of the frame in the block, then the frame's own fields, then those of the batch header."""

RECORD_COLUMNS = 8
BATCH, RECORD_AT, RECORD_END, OFFSET_DELTA, TIME_DELTA, KEY_AT, KEY_BYTES, VALUE_BYTES = range(RECORD_COLUMNS)
"""Which of the batches given it belongs to; positions in the data, the record's own length included; lengths are -1 for
null."""

FRAME_AND_HEADER_BYTES = 72 + 61
RECORD_BYTES_MIN = 7
"""Of a record that is all null and empty: each of its fields takes a byte."""


def read_only(data: bytes | bytearray | memoryview) -> Bytes:
    """The bytes as an array, not copied. Machine code is made for arrays that nobody writes to."""
    array = np.frombuffer(data, dtype=np.uint8) if len(data) else np.zeros(0, dtype=np.uint8)
    array.flags.writeable = False
    return array
