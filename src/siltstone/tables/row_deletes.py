"""Packs which rows of a data file were deleted, and says which rows are left. Pure.

Programs that delete rows without rewriting a data file write the positions of these rows elsewhere: a Delta table has
deletion vectors, an Iceberg table has files of position deletes. The driver reads these once. A task gets them as a bit
for each row up to the last deleted one, compressed.
"""

import zlib

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


class DeletedRows:
    """Gathers the deleted rows of one file, a bit for each row of the file."""

    def __init__(self, rows: int) -> None:
        self._bits = np.zeros(-(-rows // 8), dtype=np.uint8)

    def add(self, positions: Positions) -> None:
        """Adds rows. A position behind the end of the file names no row."""
        inside = positions[(positions >= 0) & (positions < 8 * len(self._bits))]
        np.bitwise_or.at(self._bits, inside >> 3, (0x80 >> (inside & 7)).astype(np.uint8))

    def packed(self) -> bytes:
        """Returns the rows as bytes; nothing if there are none. Equal rows are equal bytes."""
        last = np.flatnonzero(self._bits)[-1:]
        return zlib.compress(self._bits[: last[0] + 1].tobytes()) if len(last) else b""


def packed(flags: Flags) -> bytes:
    """Packs a flag for each row, true: it was deleted."""
    found = DeletedRows(len(flags))
    found.add(np.flatnonzero(flags))
    return found.packed()


def deleted_flags(deleted: bytes) -> Flags:
    """Returns a flag for each row up to the last deleted one, and perhaps some after it; true: it was deleted."""
    bits = np.frombuffer(zlib.decompress(deleted), dtype=np.uint8) if deleted else np.zeros(0, dtype=np.uint8)
    return np.unpackbits(bits).astype(np.bool_)


def count(deleted: bytes) -> int:
    return int(deleted_flags(deleted).sum())


def live_flags(deleted: Flags, start: int, rows: int) -> Flags | None:
    """Returns which of the ``rows`` rows from ``start`` on were not deleted; None if none of them was deleted."""
    of_rows = deleted[start : start + rows]
    if not of_rows.any():
        return None
    live = np.ones(rows, dtype=np.bool_)
    live[: len(of_rows)] = ~of_rows
    return live
