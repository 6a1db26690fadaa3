"""What a broker costs its machine: CPU and memory of a process and all under it."""

import msgspec
import psutil

from siltstone.model.limits import MIB


class Cost(msgspec.Struct, frozen=True):
    """CPU since the process began; memory now."""

    cpu_seconds: float
    resident_bytes: int

    @property
    def resident_mib(self) -> float:
        return self.resident_bytes / MIB


def cost_of(pid: int) -> Cost:
    process = psutil.Process(pid)
    cpu_seconds = 0.0
    resident_bytes = 0
    for each in (process, *process.children(recursive=True)):
        times = each.cpu_times()
        cpu_seconds += times.user + times.system
        resident_bytes += each.memory_info().rss
    return Cost(cpu_seconds, resident_bytes)
