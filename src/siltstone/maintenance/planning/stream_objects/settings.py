"""What a stream object compaction may do, as a value. Every default is a limit with its reason in ``model.limits``."""

import msgspec

from siltstone.maintenance.settings import PUT_BYTES_MAX
from siltstone.model import limits

_MAY_BE_ZERO = {"settled_ms", "small_object_bytes"}


class StreamObjectCompactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Minor: neighbours of less than ``small_object_bytes`` are joined until they have that much. Major: neighbours of
    any size that were committed ``settled_ms`` ago, up to ``group_bytes_max``. In neither may the largest be more than
    ``largest_share_max`` of the group: what is copied again becomes at least so many times as large, so a byte is
    copied a number of times that grows with the logarithm of the sizes, however often somebody looks. (At a half, two
    objects that differ by a byte could not be joined.)

    Objects have at most ``part_count_max`` parts: two for each of ``group_objects_max`` members (one copied, one read
    that joins it to the one before), one for each further ``copy_bytes_max`` of a large member, and the last.
    """

    small_object_bytes: int = limits.SMALL_STREAM_OBJECT_BYTES
    settled_ms: int = limits.STREAM_OBJECT_SETTLED_MS
    largest_share_max: float = limits.STREAM_OBJECT_LARGEST_SHARE_MAX
    group_bytes_max: int = limits.STREAM_OBJECT_GROUP_BYTES_MAX
    group_objects_max: int = limits.STREAM_OBJECT_GROUP_OBJECTS_MAX
    groups_max: int = limits.STREAM_OBJECT_GROUPS_MAX
    copy_bytes_max: int = limits.COPY_REQUEST_BYTES_MAX
    read_request_bytes_max: int = limits.READ_REQUEST_BYTES_MAX
    part_bytes_min: int = limits.PART_SIZE_BYTES_MIN
    part_count_max: int = limits.PART_COUNT_MAX
    merged_block_bytes_max: int = limits.MERGED_BLOCK_SIZE_BYTES
    time_limit_ms: int = limits.COMPACTION_TIME_LIMIT_MS
    lease_ms: int = limits.JOB_LEASE_MS

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            smallest = 0 if name in _MAY_BE_ZERO else 1
            if name != "largest_share_max" and getattr(self, name) < smallest:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {smallest}")
        if not 0 < self.largest_share_max <= 1:
            raise ValueError(f"largest_share_max is {self.largest_share_max}; it must be in (0, 1]")
        if not 2 * self.part_bytes_min <= self.copy_bytes_max <= PUT_BYTES_MAX:
            raise ValueError(
                f"copy_bytes_max is {self.copy_bytes_max}; it must be at least two parts ({2 * self.part_bytes_min})"
                f" and at most {PUT_BYTES_MAX}"
            )
        if self.part_count_max > limits.PART_COUNT_MAX or self._parts_of_largest > self.part_count_max:
            raise ValueError(
                f"a group could take {self._parts_of_largest} parts, more than {limits.PART_COUNT_MAX} or than"
                f" part_count_max, {self.part_count_max}; lower group_objects_max or group_bytes_max"
            )

    @property
    def _parts_of_largest(self) -> int:
        return 2 * self.group_objects_max + self.group_bytes_max // self.copy_bytes_max + 1

    @property
    def forced(self) -> "StreamObjectCompactionSettings":
        """Nothing waits: neither for age nor for neighbours that have grown."""
        return msgspec.structs.replace(self, settled_ms=0, largest_share_max=1.0)
