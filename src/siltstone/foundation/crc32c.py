"""CRC-32C (Castagnoli) of lists of buffers, and of a concatenation whose bytes are not read again.

The checksum itself is computed by fastcrc, which takes any buffer without copying it. That library lacks the
combination: given crc(A), crc(B) and len(B), the CRC of A followed by B. The method is that of zlib's crc32_combine:
appending n zero bytes to a message is a linear map on its CRC, so the map for 2**k zero bytes is a 32 x 32 bit matrix.
Compaction combines the checksums of many blocks at once, in ``offline.blocks.joining``, with the matrices made here;
``crc32c_combine`` combines one pair, and is what the tests compare the columns with.
"""

from collections.abc import Iterable
from functools import lru_cache

from fastcrc.crc32 import iscsi

_POLYNOMIAL_REFLECTED = 0x82F63B78

Matrix = tuple[int, ...]


def crc32c(buffers: Iterable[bytes | bytearray | memoryview], initial: int = 0) -> int:
    """Returns the CRC-32C of the concatenation of the buffers. ``initial`` is the CRC-32C of the bytes before them."""
    crc = initial
    for buffer in buffers:
        crc = iscsi(buffer, crc)
    return crc


def crc32c_combine(crc_first: int, crc_second: int, length_second: int) -> int:
    """Returns the CRC-32C of first + second, from their CRCs and the length of the second in bytes."""
    assert length_second >= 0
    crc = crc_first
    power = 0
    while length_second:
        if length_second & 1:
            crc = _times_vector(zeros_matrix(power), crc)
        length_second >>= 1
        power += 1
    return crc ^ crc_second


def _times_vector(matrix: Matrix, vector: int) -> int:
    product = 0
    row = 0
    while vector:
        if vector & 1:
            product ^= matrix[row]
        vector >>= 1
        row += 1
    return product


@lru_cache(maxsize=64)
def zeros_matrix(power: int) -> Matrix:
    """Returns the matrix by which appending 2**power zero bytes to a message changes its CRC. Row i is the image of bit
    i."""
    if power == 0:
        matrix = _one_zero_bit()
        for _ in range(3):
            matrix = _squared(matrix)
        return matrix
    return _squared(zeros_matrix(power - 1))


def _one_zero_bit() -> Matrix:
    return (_POLYNOMIAL_REFLECTED, *(1 << bit for bit in range(31)))


def _squared(matrix: Matrix) -> Matrix:
    return tuple(_times_vector(matrix, row) for row in matrix)
