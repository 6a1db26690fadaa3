"""What the store passes around instead of copying: anything with a contiguous buffer."""

from collections.abc import Sequence
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
Buffers: TypeAlias = Sequence[Buffer]
"""A gather list: the bytes of its members one after another, never joined before the last call."""


def total_bytes(buffers: Buffers) -> int:
    return sum(len(buffer) for buffer in buffers)
