"""Makes the maintenance service of a store from its settings."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from siltstone.carrying.pipeline.kind import StartRunner
from siltstone.carrying.pipeline.running import spread_ms
from siltstone.maintenance.kinds import chosen_kinds
from siltstone.maintenance.service.service import Lane, MaintenanceService
from siltstone.maintenance.service.statistics import Counters
from siltstone.object_store.bucket_watch import looking
from siltstone.offline.kind_rows import KIND_NAMES, KindLane, kinds_of
from siltstone.offline.opening.store import Store, open_store
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.runtime.clock import SystemClock
from siltstone.server.admin.listening import admin_thread
from siltstone.server.admin.maintenance_source import ObservedMaintenance
from siltstone.server.metadata_reach import blocked_until_reached
from siltstone.server.settings.node import NodeSettings

SPREAD_KIND = "sso-compaction"

FREEING_SECONDS_MAX = 60.0
"""The most that one run of a freeing kind takes: these kinds take turns every minute, and none may delay the others for
longer."""


@contextmanager
def open_service(
    settings: NodeSettings, start_runner: StartRunner, *, waits: bool = False
) -> Iterator[MaintenanceService]:
    """Opens a service with three lanes, each with its own ``Store``: *freeing* runs the kinds that free space,
    *rewriting* the kinds that rewrite stream set objects (their compaction is spread over its interval), and *copying*
    the other kinds that copy. ``waits``: while no server of the metadata can be reached, waits for one. Raises what
    ``open_store`` raises."""
    run_seconds = settings.maintenance.run_ms_max / 1000
    spread = (
        {SPREAD_KIND: spread_ms(settings.maintenance.interval.of(SPREAD_KIND))}
        if settings.compaction.is_spread
        else {}
    )
    clock = SystemClock()
    counters = Counters(KIND_NAMES, clock)
    stores: list[Store] = []
    with ExitStack() as opened:
        admin = opened.enter_context(admin_thread(settings.admin, clock, settings.admin_listener))

        def lane(name: KindLane, start: StartRunner, seconds_max: float) -> Lane:
            store = opened.enter_context(
                blocked_until_reached(partial(open_store, settings), clock, "maintenance")
                if waits
                else open_store(settings)
            )
            stores.append(store)
            kinds = chosen_kinds(store.kind_settings, kinds_of(name))
            intervals_ms = {kind.name: settings.maintenance.interval.of(kind.name) for kind in kinds}
            return Lane(
                name.value,
                store.context,
                kinds,
                intervals_ms,
                start,
                counters,
                seconds_max=seconds_max,
                spread_ms=spread,
            )

        def look() -> None:
            for store in stores:
                store.buckets.look()

        seconds = min(run_seconds, FREEING_SECONDS_MAX)
        freeing = lane(KindLane.FREEING, InProcessRunner, seconds)
        rewriting = lane(KindLane.REWRITING, start_runner, run_seconds)
        copying = lane(KindLane.COPYING, start_runner, run_seconds)
        service = MaintenanceService([freeing, rewriting, copying], counters)
        if admin is not None:
            intervals_ms = {name: settings.maintenance.interval.of(name) for name in KIND_NAMES}
            buckets = [store.buckets for store in stores]
            admin.observe(ObservedMaintenance(service, buckets, settings.admin.prices, intervals_ms))
        opened.enter_context(looking(look))
        yield service
