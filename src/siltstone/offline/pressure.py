"""Decides which kinds of maintenance wait when a disk or the quota fills up (BookKeeper, GC17, GC18).

=========  ===================  =====================================================================
use        pressure             what it means
=========  ===================  =====================================================================
< 0.90     NONE                 everything runs
>= 0.90    WARN                 major collections wait
>= 0.95    FULL                 all kinds that copy wait; kinds that delete or trim never wait
=========  ===================  =====================================================================

The pressure is measured before every plan, so a kind that waited continues by itself once the use is lower. A copy
needs space before it frees any. A forced run may copy at FULL, as much as there is room for, the smallest live ratio
first.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import PRESSURE_FULL_SHARE, PRESSURE_WARN_SHARE
from siltstone.offline.kind_rows import COPYING, WAITING_EARLY
from siltstone.runtime.files import Disks


class Pressure(IntEnum):
    NONE = 0
    WARN = 1
    FULL = 2


class Space(msgspec.Struct, frozen=True):
    """A disk or the quota. ``name`` is the one shown in reasons and in the status."""

    name: str
    used_bytes: int
    capacity_bytes: int

    @property
    def use(self) -> float:
        return self.used_bytes / self.capacity_bytes if self.capacity_bytes > 0 else 1.0

    @property
    def room_bytes(self) -> int:
        return max(0, self.capacity_bytes - self.used_bytes)

    @property
    def pressure(self) -> Pressure:
        if self.use >= PRESSURE_FULL_SHARE:
            return Pressure.FULL
        return Pressure.WARN if self.use >= PRESSURE_WARN_SHARE else Pressure.NONE


class Measured(msgspec.Struct, frozen=True):
    """The spaces from which a copy would take room; empty when nothing limits copies."""

    spaces: tuple[Space, ...] = ()

    @property
    def fullest(self) -> Space | None:
        return max(self.spaces, key=lambda each: each.use, default=None)

    @property
    def pressure(self) -> Pressure:
        return max((each.pressure for each in self.spaces), default=Pressure.NONE)

    @property
    def room_bytes(self) -> int | None:
        """The bytes that all copies together may take; None when nothing limits them."""
        return min((each.room_bytes for each in self.spaces), default=None)

    def why_waits(self, kind: str, *, is_forced: bool = False) -> str:
        """Returns the reason why the kind has to wait; empty when it may run. A forced run never waits."""
        stops = self.pressure is Pressure.FULL or (self.pressure is Pressure.WARN and kind in WAITING_EARLY)
        fullest = self.fullest
        if kind not in COPYING or is_forced or not stops or fullest is None:
            return ""
        return f"{fullest.name} is {fullest.use:.1%} full: {kind} copies data, so it waits until there is more room"


def measure(
    image: MetadataImage, bucket_urls: Mapping[int, str], disks: Disks, quota_bytes: int = 0
) -> Measured:
    """Measures the disk of each bucket that is a folder, and the quota when there is one (0 means none). All objects
    count towards the quota, destroyed ones too, since they are not deleted yet. A folder whose disk cannot be read
    limits nothing."""
    spaces = [*_of_folders(bucket_urls.values(), disks)]
    if quota_bytes:
        held = sum(each.size_bytes * len(each.bucket_ids) for each in image.objects.values())
        spaces.append(Space("the quota", held, quota_bytes))
    return Measured(tuple(spaces))


def _of_folders(urls: Iterable[str], disks: Disks) -> Iterable[Space]:
    for url in sorted(set(urls)):
        parts = urlsplit(url)
        if parts.scheme != "file":
            continue
        folder = Path(unquote(parts.path))
        try:
            used, capacity = disks.space_of(folder)
        except OSError:
            continue
        yield Space(f"the disk of {folder}", used, capacity)
