"""What a compaction may use, as a value. Every default is a limit with its reason in ``model.limits``.

The settings of garbage collection, as a value. Every default is a limit with its reason in ``model.limits``.

What a key compaction may use, as a value. Every default is a limit with its reason in ``model.limits``.

What a stream object compaction may do, as a value. Every default is a limit with its reason in ``model.limits``.

How often each kind runs in ``siltstone maintain serve``, and what it may do.

Every default is a limit with its reason in ``model.limits``.
"""

from enum import Enum

import msgspec

from siltstone.model import limits
from siltstone.model.errors import InvalidRequest

PUT_BYTES_MAX = 4 * limits.GIB
"""One iteration puts an object or a part whole; S3 and its compatibles take at most 5 GiB in one request."""


_LARGEST = {
    "memory_bytes": PUT_BYTES_MAX,
    "part_count_max": limits.PART_COUNT_MAX,
    "streams_max": limits.STREAMS_PER_OBJECT_MAX,
    "stream_objects_max": limits.COMPACTION_STREAM_OBJECTS_MAX,
}
"""What the stores take and the commit: with more, a round would do all its work and be refused at the end."""


class CompactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``memory_bytes`` is the most source bytes one iteration holds, so also the largest stream object made."""

    split_size_bytes: int = limits.SPLIT_SIZE_BYTES
    merged_block_bytes_max: int = limits.MERGED_BLOCK_SIZE_BYTES
    memory_bytes: int = limits.COMPACTION_MEMORY_BYTES
    read_request_bytes_max: int = limits.READ_REQUEST_BYTES_MAX
    small_object_bytes: int = limits.SMALL_OBJECT_BYTES
    part_bytes_min: int = limits.PART_SIZE_BYTES_MIN
    part_count_max: int = limits.PART_COUNT_MAX
    sources_max: int = limits.COMPACTION_SOURCES_MAX
    streams_max: int = limits.STREAMS_PER_OBJECT_MAX
    stream_objects_max: int = limits.COMPACTION_STREAM_OBJECTS_MAX
    force_split_age_ms: int = limits.FORCE_SPLIT_AGE_MS
    time_limit_ms: int = limits.COMPACTION_TIME_LIMIT_MS
    lease_ms: int = limits.JOB_LEASE_MS

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            smallest = 0 if name in {"split_size_bytes", "small_object_bytes", "force_split_age_ms"} else 1
            if getattr(self, name) < smallest:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {smallest}")
        for name, largest in _LARGEST.items():
            if getattr(self, name) > largest:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at most {largest}")


_GC_MAY_BE_ZERO = {"copy_bytes_per_second", "quota_bytes"}


class Level(Enum):
    """How thorough garbage collection and stream object compaction are. Minor: what gains much for little, done often.
    Major: what is worth doing once a day."""

    MINOR = "minor"
    MAJOR = "major"


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
            smallest = 0 if name in _GC_MAY_BE_ZERO else 1
            if getattr(self, name) < smallest:
                raise InvalidRequest(f"{name} is {getattr(self, name)}; it must be at least {smallest}")

    def threshold(self, level: Level) -> float:
        return self.minor_threshold if level is Level.MINOR else self.major_threshold


class KeyCompactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``map_bytes_max``, ``memory_bytes`` and ``object_bytes`` are those of one task; ``wave_*`` bound what is given to
    the runner at once. ``allowance_ms``: how long after its start a commit may come."""

    map_bytes_max: int = limits.KEY_COMPACTION_MAP_BYTES
    memory_bytes: int = limits.KEY_COMPACTION_MEMORY_BYTES
    object_bytes: int = limits.KEY_COMPACTION_OBJECT_BYTES
    block_bytes: int = limits.BLOCK_SIZE_BYTES
    read_request_bytes_max: int = limits.READ_REQUEST_BYTES_MAX
    allowance_ms: int = limits.KEY_COMPACTION_ALLOWANCE_MS
    wave_bytes_max: int = limits.KEY_COMPACTION_WAVE_BYTES
    wave_streams_max: int = limits.KEY_COMPACTION_WAVE_STREAMS_MAX
    producer_expiration_ms: int = limits.PRODUCER_ID_EXPIRATION_MS
    lease_ms: int = limits.JOB_LEASE_MS

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            smallest = 0 if name == "allowance_ms" else 1
            if getattr(self, name) < smallest:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {smallest}")


_SO_MAY_BE_ZERO = {"settled_ms", "small_object_bytes"}


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
            smallest = 0 if name in _SO_MAY_BE_ZERO else 1
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


class Intervals(msgspec.Struct, frozen=True, kw_only=True):
    """From the end of one run to the beginning of the next. Shorter for what frees space first."""

    sweep_ms: int = limits.SWEEP_INTERVAL_MS
    retention_ms: int = limits.RETENTION_INTERVAL_MS
    dead_objects_ms: int = limits.DEAD_OBJECTS_INTERVAL_MS
    minor_gc_ms: int = limits.MINOR_GC_INTERVAL_MS
    sso_compaction_ms: int = limits.SSO_COMPACTION_INTERVAL_MS
    key_compaction_ms: int = limits.KEY_COMPACTION_INTERVAL_MS
    so_compaction_ms: int = limits.SO_COMPACTION_INTERVAL_MS
    major_gc_ms: int = limits.MAJOR_GC_INTERVAL_MS

    def __post_init__(self) -> None:
        """GC6."""
        if self.minor_gc_ms >= self.major_gc_ms:
            raise InvalidRequest(
                f"minor_gc_ms is {self.minor_gc_ms} and major_gc_ms {self.major_gc_ms}: a minor collection has to come "
                "more often than a major one"
            )

    def of(self, kind: str) -> int:
        """By the name of the kind: ``minor-gc``."""
        interval_ms: int = getattr(self, f"{kind.replace('-', '_')}_ms")
        return interval_ms


class MaintenanceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``run_ms_max``: for how long a run begins units before the other kinds have their turn."""

    interval: Intervals = Intervals()
    run_ms_max: int = limits.MAINTENANCE_RUN_MS_MAX
    gc: GcSettings = GcSettings()
    key_compaction: KeyCompactionSettings = KeyCompactionSettings()
    so_compaction: StreamObjectCompactionSettings = StreamObjectCompactionSettings()


class KindSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the kinds are made with."""

    grace_period_ms: int = limits.GRACE_PERIOD_MS
    compaction: CompactionSettings = CompactionSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
