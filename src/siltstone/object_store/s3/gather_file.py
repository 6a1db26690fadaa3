"""A gather list as a seekable file of known size, which an HTTP client can send without joining the buffers."""

from io import SEEK_CUR, SEEK_END, SEEK_SET

from siltstone.model.buffers import Buffers, total_bytes


class GatherFile:
    """A read-only file over buffers. Reads return views of the buffers. Clients seek back to sign, redirect or
    resend."""

    def __init__(self, buffers: Buffers) -> None:
        self._views = [memoryview(buffer) for buffer in buffers if buffer]
        self._size_bytes = total_bytes(buffers)
        self._position = self._index = self._offset = 0

    def __len__(self) -> int:
        return self._size_bytes

    def __bool__(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes | memoryview:
        """At most ``size`` bytes: fewer at the end of a buffer, none at the end of the file. Without a size, the rest
        of the file, joined."""
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(self._size_bytes), b""))
        if self._index == len(self._views):
            return b""
        view = self._views[self._index]
        piece = view[self._offset : self._offset + size]
        self._advance(len(piece), len(view))
        return piece

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
