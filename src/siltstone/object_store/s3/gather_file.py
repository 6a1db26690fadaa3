"""A gather list as a seekable file of known size, which an HTTP client can send without joining the buffers."""

from io import SEEK_CUR, SEEK_END, SEEK_SET

from siltstone.model.buffers import Buffers, total_bytes
from siltstone.model.limits import MIB

JOINED_BYTES_MAX = 1 * MIB
"""The HTTP client sends the headers of a file, and its bytes only when the server has asked for them (``Expect:
100-continue``): a way to the server and back more. So small bodies are joined and sent at once. The copy takes less."""


def body_of(buffers: Buffers) -> "bytes | GatherFile":
    """The buffers as the body of a request."""
    return b"".join(buffers) if total_bytes(buffers) <= JOINED_BYTES_MAX else GatherFile(buffers)


class GatherFile:
    """A read-only file over buffers. A read returns a view of the buffer, or several small buffers joined: an HTTP
    client sends what each read returns by a call of its own, which costs more than the copy. Clients seek back to sign,
    redirect or resend."""

    def __init__(self, buffers: Buffers) -> None:
        self._views = [memoryview(buffer) for buffer in buffers if buffer]
        self._size_bytes = total_bytes(buffers)
        self._position = self._index = self._offset = 0

    def __len__(self) -> int:
        return self._size_bytes

    def __bool__(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes | memoryview:
        """Returns at most ``size`` bytes: fewer before a buffer that is larger than what is left of them, none at the
        end of the file. Without a size, the rest of the file, joined."""
        if size is None or size < 0:
            return b"".join(self._pieces(self._size_bytes))
        pieces = self._pieces(size)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _pieces(self, size: int) -> list[memoryview]:
        pieces: list[memoryview] = []
        while size > 0 and self._index < len(self._views):
            view = self._views[self._index]
            if pieces and len(view) > size:
                break
            pieces.append(view[self._offset : self._offset + size])
            size -= len(pieces[-1])
            self._advance(len(pieces[-1]), len(view))
        return pieces

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        origin = {SEEK_SET: 0, SEEK_CUR: self._position, SEEK_END: self._size_bytes}[whence]
        target = min(max(origin + offset, 0), self._size_bytes)
        self._position = self._index = self._offset = 0
        while self._position < target:
            size = len(self._views[self._index])
            self._advance(min(size, target - self._position), size)
        return target

    def tell(self) -> int:
        return self._position

    def _advance(self, count: int, view_bytes: int) -> None:
        self._position += count
        self._offset += count
        if self._offset == view_bytes:
            self._index += 1
            self._offset = 0
