"""Stream set object compaction: plan, job, tasks, one commit.

    image → candidates → indexes → plan → job → ids, multipart upload → iterations on the runner → commit

Until the commit nothing has changed for anybody: a driver may be killed at any point, its objects are collected when
their time limit has passed. Attempts of tasks may outlive the driver; what they write is what was planned, under ids
that only this plan names.
"""

from collections.abc import Mapping
from typing import Literal, overload

from siltstone.maintenance.compaction_round import CompactionRound
from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.indexes import read_indexes
from siltstone.maintenance.jobs import running_job
from siltstone.maintenance.planning.candidates import choose_candidates
from siltstone.maintenance.planning.plan import CompactionPlan
from siltstone.maintenance.planning.planner import plan_compaction
from siltstone.maintenance.planning.sources import LeftOut
from siltstone.maintenance.report import CompactionReport, OnProgress, report_of, tell_step
from siltstone.maintenance.runner import Runner
from siltstone.maintenance.settings import CompactionSettings
from siltstone.maintenance.stream_classes import stream_classes

JOB_KIND = "sso-compaction"


@overload
def compact(
    context: MaintenanceContext,
    runner: Runner,
    settings: CompactionSettings | None = ...,
    *,
    on_progress: OnProgress | None = ...,
    dry_run: Literal[False] = ...,
) -> CompactionReport: ...
@overload
def compact(
    context: MaintenanceContext,
    runner: Runner,
    settings: CompactionSettings | None = ...,
    *,
    on_progress: OnProgress | None = ...,
    dry_run: Literal[True],
) -> CompactionPlan: ...
def compact(
    context: MaintenanceContext,
    runner: Runner,
    settings: CompactionSettings | None = None,
    *,
    on_progress: OnProgress | None = None,
    dry_run: bool = False,
) -> CompactionReport | CompactionPlan:
    """One round. With ``dry_run`` only the plan, and nothing written.

    Raises JobRunning (another driver is at work), MemoryLimitTooSmall, OverlappingSources, RunFailed, the commit's
    Refusal, CompactionOutcomeUnknown, and what the metadata raises. Whatever it raises, the old data stays served.
    """
    settings = settings or CompactionSettings()
    started_ms = context.clock.monotonic_ms()
    plan = plan_round(context, settings, on_progress)
    return plan if dry_run else carry_out(context, runner, plan, on_progress, started_ms=started_ms)


def carry_out(
    context: MaintenanceContext,
    runner: Runner,
    plan: CompactionPlan,
    on_progress: OnProgress | None = None,
    *,
    started_ms: float | None = None,
) -> CompactionReport:
    """A plan made by ``plan_round``, which somebody may have looked at first. Raises as ``compact``; a plan that others
    have overtaken meanwhile is refused. The report counts seconds from ``started_ms``, or from now."""
    started_ms = context.clock.monotonic_ms() if started_ms is None else started_ms
    if plan.is_empty:
        return report_of(
            plan, [], job_id=None, first_object_id=None, bytes_after=0, seconds=_since(context, started_ms)
        )
    with running_job(context, JOB_KIND, plan.settings.lease_ms, _description(plan)) as job:
        done = CompactionRound(context, runner, plan, job.job_id, on_progress).carry_out()
        report = report_of(
            plan,
            done.results,
            job_id=job.job_id,
            first_object_id=done.first_object_id,
            bytes_after=done.bytes_after,
            seconds=_since(context, started_ms),
        )
        job.report = report.in_one_line
    return report


def plan_round(
    context: MaintenanceContext,
    settings: CompactionSettings,
    on_progress: OnProgress | None = None,
    without: Mapping[int, str] | None = None,
) -> CompactionPlan:
    """Reads the image and the candidates' indexes, nothing else. ``without``: objects to leave alone, each with the
    reason."""
    image = context.metadata.refresh()
    now_ms = context.clock.now_ms()
    classes = stream_classes(image)
    spared = without or {}
    objects = (held for held in image.objects.values() if held.object_id not in spared)
    candidates = choose_candidates(objects, image.streams, settings, now_ms, classes)
    sources, left_out = read_indexes(
        context.buckets, candidates.objects, tell_step("read indexes", on_progress)
    )
    return plan_compaction(
        sources,
        image.streams,
        settings,
        now_ms,
        classes=classes,
        left_out=[*left_out, *(LeftOut(object_id, reason) for object_id, reason in spared.items())],
        has_remaining=candidates.has_remaining,
    )


def _description(plan: CompactionPlan) -> str:
    return (
        f"{len(plan.compacted_sources)} stream set objects into {plan.object_count} objects,"
        f" {plan.live_bytes} bytes in {len(plan.bounds)} iterations"
    )


def _since(context: MaintenanceContext, started_ms: float) -> float:
    return (context.clock.monotonic_ms() - started_ms) / 1000
