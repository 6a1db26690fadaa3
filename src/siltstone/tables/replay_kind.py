"""Dead letters that are tried again as a run of the table export: it has the lock of exports, so that no export of the
store is under way meanwhile.
"""

from collections.abc import Iterator, Sequence

from siltstone.carrying.pipeline.kind import Attempt, Plan, PlannedUnit, Scope, UnitReport
from siltstone.carrying.pipeline.watch import Watch
from siltstone.model.limits import JOB_LEASE_MS
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import TableSettings
from siltstone.offline.tasks.runner import Task
from siltstone.tables.inspecting import export_of
from siltstone.tables.kind import TABLE_EXPORT
from siltstone.tables.replay_files import REPLAY_BYTES
from siltstone.tables.rounds import Rounds
from siltstone.tables.task_input import Mending


class TableReplay:
    """The kind of run that moves dead letters of one topic into its table. Tests replace ``task``, and lower
    ``bytes_max``."""

    name = TABLE_EXPORT
    lease_ms = JOB_LEASE_MS

    def __init__(
        self,
        settings: TableSettings,
        topic: str,
        mending: Mending | None = None,
        *,
        is_dry: bool = False,
        task: Task | None = None,
        bytes_max: int = REPLAY_BYTES,
    ) -> None:
        """``mending`` is the function that mends values, from ``replaying.mending_of``. ``is_dry``: the dead letters
        are decoded, and neither table gets or loses a row."""
        self._settings = settings
        self._topic = topic
        self._mending = mending
        self._is_dry = is_dry
        self._task = task
        self._bytes_max = bytes_max

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> Plan:
        """Plans one unit, the topic. Raises TableNotThere."""
        watch.check()
        export = export_of(context.metadata.refresh(), self._topic)
        reason = f"the dead letters of table {export.table} are tried again"
        unit = PlannedUnit(name=self._topic, topic=self._topic, reason=reason)
        return Plan(kind=self.name, units=(unit,), unplanned=())

    def carry_out(self, plan: Plan, names: Sequence[str], attempt: Attempt) -> Iterator[UnitReport]:
        rounds = Rounds(attempt, self._settings, self._task, self._bytes_max)
        for name in names:
            yield rounds.replay(name, self._mending, is_dry=self._is_dry)
