"""What a compaction may use, as a value. Every default is a limit with its reason in ``model.limits``."""

import msgspec

from siltstone.model import limits

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
