"""A task that does nothing: it measures the memory of a worker that has imported compaction and has no data."""

from siltstone.maintenance.stream_set_compaction.task import peak_memory_bytes
from siltstone.model.limits import MIB


def idle_task(_: bytes) -> bytes:
    return str(peak_memory_bytes() / MIB).encode()
