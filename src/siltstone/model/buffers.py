"""Contiguous buffers, which the store passes around instead of copying them."""

from collections.abc import Sequence
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
Buffers: TypeAlias = Sequence[Buffer]
"""A gather list: buffers whose bytes belong one after another. They are not joined before they are written or sent."""


def is_buffer(value: object) -> bool:
    """Returns whether ``value`` is a Buffer whose ``len`` is its number of bytes. A view of larger numbers is not
    one."""
    if isinstance(value, memoryview):
        return value.c_contiguous and value.ndim == 1 and value.itemsize == 1
    return isinstance(value, bytes | bytearray)


def split(buffers: Buffers, size_bytes: int) -> tuple[list[Buffer], list[Buffer]]:
    """The first ``size_bytes`` bytes, or all if there are fewer, and the rest; nothing is copied."""
    before: list[Buffer] = []
    for at, buffer in enumerate(buffers):
        if size_bytes < len(buffer):
            view = memoryview(buffer)
            before += [view[:size_bytes]] if size_bytes else []
            return before, [view[size_bytes:], *buffers[at + 1 :]]
        before.append(buffer)
        size_bytes -= len(buffer)
    return before, []


def total_bytes(buffers: Buffers) -> int:
    return sum(len(buffer) for buffer in buffers)
