"""Defines the grades of requests to the buckets, the highest first, and the two directions."""

from enum import Enum, IntEnum

import msgspec

from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import BANDWIDTH_IN_BYTES_PER_SECOND, BANDWIDTH_OUT_BYTES_PER_SECOND


class Grade(IntEnum):
    """The grade of a request. A lower number has the higher priority."""

    UPLOAD = 0
    """Uploads of acknowledged data, recovery, logs in a bucket, and small requests, such as indexes and marks. They are
    counted and never held."""

    TAIL_READ = 1
    """Reads of clients that are nearly at the end of their stream."""

    CATCH_UP_READ = 2
    """Reads of clients that are far behind."""

    URGENT = 3
    """Maintenance that must not wait: a disk fills up, or stream set objects are so old that they have to be split."""

    MAINTENANCE = 4
    """All other maintenance that copies."""

    @property
    def label(self) -> str:
        """The name in metrics and in texts, such as ``catch-up-read``."""
        return self.name.lower().replace("_", "-")


HELD_GRADES: tuple[Grade, ...] = tuple(grade for grade in Grade if grade is not Grade.UPLOAD)


class Direction(Enum):
    IN = "in"
    """Bytes that are read from a bucket."""

    OUT = "out"
    """Bytes that are written to a bucket."""


class BandwidthSettings(msgspec.Struct, frozen=True):
    """The most bytes in a second that one process reads from all buckets together, and writes to them; 0: no limit."""

    in_bytes_per_second: int = BANDWIDTH_IN_BYTES_PER_SECOND
    out_bytes_per_second: int = BANDWIDTH_OUT_BYTES_PER_SECOND

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if (value := getattr(self, name)) < 0:
                raise InvalidRequest(
                    f"bandwidth.{name} is {value}; it must be at least 0, which means no limit"
                )

    def of(self, direction: Direction) -> int:
        return self.in_bytes_per_second if direction is Direction.IN else self.out_bytes_per_second
