"""Table export as a kind of maintenance: many topics in one job, a round and a commit for each.

    image → plan → job → for each topic: ledger → scan units → tasks → commit of dead letters → commit of the table

A topic whose round fails is set aside, and its table has no row of that round; other topics are not affected.
"""

from collections.abc import Iterator, Sequence

import msgspec

from siltstone.carrying.pipeline.kind import Attempt, Plan, Scope, UnitReport
from siltstone.carrying.pipeline.watch import Watch
from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import GRACE_PERIOD_MS, JOB_LEASE_MS
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import TableSettings
from siltstone.offline.tasks.runner import Task
from siltstone.tables.planning import (
    ROUND_BYTES,
    Undecided,
    plan_erasures,
    plan_exports,
    topics_with_transactions,
)
from siltstone.tables.progress import remove_progress, schemas_gone, topics_gone

TABLE_EXPORT = "table-export"


class TableExport:
    """The kind of maintenance. Tests replace ``task``, and lower ``round_bytes``."""

    name = TABLE_EXPORT
    lease_ms = JOB_LEASE_MS

    def __init__(
        self,
        settings: TableSettings,
        task: Task | None = None,
        round_bytes: int = ROUND_BYTES,
        grace_period_ms: int = GRACE_PERIOD_MS,
    ) -> None:
        """``grace_period_ms``: so long readers have, before an erasure drops older states of a table."""
        self._settings = settings
        self._grace_period_ms = grace_period_ms
        self._task = task
        self._round_bytes = round_bytes

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> Plan:
        """Makes the plan from the image; of topics with transactions, what lies in objects is looked at, too. Raises
        Unavailable."""
        watch.check()
        image = context.metadata.refresh()
        waiting = topics_with_transactions(image, scope)
        undecided: Undecided = {}
        if waiting:
            from siltstone.scanning.transactions import CommittedEnds  # noqa: PLC0415  loads numpy

            undecided = CommittedEnds(context).undecided(image, waiting)
        planned = plan_exports(image, scope, context.now_ms(), undecided)
        to_erase = self._to_erase(image, scope, context)
        return msgspec.structs.replace(
            to_erase, units=(*to_erase.units, *planned.units), unplanned=planned.unplanned
        )

    def _to_erase(self, image: MetadataImage, scope: Scope, context: MaintenanceContext) -> Plan:
        units = plan_erasures(image, scope, context.now_ms(), self._grace_period_ms)
        work = {each.name: topic for topic, each in units.items()}
        return Plan(kind=self.name, units=tuple(units.values()), unplanned=(), work=work)

    def carry_out(self, plan: Plan, names: Sequence[str], attempt: Attempt) -> Iterator[UnitReport]:
        from siltstone.tables.rounds import Rounds  # noqa: PLC0415  loads pyarrow, and every task loads kinds

        for topic_id in topics_gone(attempt.context.metadata.image):
            attempt.context.metadata.execute(remove_progress(topic_id))
        for gone in schemas_gone(attempt.context.metadata.image):
            attempt.context.metadata.execute(gone)
        rounds = Rounds(attempt, self._settings, self._task, self._round_bytes)
        for done, name in enumerate(names):
            attempt.watch.report("export", done, len(names))
            if not attempt.watch.may_begin():
                return
            if (topic := plan.work.get(name)) is not None:
                report = rounds.erase(topic, self._grace_period_ms)
                yield msgspec.structs.replace(report, name=name)
            else:
                yield rounds.export(name)


class TableErasure(TableExport):
    """The kind of run that does only what erasures need in tables; it has the lock of exports, too."""

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> Plan:
        watch.check()
        return self._to_erase(context.metadata.refresh(), scope, context)
