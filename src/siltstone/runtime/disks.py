"""How full the machine's disks are."""

import os
from pathlib import Path
from typing import Protocol


class Disks(Protocol):
    def space_of(self, folder: Path) -> tuple[int, int]:
        """(used bytes, bytes in all) of the file system that the folder is on. Raises OSError."""
        ...


class SystemDisks:
    """As ``df`` has it: what is kept back for root is in neither number."""

    def space_of(self, folder: Path) -> tuple[int, int]:
        found = os.statvfs(folder)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        return used, used + found.f_bavail * found.f_frsize
