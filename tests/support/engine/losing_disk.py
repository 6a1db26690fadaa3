"""The ``os`` of WAL segment files on a disk that loses, when the power fails, sectors that were not synced."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

SECTOR_BYTES = 512


class PowerLost(BaseException):
    """Between two calls to the disk."""


class LosingDisk:
    def __init__(self, rng: Random) -> None:
        self.before_call: Callable[[], None] = lambda: None
        """May raise PowerLost."""
        self.refusal: OSError | None = None
        """Raised by writes, and when space is reserved, as long as it is set."""
        self.was_full = False
        self._rng = rng
        self._unsynced: dict[tuple[int, int], bytes] = {}
        self._held: dict[int, int] = {}
        """A descriptor of each inode with something unsynced: of a file that is deleted the system would give the inode
        to another one, sometimes, and with it what the power took away."""

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def pwritev(self, descriptor: int, buffers: list[bytes], at: int) -> int:
        self.before_call()
        self._refuse()
        whole = b"".join(buffers)
        inode = os.fstat(descriptor).st_ino
        if inode not in self._held:
            self._held[inode] = os.dup(descriptor)
        for sector in range(at // SECTOR_BYTES, (at + len(whole) - 1) // SECTOR_BYTES + 1):
            if (inode, sector) not in self._unsynced:
                self._unsynced[inode, sector] = os.pread(descriptor, SECTOR_BYTES, sector * SECTOR_BYTES)
        return os.pwritev(descriptor, [whole], at)

    def fdatasync(self, descriptor: int) -> None:
        self.before_call()
        inode = os.fstat(descriptor).st_ino
        self._unsynced = {at: before for at, before in self._unsynced.items() if at[0] != inode}
        if inode in self._held:
            os.close(self._held.pop(inode))

    def posix_fallocate(self, descriptor: int, offset: int, size_bytes: int) -> None:
        self.before_call()
        self._refuse()
        os.posix_fallocate(descriptor, offset, size_bytes)

    def _refuse(self) -> None:
        if self.refusal is not None:
            self.was_full = True
            raise self.refusal

    def lose_unsynced(self, folder: Path) -> int:
        """The power fails: each sector not synced keeps what was written, or not. How many did not."""
        paths = {path.stat().st_ino: path for path in folder.iterdir()} if folder.exists() else {}
        keep_rate = self._rng.choice([0.0, 0.5, 0.9])
        lost = 0
        sectors = [
            (paths[inode], sector, before)
            for (inode, sector), before in self._unsynced.items()
            if inode in paths
        ]  # by name: inodes differ from run to run, and with them the chances
        for path, sector, before in sorted(sectors):
            if self._rng.random() >= keep_rate:
                with path.open("r+b") as file:
                    file.seek(sector * SECTOR_BYTES)
                    file.write(before)
                lost += 1
        self.forget()
        return lost

    def forget(self) -> None:
        """Counts all writes as synced, so that a power failure loses nothing of them."""
        self._unsynced.clear()
        while self._held:
            os.close(self._held.popitem()[1])
