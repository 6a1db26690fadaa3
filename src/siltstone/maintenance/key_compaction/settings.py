"""What a key compaction may use, as a value. Every default is a limit with its reason in ``model.limits``."""

import msgspec

from siltstone.model import limits


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
