"""Key compaction as a kind of maintenance: many streams in one job, a commit for each.

    image → plan → job → waves: ids → tasks on the runner → a commit for each stream

What one stream costs, it costs itself: a task that answers a failure, or a commit that is refused, leaves the others of
its wave as they are.
"""

from collections.abc import Iterator, Sequence

from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.key_compaction.carrying_out import CarryingOut
from siltstone.maintenance.key_compaction.planning.planner import plan_streams
from siltstone.maintenance.key_compaction.planning.stream_plan import PlannedStreams, planned_unit
from siltstone.maintenance.key_compaction.planning.waves import waves
from siltstone.maintenance.key_compaction.rewriting.run import run_key_compaction
from siltstone.maintenance.key_compaction.settings import KeyCompactionSettings
from siltstone.maintenance.pipeline.kind import PlannedUnit, StartRunner, UnitReport, Unplanned
from siltstone.maintenance.pipeline.scope import Scope
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.runner import Task

KEY_COMPACTION = "key-compaction"


class KeyCompaction:
    """``task``: another one for tests."""

    name = KEY_COMPACTION

    def __init__(
        self, settings: KeyCompactionSettings | None = None, task: Task = run_key_compaction
    ) -> None:
        self._settings = settings or KeyCompactionSettings()
        self._task = task

    @property
    def lease_ms(self) -> int:
        return self._settings.lease_ms

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> "KeyCompactionPlan":
        """Reads the image, nothing else. Raises Unavailable."""
        planned = plan_streams(context.metadata.refresh(), scope, context.clock.now_ms())
        return KeyCompactionPlan(planned, self._settings, self._task)


class KeyCompactionPlan:
    """``has_remaining``: maps were full, so the next run goes on at once."""

    kind = KEY_COMPACTION

    def __init__(self, planned: PlannedStreams, settings: KeyCompactionSettings, task: Task) -> None:
        self._settings = settings
        self._task = task
        self._plans = {plan.name: plan for plan in planned.chosen}
        self.units: tuple[PlannedUnit, ...] = tuple(
            planned_unit(plan, settings.object_bytes) for plan in planned.chosen
        )
        self.unplanned: tuple[Unplanned, ...] = planned.unplanned
        self.has_remaining = False

    def carry_out(
        self,
        context: MaintenanceContext,
        start_runner: StartRunner,
        job_id: int,
        names: Sequence[str],
        watch: Watch,
    ) -> Iterator[UnitReport]:
        """As the port says. What could not be committed is as it was; what was uploaded for it is swept away."""
        carrying = CarryingOut(context, start_runner, job_id, self._settings, self._task, watch)
        chosen = [self._plans[name] for name in names]
        for wave in waves(chosen, self._settings.wave_bytes_max, self._settings.wave_streams_max):
            if watch.is_over:
                return
            for report in carrying.carry_out(wave):
                self.has_remaining = carrying.has_remaining
                yield report
