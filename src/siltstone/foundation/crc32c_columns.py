"""CRC-32C of many concatenations at once, from the CRCs and lengths of their pieces.

The CRC of A followed by B is (the CRC of A, moved over len(B) zero bytes) xor (the CRC of B). The CRC of a
concatenation is therefore the xor of its pieces' CRCs, each moved over the bytes that follow the piece. That needs no
loop over the pieces, only operations on columns. ``crc32c.crc32c_combine`` does the same for one pair; the tests use
it as the oracle.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from siltstone.foundation.crc32c import zeros_matrix

Crcs = npt.NDArray[np.uint32]
Lengths = npt.NDArray[np.int64]


def crc32c_moved(crcs: Crcs, zero_bytes: Lengths) -> Crcs:
    """Returns the CRC of each message after as many zero bytes as ``zero_bytes`` gives for it were appended to it."""
    moved = crcs.astype(np.uint32, copy=True)
    longest = int(zero_bytes.max(initial=0))
    for power in range(longest.bit_length()):
        rows = np.flatnonzero((zero_bytes >> power) & 1)
        if len(rows):
            moved[rows] = _mapped(_tables(power), moved[rows])
    return moved


def _mapped(tables: npt.NDArray[np.uint32], crcs: Crcs) -> Crcs:
    mapped: Crcs = tables[0][crcs & 0xFF]
    for byte in range(1, 4):
        mapped = mapped ^ tables[byte][(crcs >> (8 * byte)) & 0xFF]
    return mapped


@lru_cache(maxsize=64)
def _tables(power: int) -> npt.NDArray[np.uint32]:
    """Returns the matrix for 2**power zero bytes as four look-up tables, one for each byte of a CRC."""
    columns = np.array(zeros_matrix(power), dtype=np.uint32).reshape(4, 8)
    values = np.arange(256, dtype=np.uint32)
    tables = np.zeros((4, 256), dtype=np.uint32)
    for bit in range(8):
        chosen = ((values >> bit) & 1).astype(bool)
        tables[:, chosen] ^= columns[:, bit : bit + 1]
    return tables
