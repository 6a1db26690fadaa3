"""Makes the maintenance service of a store from its settings."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from siltstone.maintenance.kinds import FREEING, KIND_NAMES, all_kinds
from siltstone.maintenance.pipeline.kind import StartRunner
from siltstone.maintenance.service.service import Lane, MaintenanceService
from siltstone.maintenance.service.statistics import Counters
from siltstone.maintenance.tasks.runner import InProcessRunner
from siltstone.runtime.clock import SystemClock
from siltstone.server.components import open_store
from siltstone.server.settings.store import StoreSettings

FREEING_SECONDS_MAX = 60.0
"""The most that one run of a freeing kind takes: these kinds take turns every minute, and none may delay the others for
longer."""


@contextmanager
def open_service(settings: StoreSettings, start_runner: StartRunner) -> Iterator[MaintenanceService]:
    """Opens a service with two lanes, each with its own ``Store``: *freeing* runs the kinds that free space,
    *copying* runs the kinds that rewrite data. Raises what ``open_store`` raises."""
    run_seconds = settings.maintenance.run_ms_max / 1000
    counters = Counters(KIND_NAMES, SystemClock())
    with ExitStack() as opened:

        def lane(name: str, *, is_freeing: bool, start: StartRunner, seconds_max: float) -> Lane:
            store = opened.enter_context(open_store(settings))
            kinds = [kind for kind in all_kinds(store.kind_settings) if (kind.name in FREEING) is is_freeing]
            intervals_ms = {kind.name: settings.maintenance.interval.of(kind.name) for kind in kinds}
            return Lane(name, store.context, kinds, intervals_ms, start, counters, seconds_max=seconds_max)

        seconds = min(run_seconds, FREEING_SECONDS_MAX)
        freeing = lane("freeing", is_freeing=True, start=InProcessRunner, seconds_max=seconds)
        copying = lane("copying", is_freeing=False, start=start_runner, seconds_max=run_seconds)
        yield MaintenanceService([freeing, copying], counters)
