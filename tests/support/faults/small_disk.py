"""A disk of a few MiB, which a test fills, empties and makes read-only: a tmpfs, mounted by root."""

import errno
import os
import subprocess
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

BALLAST = "ballast-of-the-test"
BUSY_SECONDS_MAX = 60


class SmallDisk:
    """A disk is used in a ``with``, which unmounts it."""

    def __init__(self, folder: Path, size: str) -> None:
        self.folder = folder
        self._size = size

    def __enter__(self) -> "SmallDisk":
        self.folder.mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={self._size}", "siltstone-tests", str(self.folder))
        return self

    def __exit__(self, *_: object) -> None:
        _run("umount", "--lazy", str(self.folder))

    def fill(self) -> None:
        """Fills the disk until no byte is left."""
        with (self.folder / BALLAST).open("ab", buffering=0) as ballast:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        ballast.write(b"\0" * size)
                except OSError as full:
                    if full.errno != errno.ENOSPC:
                        raise

    def empty(self) -> None:
        (self.folder / BALLAST).unlink()

    def make_read_only(self) -> None:
        """The kernel refuses this while a file is open for writing, and the broker opens files for moments only."""
        deadline = time.monotonic() + BUSY_SECONDS_MAX
        while True:
            try:
                return _run("mount", "-o", "remount,ro", str(self.folder))
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    def make_writable(self) -> None:
        _run("mount", "-o", "remount,rw", str(self.folder))


@cache
def why_not_mounted() -> str:
    """Says why no disk can be made here; empty when it can."""
    if os.geteuid() != 0:
        return "only root mounts a small disk"
    with TemporaryDirectory() as folder:
        try:
            with SmallDisk(Path(folder) / "disk", "64k"):
                return ""
        except OSError as refused:
            return f"no disk can be mounted here: {refused}"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(done.stderr.strip())
