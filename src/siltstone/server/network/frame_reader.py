"""Bytes as they arrive become frames: a size of four bytes, big endian, then so many bytes. No I/O here.

All connections of a loop receive into one buffer, because each read is worked off before the next one begins; so an
idle connection holds nothing. Whole frames are copied out of it. A frame that has arrived in part gets memory of its
own, and what is missing is received straight into that.

What a frame claims is not believed: its memory grows with what has arrived, to the sizes in ``_first_capacity`` and
``_grow``. ``held_bytes`` is what the reader has allocated, at most that much more than what was sent:
``FIRST_BYTES`` or three times what came, and up to ``TRUSTED_BYTES_MAX`` for a peer that has sent such a frame before.
"""

from struct import Struct

from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import KIB, MIB

RECEIVE_BUFFER_BYTES = 256 * KIB
"""More brings no speed: docs/decisions/0007-network.md."""

FIRST_BYTES = 64 * KIB
TRUSTED_BYTES_MAX = 1 * MIB
"""The largest request that clients make unless told otherwise."""

DIRECT_BYTES_MIN = 64 * KIB
"""Less than this is received with what follows it and copied: a copy of so little costs less than a read more."""

AFTER_LARGE_BYTES = 16 * KIB
"""What is received first after a frame larger than the receive buffer: the next one will be like it, and what comes
with its size has to be copied. Saves a fifth of what a frame of 1 MiB costs."""

SHORT_READ_BYTES = 64
"""What is read when nothing should be: the event loop reads once more, whatever it is told."""

_SIZE = Struct(">i")
_unpack_size = _SIZE.unpack_from
_SIZE_BYTES = _SIZE.size


class FrameRefused(InvalidRequest):
    """What came cannot be the size of a frame."""


def receive_buffer() -> memoryview:
    """For all readers of one event loop."""
    return memoryview(bytearray(RECEIVE_BUFFER_BYTES))


