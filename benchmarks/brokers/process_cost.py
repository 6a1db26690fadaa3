"""The CPU and the memory of a broker: of its process and all processes below it."""

import msgspec
import psutil

from siltstone.model.limits import MIB


class Cost(msgspec.Struct, frozen=True):
    """The CPU since the process began, and the memory now."""

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
