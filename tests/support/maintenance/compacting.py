"""One round of stream set object compaction for tests: planned, carried out under a job, and reported.

The pipeline turns failures into reports; a test of the compaction itself needs to see them raised.
"""

from collections.abc import Callable, Sequence

import msgspec

from siltstone.carrying.engine import Engine
from siltstone.carrying.jobs import running_job
from siltstone.carrying.pipeline.kind import Attempt, Outcome, UnitReport
from siltstone.carrying.pipeline.watch import StepProgress, Watch
from siltstone.maintenance.stream_set_compaction.carrying_out import CompactionRound, PlannedRound, rounds
from siltstone.maintenance.stream_set_compaction.kind import JOB_KIND, plan_round
from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan
from siltstone.model.errors import Stale
from siltstone.offline.blocks.columns import LeftOut
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import CompactionSettings
from siltstone.offline.tasks.runner import Runner


class RoundReport(msgspec.Struct, frozen=True):
    """``committed`` is False when there was nothing to do, and only then."""

    committed: bool
    job_id: int | None
    objects_before: int
    objects_after: int
    index_entries_before: int
    index_entries_after: int
    bytes_before: int
    bytes_after: int
    stream_set_object: int | None
    stream_objects: int
    iterations: int
    bytes_read: int
    read_requests: int
    bytes_written: int
    write_requests: int
    peak_memory_bytes: int
    left_out: tuple[LeftOut, ...]
    has_remaining: bool


def planned_round(context: MaintenanceContext, settings: CompactionSettings | None = None) -> CompactionPlan:
    return plan_round(
        context, context.metadata.refresh(), settings or CompactionSettings(), Watch(JOB_KIND, context.clock)
    )


def compact(
    context: MaintenanceContext,
    runner: Runner,
    settings: CompactionSettings | None = None,
    *,
    on_step_progress: Callable[[StepProgress], None] | None = None,
) -> RoundReport:
    watch = Watch(JOB_KIND, context.clock, on_step_progress=on_step_progress)
    plan = plan_round(context, context.metadata.refresh(), settings or CompactionSettings(), watch)
    return carry_out(context, runner, plan, watch)


def carry_out(
    context: MaintenanceContext, runner: Runner, plan: CompactionPlan, watch: Watch | None = None
) -> RoundReport:
    if plan.is_empty:
        return _report(plan, None, None)
    with running_job(context, JOB_KIND, plan.settings.lease_ms, "a round of a test") as job:
        watch = watch or Watch(JOB_KIND, context.clock)
        work = _carried_out(Attempt(context, lambda: runner, job.job_id, watch), plan)
        report = _report(plan, job.job_id, work)
        job.report = f"{report.objects_before} objects became {report.objects_after}"
    return report


class RoundNotDone(Stale):
    """The round was not committed; the text is that of its report."""


DONE = UnitReport(name="objects", outcome=Outcome.DONE, text="")


def _carried_out(attempt: Attempt, plan: CompactionPlan) -> CompactionRound:
    """Carries the round out with the engine, and raises what the engine reports."""
    works: list[CompactionRound] = []

    def done(work: CompactionRound) -> UnitReport:
        works.append(work)
        return DONE

    def failed(work: CompactionRound) -> Sequence[UnitReport]:
        works.append(work)
        return ()

    (report,) = Engine(attempt, rounds(attempt, done, failed)).carry_out([PlannedRound("objects", plan)])
    if report is DONE:
        return works[0]
    raise (works[0].trouble if works else None) or RoundNotDone(report.text)


def _report(plan: CompactionPlan, job_id: int | None, work: CompactionRound | None) -> RoundReport:
    results = work.results if work else []
    return RoundReport(
        committed=job_id is not None,
        job_id=job_id,
        objects_before=len(plan.compacted_sources),
        objects_after=plan.object_count,
        index_entries_before=sum(len(source.index) for source in plan.compacted_sources),
        index_entries_after=0 if plan.is_empty else plan.index_entries_after,
        bytes_before=sum(source.metadata.size_bytes for source in plan.compacted_sources),
        bytes_after=work.bytes_after if work else 0,
        stream_set_object=work.first_object_id if work and plan.has_stream_set_object else None,
        stream_objects=len(plan.pieces),
        iterations=len(plan.bounds),
        bytes_read=sum(result.bytes_read for result in results),
        read_requests=sum(result.read_requests for result in results),
        bytes_written=sum(result.bytes_written for result in results),
        write_requests=sum(result.write_requests for result in results),
        peak_memory_bytes=max((result.peak_memory_bytes for result in results), default=0),
        left_out=plan.left_out,
        has_remaining=plan.has_remaining,
    )