class FrameReader:
    """Of one connection: ``buffer``, ``received``, then ``take`` until nothing is left."""

    def __init__(self, receive_buffer: memoryview, frame_bytes_max: int) -> None:
        self._receive_buffer = receive_buffer
        self._frame_bytes_max = frame_bytes_max
        self._source = receive_buffer
        self._position = self._end = 0
        self._size_begun = b""
        self._frame: memoryview | None = None
        self._frame_bytes = self._filled_bytes = 0
        self._is_direct = False
        self._may_grow = True
        self._largest_bytes = self._latest_bytes = 0

    @property
    def held_bytes(self) -> int:
        """What is allocated for this connection."""
        aside = 0 if self._source is self._receive_buffer else len(self._source)
        return aside if self._frame is None else aside + len(self._frame)

    @property
    def is_mid_frame(self) -> bool:
        return self._frame is not None or bool(self._size_begun)

    @property
    def has_rest(self) -> bool:
        """More frames may be taken before anything else is received."""
        return self._position < self._end

    @property
    def has_paid_room(self) -> bool:
        """What comes next goes where memory is allocated already."""
        return self._frame is not None and self._filled_bytes < len(self._frame)

    def buffer(self, *, only_its_frame: bool = False, may_grow: bool = True) -> memoryview:
        """Where to receive next; never empty. ``only_its_frame``: nothing that follows the frame which was begun.
        ``may_grow``: False when memory has run out since the connection was let read on."""
        assert not self.has_rest
        self._may_grow = may_grow
        if self._frame is not None:
            missing = self._frame_bytes - self._filled_bytes
            if only_its_frame or len(self._frame) < self._frame_bytes or missing >= DIRECT_BYTES_MIN:
                return self._room_in_frame(self._frame)
        self._is_direct = False
        begun = len(self._size_begun)
        if only_its_frame:
            return self._receive_buffer[begun : begun + SHORT_READ_BYTES]
        if self._latest_bytes > RECEIVE_BUFFER_BYTES and self._frame is None:
            return self._receive_buffer[begun:AFTER_LARGE_BYTES]
        return self._receive_buffer[begun:] if begun else self._receive_buffer

    def received(self, byte_count: int) -> None:
        if self._is_direct:
            self._filled_bytes += byte_count
            return
        if begun := self._size_begun:
            self._receive_buffer[: len(begun)] = begun
            byte_count += len(begun)
            self._size_begun = b""
        self._position, self._end = 0, byte_count

    def take(self, frames_max: int) -> list[memoryview]:
        """Whole frames, without their sizes, each in memory of its own. Raises FrameRefused."""
        frames: list[memoryview] = []
        if self._frame is not None:
            self._fill(self._frame, frames)
        source, position, end = self._source, self._position, self._end
        while end - position >= _SIZE_BYTES and len(frames) < frames_max:
            (size,) = _unpack_size(source, position)
            if not 0 <= size <= self._frame_bytes_max:
                raise FrameRefused(self._refusal(size, bytes(source[position : position + _SIZE_BYTES])))
            start = position + _SIZE_BYTES
            position = start + size
            if position > end:
                self._begin_frame(size, source[start:end])
                position = end
            else:
                frames.append(memoryview(bytearray(source[start:position])))
        if frames:
            self._latest_bytes = len(frames[-1])
        self._keep_rest(position)
        return frames

    def discard(self) -> None:
        """Let go of what is allocated: nothing more will be taken."""
        self._source, self._frame, self._position, self._end = self._receive_buffer, None, 0, 0

    # -- a frame that arrives in parts -------------------------------------------------------------------

    def _begin_frame(self, size: int, arrived: memoryview) -> None:
        self._frame = _allocate(self._first_capacity(size, len(arrived)))
        self._frame[: len(arrived)] = arrived
        self._frame_bytes, self._filled_bytes = size, len(arrived)

    def _first_capacity(self, size: int, arrived_bytes: int) -> int:
        if not self._may_grow:
            return min(size, arrived_bytes + SHORT_READ_BYTES)
        return min(size, max(FIRST_BYTES, 4 * arrived_bytes, min(self._largest_bytes, TRUSTED_BYTES_MAX)))

    def _room_in_frame(self, frame: memoryview) -> memoryview:
        self._is_direct = True
        room_bytes = len(frame) - self._filled_bytes
        if not room_bytes or (
            self._may_grow and room_bytes <= SHORT_READ_BYTES and len(frame) < self._frame_bytes
        ):
            frame = self._grow(frame)
        return frame[self._filled_bytes :]

    def _grow(self, frame: memoryview) -> memoryview:
        capacity = max(FIRST_BYTES, 4 * len(frame)) if self._may_grow else len(frame) + SHORT_READ_BYTES
        larger = _allocate(min(self._frame_bytes, capacity))
        larger[: len(frame)] = frame
        self._frame = larger
        return larger

    def _fill(self, frame: memoryview, frames: list[memoryview]) -> None:
        """With what came, and give it away when it is whole."""
        filled = self._filled_bytes
        count = min(self._frame_bytes - filled, self._end - self._position)
        if count:
            frame[filled : filled + count] = self._source[self._position : self._position + count]
            self._position += count
            self._filled_bytes = filled = filled + count
        if filled == self._frame_bytes:
            frames.append(frame)
            self._largest_bytes = max(self._largest_bytes, filled)
            self._frame = None
            self._is_direct = False

    # -- what is left over -------------------------------------------------------------------------------

    def _keep_rest(self, position: int) -> None:
        """The receive buffer belongs to the next connection as soon as this one returns."""
        rest = self._end - position
        if rest >= _SIZE_BYTES:
            if self._source is self._receive_buffer:
                self._source = memoryview(bytes(self._source[position : self._end]))
                position = 0
            self._position, self._end = position, position + rest
            return
        if rest:
            self._size_begun = bytes(self._source[position : self._end])
        self._source = self._receive_buffer
        self._position = self._end = 0

    def _refusal(self, size: int, first: bytes) -> str:
        if first[:2] == b"\x16\x03":
            return "it speaks TLS, and this listener does not"
        if first in {b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI "}:
            return "it speaks HTTP: this is a port for Kafka clients"
        if size < 0:
            return f"it claims a request of {size} bytes: this is no Kafka client"
        return f"it claims a request of {size} bytes, and network.socket_request_max_bytes is {self._frame_bytes_max}"


def _allocate(byte_count: int) -> memoryview:
    """Much of it is, unlike a bytearray, not filled with zeros first, which costs a tenth of receiving it, and so not
    resident either until something arrives. numpy is loaded for the first large frame: a tenth of a second that a
    broker's start need not wait for."""
    if byte_count <= FIRST_BYTES:
        return memoryview(bytearray(byte_count))
    import numpy as np  # noqa: PLC0415

    return np.empty(byte_count, np.uint8).data
