"""The settings of garbage collection, as a value. Every default is a limit with its reason in ``model.limits``."""

from enum import Enum

import msgspec

from siltstone.model import limits
from siltstone.model.errors import InvalidRequest

_MAY_BE_ZERO = {"copy_bytes_per_second", "quota_bytes"}


class Level(Enum):
    """Minor: what frees much for little, often. Major: what is worth it once a day."""

    MINOR = "minor"
    MAJOR = "major"

    @property
    def kind(self) -> str:
        return f"{self.value}-gc"


class GcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The intervals of both levels are the scheduler's (``kinds.settings``)."""

    minor_threshold: float = limits.MINOR_GC_THRESHOLD
    major_threshold: float = limits.MAJOR_GC_THRESHOLD
    target_size_bytes: int = limits.GC_TARGET_SIZE_BYTES
    round_bytes: int = limits.GC_ROUND_BYTES
    objects_max: int = limits.GC_OBJECTS_MAX
    copy_bytes_per_second: int = limits.GC_COPY_BYTES_PER_SECOND
    quota_bytes: int = limits.STORE_QUOTA_BYTES
    lease_ms: int = limits.JOB_LEASE_MS

    def __post_init__(self) -> None:
        """GC6."""
        if not 0 < self.minor_threshold < self.major_threshold <= 1:
            raise InvalidRequest(
                f"minor_threshold is {self.minor_threshold} and major_threshold {self.major_threshold}: they are shares"
                " of live bytes above 0 and up to 1, and a minor collection has to take less than a major one"
            )
        for name in self.__struct_fields__[2:]:
            smallest = 0 if name in _MAY_BE_ZERO else 1
            if getattr(self, name) < smallest:
                raise InvalidRequest(f"{name} is {getattr(self, name)}; it must be at least {smallest}")

    def threshold(self, level: Level) -> float:
        return self.minor_threshold if level is Level.MINOR else self.major_threshold
