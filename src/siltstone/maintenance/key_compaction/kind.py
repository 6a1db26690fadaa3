"""Key compaction as a kind of maintenance: many streams in one job, a commit for each.

    image → plan → job → waves: ids → tasks on the runner → a commit for each stream

A task that fails, or a commit that is refused, concerns one stream; the other streams of its wave are not affected.
"""

from collections.abc import Iterator, Sequence

from siltstone.carrying.pipeline.kind import Attempt, Plan, Scope, UnitReport
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.key_compaction.carrying_out import KeyCompactionRun
from siltstone.maintenance.key_compaction.planning.allowances import Allowances
from siltstone.maintenance.key_compaction.planning.planner import (
    Known,
    KnownTransactions,
    plan_streams,
    waves,
    with_transactions,
)
from siltstone.maintenance.key_compaction.planning.stream_plan import planned_unit
from siltstone.maintenance.key_compaction.task import run_key_compaction
from siltstone.metadata.image import MetadataImage
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import KeyCompactionSettings
from siltstone.offline.tasks.runner import Task
from siltstone.offline.topic_streams import PartitionName

KEY_COMPACTION = "key-compaction"


class KeyCompaction:
    """The kind of maintenance. Tests replace ``task``."""

    name = KEY_COMPACTION

    def __init__(
        self, settings: KeyCompactionSettings | None = None, task: Task = run_key_compaction
    ) -> None:
        self._settings = settings or KeyCompactionSettings()
        self._task = task
        self._allowances = Allowances(self._settings.allowance_ms)

    @property
    def lease_ms(self) -> int:
        return self._settings.lease_ms

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> Plan:
        """Makes the plan from the image; of streams with transactions, what lies in objects is looked at, too. Raises
        Unavailable."""
        image = context.metadata.refresh()
        planned = plan_streams(image, scope, context.now_ms(), _known_transactions(context, image, scope))
        return Plan(
            kind=self.name,
            units=[planned_unit(plan, self._settings.object_bytes) for plan in planned.chosen],
            unplanned=planned.unplanned,
            work={plan.name: plan for plan in planned.chosen},
        )

    def carry_out(self, plan: Plan, names: Sequence[str], attempt: Attempt) -> Iterator[UnitReport]:
        """Carries the streams out wave by wave. A stream that could not be committed is unchanged; the sweep deletes
        the objects that were uploaded for it."""
        carrying = KeyCompactionRun(attempt, self._settings, self._task, self._allowances)
        chosen = [plan.work[name] for name in names]
        settings = self._settings
        yield from carrying.carry_out(waves(chosen, settings.wave_bytes_max, settings.wave_streams_max))


def _known_transactions(context: MaintenanceContext, image: MetadataImage, scope: Scope) -> Known:
    waiting = with_transactions(image, scope)
    if not waiting:
        return {}
    from siltstone.scanning.planning import ScanPartition  # noqa: PLC0415  loads pyarrow
    from siltstone.scanning.transactions import CommittedEnds  # noqa: PLC0415  loads numpy

    committed = CommittedEnds(context)
    found: dict[PartitionName, KnownTransactions] = {}
    for each in waiting:
        partition = ScanPartition(each.topic, each.partition, image.streams[each.stream_id])
        shown = committed.in_objects(image, partition)
        opened = ((first, producer_id) for producer_id, first in shown.outcomes.opened.items())
        open_from, producer_id = min(opened, default=(None, -1))
        found[partition.key] = KnownTransactions(open_from, producer_id, shown.snapshot_offset)
    return found
