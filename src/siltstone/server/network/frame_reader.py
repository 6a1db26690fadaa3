"""Splits received bytes into frames: each is a size of four bytes, big endian, then that many bytes. No I/O here.

All connections of an event loop receive into one shared buffer, because each read is processed before the next one;
so an idle connection holds no memory. Complete frames are copied out of the shared buffer. A frame that has arrived
in part gets memory of its own, and the rest is received directly into it.

The size that a client claims is not trusted: the memory of a frame grows with the bytes that have arrived
(``_first_capacity``, ``_grow``). ``held_bytes`` is what the reader has allocated. It exceeds the bytes that have
arrived by at most ``FIRST_BYTES`` or three times those bytes; by up to ``TRUSTED_BYTES_MAX`` for a client that has
sent such a large frame before.
"""

from struct import Struct

from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import KIB, MIB

RECEIVE_BUFFER_BYTES = 256 * KIB
"""A larger buffer is not faster: docs/decisions/0007-network.md."""

DECRYPTED_BYTES = 576 * KIB
"""The buffer for connections with TLS, into which everything fits that an event loop holds decrypted: it stops reading
when 256 KiB wait, and reads at most as much at a time."""

FIRST_BYTES = 64 * KIB
TRUSTED_BYTES_MAX = 1 * MIB
"""The largest request that clients send with default settings."""

DIRECT_BYTES_MIN = 64 * KIB
"""If less than this is missing of a frame, it is received into the shared buffer, with the bytes that follow, and
copied: the copy costs less than another read."""

AFTER_LARGE_BYTES = 16 * KIB
"""The size of the first read after a frame larger than the receive buffer. The next frame will probably be as large,
and the bytes that arrive together with its size must be copied; reading few of them saves a fifth of the cost of a 1
MiB frame."""

SHORT_READ_BYTES = 64
"""The size of a read when none is wanted: the event loop reads once more even after reading was paused."""

SIZE_SETTING = "network.socket_request_max_bytes"

_SIZE = Struct(">i")
_unpack_size = _SIZE.unpack_from
_SIZE_BYTES = _SIZE.size


class FrameRefused(InvalidRequest):
    """The bytes that were received cannot be the size of a frame."""


def receive_buffer(byte_count: int = RECEIVE_BUFFER_BYTES) -> memoryview:
    """Makes the buffer that all readers of one event loop share."""
    return memoryview(bytearray(byte_count))


class FrameReader:
    """Reads the frames of one connection: call ``buffer``, then ``received``, then ``take`` until ``has_rest`` is
    false. ``takes_everything``: each read gets the whole shared buffer, because the bytes are in memory already."""

    def __init__(
        self, receive_buffer: memoryview, frame_bytes_max: int, *, takes_everything: bool = False
    ) -> None:
        self._takes_everything = takes_everything
        self._receive_buffer = receive_buffer
        self._frame_bytes_max, self._limit = frame_bytes_max, SIZE_SETTING
        self._source = receive_buffer
        self._position = self._end = 0
        self._size_begun = b""
        self._frame: memoryview | None = None
        self._frame_bytes = self._filled_bytes = 0
        self._is_direct = False
        self._may_grow = True
        self._largest_bytes = self._latest_bytes = 0

    def allow(self, frame_bytes_max: int, limit: str = SIZE_SETTING) -> None:
        """Takes frames of this size from now on. ``limit`` names the limit for the log."""
        self._frame_bytes_max, self._limit = frame_bytes_max, limit

    @property
    def held_bytes(self) -> int:
        """The bytes that are allocated for this connection."""
        aside = 0 if self._source is self._receive_buffer else len(self._source)
        return aside if self._frame is None else aside + len(self._frame)

    @property
    def is_mid_frame(self) -> bool:
        return self._frame is not None or bool(self._size_begun)

    @property
    def has_rest(self) -> bool:
        """Whether received bytes remain, which must be taken before more are received."""
        return self._position < self._end

    @property
    def has_paid_room(self) -> bool:
        """Whether the next bytes of the frame have memory that is already allocated."""
        return self._frame is not None and self._filled_bytes < len(self._frame)

    def buffer(self, *, only_its_frame: bool = False, may_grow: bool = True) -> memoryview:
        """The buffer for the next read; never empty. ``only_its_frame``: receive only bytes of the frame that was
        started, not what follows it. ``may_grow`` is false if memory has run out since the connection was allowed to
        read."""
        assert not self.has_rest or self._takes_everything
        self._may_grow = may_grow
        if self._takes_everything:
            self._is_direct = False
            return self._receive_buffer[len(self._size_begun) :]
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
        if self.has_rest:  # several reads came of what was decrypted at once
            rest = bytes(self._source[self._position : self._end])
            self._source = memoryview(rest + bytes(self._receive_buffer[:byte_count]))
            self._position, self._end = 0, len(self._source)
            return
        if begun := self._size_begun:
            self._receive_buffer[: len(begun)] = begun
            byte_count += len(begun)
            self._size_begun = b""
        self._position, self._end = 0, byte_count

    def take(self, frames_max: int) -> list[memoryview]:
        """Returns complete frames, without their sizes, each in memory of its own. Raises FrameRefused."""
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
        """Releases all memory; no more frames will be taken."""
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

    def _grow(self, frame: memoryview, bytes_min: int = 0) -> memoryview:
        capacity = max(FIRST_BYTES, 4 * len(frame)) if self._may_grow else len(frame) + SHORT_READ_BYTES
        larger = _allocate(min(self._frame_bytes, max(capacity, bytes_min)))
        larger[: len(frame)] = frame
        self._frame = larger
        return larger

    def _fill(self, frame: memoryview, frames: list[memoryview]) -> None:
        """Copies received bytes into the frame, and moves the frame to ``frames`` when it is complete."""
        filled = self._filled_bytes
        count = min(self._frame_bytes - filled, self._end - self._position)
        if count > len(frame) - filled:
            frame = self._grow(frame, filled + count)
        if count:
            frame[filled : filled + count] = self._source[self._position : self._position + count]
            self._position += count
            self._filled_bytes = filled = filled + count
        if filled == self._frame_bytes:
            frames.append(frame)
            self._largest_bytes = max(self._largest_bytes, filled)
            self._frame = None
            self._is_direct = False

    # -- bytes after the frames that were taken ----------------------------------------------------------

    def _keep_rest(self, position: int) -> None:
        """Copies remaining bytes out of the shared buffer, which the next connection uses as soon as this one
        returns."""
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
            return (
                "the client speaks TLS, and this listener does not: set security.protocol=PLAINTEXT in the client, or "
                "give it the address of a listener with TLS"
            )
        if first in {b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI "}:
            return "the client speaks HTTP, but this port is for Kafka clients"
        if size < 0:
            return f"the client announces a request of {size} bytes, so it is not a Kafka client"
        return f"the client announces a request of {size} bytes, more than {self._limit} ({self._frame_bytes_max})"


def _allocate(byte_count: int) -> memoryview:
    """Allocates a buffer. A large one comes from numpy, which, unlike bytearray, does not fill it with zeros: that
    would take a tenth of the time of receiving it, and make its pages resident before bytes arrive. numpy is imported
    for the first large frame, which saves a tenth of a second at the start of a broker."""
    if byte_count <= FIRST_BYTES:
        return memoryview(bytearray(byte_count))
    import numpy as np  # noqa: PLC0415

    return np.empty(byte_count, np.uint8).data
