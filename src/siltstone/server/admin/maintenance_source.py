"""Reads the metrics of a maintenance service, and says whether it is ready."""

from collections.abc import AsyncIterator, Mapping, Sequence

from siltstone.maintenance.service.service import MaintenanceService
from siltstone.maintenance.service.statistics import KindStatistics
from siltstone.object_store.buckets import Buckets
from siltstone.offline.kind_rows import COPYING
from siltstone.server.admin.scrape import Collected, MetricSource
from siltstone.server.admin.store_source import StoreSource
from siltstone.server.settings.admin import AdminPrices


class ObservedMaintenance:
    """A maintenance service as the admin listeners see it. ``buckets`` are the buckets of its lanes."""

    def __init__(
        self,
        service: MaintenanceService,
        buckets: Sequence[Buckets],
        prices: AdminPrices,
        intervals_ms: Mapping[str, int],
    ) -> None:
        self._service = service
        self.sources: Sequence[MetricSource] = (
            MaintenanceSource(service, intervals_ms),
            StoreSource(buckets, prices),
        )

    @property
    def state(self) -> str:
        return "draining" if self._service.is_stopping else "running"

    @property
    def reasons(self) -> list[str]:
        found = ["the process is stopping"] if self._service.is_stopping else []
        if self._service.statistics().metadata_lost_ms:
            found.append("the metadata cannot be reached: maintenance waits and tries again")
        return found

    def clients(self) -> None:
        return None


class MaintenanceSource:
    def __init__(self, service: MaintenanceService, intervals_ms: Mapping[str, int]) -> None:
        self._service = service
        self._intervals_ms = intervals_ms

    async def collect(self, collected: Collected) -> AsyncIterator[None]:
        for each in self._service.statistics().kinds:
            collected.add("maintenance_interval_seconds", self._intervals_ms[each.kind] / 1000, each.kind)
            _add_kind(collected, each)
            yield


def _add_kind(collected: Collected, counts: KindStatistics) -> None:
    kind = counts.kind
    collected.add("maintenance_runs", counts.runs, kind)
    collected.add("maintenance_units", counts.units_done, kind, "done")
    collected.add("maintenance_units", counts.units_failed, kind, "failed")
    collected.add("maintenance_troubles", counts.troubles, kind)
    collected.add("maintenance_read_bytes", counts.bytes_read, kind)
    collected.add("maintenance_written_bytes", counts.bytes_written, kind)
    collected.add("maintenance_freed_bytes", counts.bytes_freed, kind)
    collected.add("maintenance_set_aside", counts.units_set_aside, kind)
    collected.add("maintenance_last_success_seconds", counts.last_success_ms / 1000, kind)
    collected.add("maintenance_running", int(counts.running_since_ms > 0), kind)
    if kind in COPYING:
        collected.add("maintenance_rate_bytes", counts.rate.bytes_per_second, kind)
        collected.add("maintenance_grade", int(counts.rate.grade), kind)
        collected.add("maintenance_held_seconds", counts.held_seconds, kind)
    if counts.bytes_left is not None and kind in COPYING:
        collected.add("compaction_debt_bytes", counts.bytes_left, kind)
