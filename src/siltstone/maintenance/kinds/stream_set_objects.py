"""Stream set object compaction as a kind: one round, one unit, one commit.

A task that finds damage names the object. It is the object then that has failed and is set aside, not the round: the
next one goes without it, and one damaged object does not stop the compaction of all others.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.compaction import JOB_KIND, plan_round
from siltstone.maintenance.compaction_round import CompactionRound, RoundOutcome
from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.pipeline.kind import Outcome, PlannedUnit, StartRunner, UnitReport, Unplanned
from siltstone.maintenance.pipeline.round_telling import telling
from siltstone.maintenance.pipeline.scope import Scope
from siltstone.maintenance.pipeline.set_aside import all_set_aside
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.planning.plan import CompactionPlan
from siltstone.maintenance.runner import RunFailed
from siltstone.maintenance.settings import CompactionSettings
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import JobNotRunning
from siltstone.model.errors import CorruptData, InvalidRequest, Stale

UNIT = "objects"
"""The round takes whatever objects are there: it is one unit, by one name."""

_OBJECT = re.compile(r"\bobject (\d+)\b")

NOT_BY_TOPIC = "stream set objects hold many streams each and are compacted whole: leave out --topic"


class StreamSetObjectCompaction:
    def __init__(self, settings: CompactionSettings) -> None:
        self._settings = settings

    @property
    def name(self) -> str:
        return JOB_KIND

    @property
    def lease_ms(self) -> int:
        return self._settings.lease_ms

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> "StreamSetObjectPlan":
        if scope.topics is not None:
            return StreamSetObjectPlan(None, (), (Unplanned(UNIT, NOT_BY_TOPIC),))
        try:
            image = context.metadata.refresh()
            without = {} if scope.is_forced else _set_aside(image, context.clock.now_ms())
            plan = plan_round(context, self._settings, telling(watch), without)
        except (CorruptData, InvalidRequest) as refused:
            return StreamSetObjectPlan(None, (), (Unplanned(UNIT, str(refused)),))
        unplanned = tuple(Unplanned(f"object {each.object_id}", each.reason) for each in plan.left_out)
        if plan.is_empty:
            nothing = Unplanned(UNIT, "no stream set object holds a stream that another one holds too")
            return StreamSetObjectPlan(plan, (), (*unplanned, nothing))
        return StreamSetObjectPlan(plan, (_unit(plan),), unplanned)


class StreamSetObjectPlan(msgspec.Struct, frozen=True):
    round_plan: CompactionPlan | None
    units: Sequence[PlannedUnit]
    unplanned: Sequence[Unplanned]

    @property
    def kind(self) -> str:
        return JOB_KIND

    @property
    def has_remaining(self) -> bool:
        return self.round_plan is not None and self.round_plan.has_remaining

    def carry_out(
        self,
        context: MaintenanceContext,
        start_runner: StartRunner,
        job_id: int,
        names: Sequence[str],
        watch: Watch,
    ) -> Iterator[UnitReport]:
        plan = self.round_plan
        assert plan is not None and list(names) == [UNIT]
        watch.check()
        try:
            told = telling(watch, plan.live_bytes)
            done = CompactionRound(context, start_runner(), plan, job_id, told).carry_out()
        except JobNotRunning:
            raise
        except Stale as overtaken:
            yield UnitReport(name=UNIT, outcome=Outcome.NOT_NEEDED, text=str(overtaken))
        except (RunFailed, CorruptData, InvalidRequest) as failure:
            watch.check()  # what fails after somebody cancelled is no fault of the objects
            yield from _failed(plan, str(failure))
        else:
            yield _report(plan, done)


def _set_aside(image: MetadataImage, now_ms: int) -> dict[int, str]:
    """Objects that wait, with the reason."""
    asides = (
        aside for aside in all_set_aside(image) if aside.kind == JOB_KIND and aside.waits(image, now_ms)
    )
    named = ((_OBJECT.fullmatch(aside.name), aside.reason) for aside in asides)
    return {int(found[1]): f"it is set aside: {reason}" for found, reason in named if found}


def _failed(plan: CompactionPlan, failure: str) -> Iterator[UnitReport]:
    """The sources that the failure names; the round itself when it names none."""
    named = {int(number) for number in _OBJECT.findall(failure)}.intersection(plan.compacted_ids)
    for name in [f"object {object_id}" for object_id in sorted(named)] or [UNIT]:
        yield UnitReport(name=name, outcome=Outcome.FAILED, text=failure)


def _unit(plan: CompactionPlan) -> PlannedUnit:
    objects = len(plan.compacted_sources)
    return PlannedUnit(
        name=UNIT,
        reason=f"{counted(objects, 'stream set object')}: what they hold of a stream is put together",
        bytes_read=plan.live_bytes,
        bytes_written=plan.live_bytes,
        objects_before=objects,
        objects_after=plan.object_count,
        detail={"tasks": str(len(plan.bounds)), "index entries": str(plan.index_entries_after)},
    )


def _report(plan: CompactionPlan, done: RoundOutcome) -> UnitReport:
    before = sum(source.metadata.size_bytes for source in plan.compacted_sources)
    objects = len(plan.compacted_sources)
    return UnitReport(
        name=UNIT,
        outcome=Outcome.DONE,
        text=f"{counted(objects, 'object')} became {plan.object_count}, {size_words(done.bytes_after)}",
        bytes_read=sum(result.bytes_read for result in done.results),
        bytes_written=sum(result.bytes_written for result in done.results),
        bytes_freed=max(0, before - done.bytes_after),
        objects_before=objects,
        objects_after=plan.object_count,
        peak_memory_bytes=max((result.peak_memory_bytes for result in done.results), default=0),
    )
