"""A task that does nothing: what a worker takes that has the modules of compaction and no data."""

from siltstone.maintenance.stream_set_compaction.task import peak_memory_bytes
from siltstone.model.limits import MIB


def idle_task(_: bytes) -> bytes:
    return str(peak_memory_bytes() / MIB).encode()
