"""What the store passes around instead of copying: anything with a contiguous buffer."""

from collections.abc import Sequence
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
Buffers: TypeAlias = Sequence[Buffer]
"""A gather list: the bytes of its members one after another, never joined before the last call."""


def is_buffer(value: object) -> bool:
    """Whether it is one, and its length is its number of bytes: that of a view of numbers is less."""
    if isinstance(value, memoryview):
        return value.c_contiguous and value.ndim == 1 and value.itemsize == 1
    return isinstance(value, bytes | bytearray)


def total_bytes(buffers: Buffers) -> int:
    return sum(len(buffer) for buffer in buffers)
