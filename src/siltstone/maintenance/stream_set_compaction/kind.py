"""``sso-compaction``, stream set object compaction, as a kind of maintenance.

    image → candidates → indexes → plan → job → ids, multipart upload → iterations on the runner → commit

One run is one round: all objects are replaced by one commit, so they are one unit. A damaged object does not keep the
others from being compacted: it is set aside under its own name, and left out of the next plan.
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice

from siltstone.carrying.engine import Engine
from siltstone.carrying.pipeline.kind import (
    OUTPUTS_MAX,
    Attempt,
    Outcome,
    Plan,
    PlannedUnit,
    Scope,
    UnitReport,
    Unplanned,
    object_name,
)
from siltstone.carrying.pipeline.set_aside import all_set_aside
from siltstone.carrying.pipeline.watch import Watch
from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.stream_set_compaction.carrying_out import (
    CompactionRound,
    PlannedRound,
    failed_objects,
    rounds,
)
from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan, planned_outputs
from siltstone.maintenance.stream_set_compaction.planner import choose_candidates, plan_compaction
from siltstone.maintenance.stream_set_compaction.retention_class import stream_classes
from siltstone.metadata.image import MetadataImage
from siltstone.model.errors import CorruptData, InvalidRequest
from siltstone.model.objects import ObjectKind, ObjectState
from siltstone.offline.blocks.columns import LeftOut
from siltstone.offline.blocks.indexes import read_indexes
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import CompactionSettings

JOB_KIND = "sso-compaction"
UNIT = "objects"
"""The one unit of every plan. Its name does not say which objects it holds, so that a failure of the runner is found
again in the next plan."""

NOT_BY_TOPIC = "stream set objects hold many streams each and are compacted whole: leave out --topic"


class StreamSetObjectCompaction:
    """Plans and carries out the compaction of stream set objects: of those worth it, or of ``only`` these, whatever
    they share."""

    name = JOB_KIND

    def __init__(self, settings: CompactionSettings, only: Container[int] | None = None) -> None:
        self._settings = settings
        self._only = only

    @property
    def lease_ms(self) -> int:
        return self._settings.lease_ms

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> Plan:
        if scope.topics is not None:
            return Plan(kind=JOB_KIND, unplanned=(Unplanned(UNIT, NOT_BY_TOPIC),))
        image = context.metadata.refresh()
        without = {} if scope.is_forced else _set_aside(image, context.now_ms())
        try:
            plan = plan_round(context, image, self._settings, watch, without, self._only)
        except (CorruptData, InvalidRequest) as refused:
            return Plan(kind=JOB_KIND, unplanned=(Unplanned(UNIT, str(refused), True),))
        unplanned = [
            Unplanned(object_name(each.object_id), each.reason, each.is_failure) for each in plan.left_out
        ]
        if plan.is_empty:
            unplanned.append(Unplanned(UNIT, _why_empty(image, plan)))
            return Plan(kind=JOB_KIND, unplanned=unplanned)
        return Plan(
            kind=JOB_KIND,
            units=(_unit(plan),),
            unplanned=unplanned,
            has_remaining=plan.has_remaining,
            urgency=(
                f"{counted(plan.force_split, 'stream set object')} must be split because of age"
                if plan.force_split
                else ""
            ),
            work=plan,
        )

    def carry_out(self, plan: Plan, names: Sequence[str], attempt: Attempt) -> Iterator[UnitReport]:
        assert list(names) == [UNIT]
        kind_of_work = rounds(attempt, _report, lambda work: failed_objects(attempt, work))
        yield from Engine(attempt, kind_of_work).carry_out([PlannedRound(UNIT, plan.work)])


def plan_round(
    context: MaintenanceContext,
    image: MetadataImage,
    settings: CompactionSettings,
    watch: Watch,
    without: Mapping[int, str] | None = None,
    only: Container[int] | None = None,
) -> CompactionPlan:
    """Reads the candidates' indexes, nothing else. ``without`` has the objects to leave out of the plan, each with the
    reason; ``only``, if given, has the only candidates. Raises OverlappingSources, MemoryLimitTooSmall."""
    now_ms = context.now_ms()
    classes = stream_classes(image)
    spared = without or {}
    objects = (
        held
        for object_id, held in image.objects.items()
        if object_id not in spared and (only is None or object_id in only)
    )
    candidates = choose_candidates(objects, image.streams, settings, now_ms, classes)
    # Why the indexes and no data: they fix every byte of the outputs, so tasks decide nothing (decision 5).
    sources, left_out = read_indexes(context.buckets, candidates.objects, watch.steps("read indexes"))
    return plan_compaction(
        sources,
        image.streams,
        settings,
        now_ms,
        classes=classes,
        left_out=[*left_out, *(LeftOut(object_id, reason, True) for object_id, reason in spared.items())],
        has_remaining=candidates.has_remaining,
    )


def _set_aside(image: MetadataImage, now_ms: int) -> dict[int, str]:
    """Returns the objects that wait for another try, each with the reason."""
    waiting = {
        aside.name: aside.reason
        for aside in all_set_aside(image)
        if aside.kind == JOB_KIND and aside.waits(image, now_ms)
    }
    if not waiting:
        return {}
    named = ((object_id, waiting.get(object_name(object_id))) for object_id in image.objects)
    return {object_id: f"it is set aside: {reason}" for object_id, reason in named if reason is not None}


def _why_empty(image: MetadataImage, plan: CompactionPlan) -> str:
    """Says why the plan is empty. Many small objects and nothing to do look like a failure, so the reason counts the
    objects."""
    kinds = Counter(held.kind for held in image.objects.values() if held.state is ObjectState.COMMITTED)
    sets, own = kinds[ObjectKind.STREAM_SET_OBJECT], kinds[ObjectKind.STREAM_OBJECT]
    if not kinds:
        return "there are no objects"
    if not sets:
        return f"there is no stream set object, only {counted(own, 'stream object')}"
    if plan.left_out:  # the streams of objects that were left out are not known
        return f"without those left out, no two of {counted(sets, 'stream set object')} hold the same stream"
    return f"of {counted(sets, 'stream set object')} no two hold the same stream"


def _unit(plan: CompactionPlan) -> PlannedUnit:
    objects = len(plan.compacted_sources)
    return PlannedUnit(
        name=UNIT,
        reason=f"{counted(objects, 'stream set object')} will be split and merged by stream",
        bytes_read=plan.live_bytes,
        bytes_written=plan.live_bytes,
        objects_before=objects,
        objects_after=plan.object_count,
        detail={"tasks": str(len(plan.bounds)), "index entries": _index_entries(plan)},
        outputs=tuple(islice(planned_outputs(plan), OUTPUTS_MAX)),
    )


def _report(work: CompactionRound) -> UnitReport:
    plan, results = work.plan, work.results
    before = sum(source.metadata.size_bytes for source in plan.compacted_sources)
    objects = len(plan.compacted_sources)
    return UnitReport(
        name=UNIT,
        outcome=Outcome.DONE,
        text=f"{counted(objects, 'object')} became {plan.object_count}, {size_words(work.bytes_after)}",
        bytes_read=sum(result.bytes_read for result in results),
        bytes_written=sum(result.bytes_written for result in results),
        bytes_freed=max(0, before - work.bytes_after),
        objects_before=objects,
        objects_after=plan.object_count,
        peak_memory_bytes=max((result.peak_memory_bytes for result in results), default=0),
        detail={
            "tasks": str(len(results)),
            "index entries": _index_entries(plan),
            "read requests": str(sum(result.read_requests for result in results)),
            "write requests": str(sum(result.write_requests for result in results)),
        },
    )


def _index_entries(plan: CompactionPlan) -> str:
    before = sum(len(source.index) for source in plan.compacted_sources)
    return f"{before} → {plan.index_entries_after}"
