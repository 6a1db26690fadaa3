"""Maintenance: jobs and last runs, the plan with its reasons, and runs that a visitor starts or cancels."""

import platform
from functools import partial
from typing import Any

from starlette.responses import RedirectResponse, Response

from siltstone.carrying.pipeline.kind import Scope
from siltstone.carrying.pipeline.next_runs import next_runs, next_runs_note
from siltstone.carrying.pipeline.set_aside import all_set_aside, why_late
from siltstone.console.application import Asked, PageRefused, number_of
from siltstone.console.runs import refuse_in_a_broker
from siltstone.console.store import ConsoleStore
from siltstone.console.visitors import Visitor
from siltstone.maintenance.kinds import chosen_kinds
from siltstone.maintenance.overview import Overview, objects_words, overview
from siltstone.metadata.commands import CancelJob
from siltstone.metadata.entities import JobState
from siltstone.model.audit import shortened
from siltstone.model.console_limits import CONSOLE_PLAN_SECONDS_MAX
from siltstone.offline.context import check_metadata_is_newest
from siltstone.offline.kind_rows import KIND_NAMES

FINISHED_SHOWN_MAX = 30


async def maintenance(asked: Asked) -> Response:
    """The page; its plan is loaded afterwards, since it reads indexes of objects."""
    return asked.page("maintenance.html", **_state(asked))


async def jobs(asked: Asked) -> Response:
    """The part with jobs, which is loaded again every few seconds."""
    return asked.page("maintenance_jobs.html", **_state(asked))


async def plan(asked: Asked) -> Response:
    """What maintenance would do now, and why. Nothing is written."""
    kinds = _kinds(asked.query("kind"))
    is_forced = bool(asked.query("force"))
    planned = await asked.run(partial(_planned, asked.store, kinds, is_forced), CONSOLE_PLAN_SECONDS_MAX)
    command = " ".join(["siltstone maintain run", asked.store.place, *(f"--kind {each}" for each in kinds)])
    return asked.page(
        "maintenance_plan.html", planned=planned, command_line=command + " --force" * is_forced,
        kind=asked.query("kind"), force=is_forced, objects_words=objects_words,
        reads=sum(unit.bytes_read for each in planned.kinds for unit in each.units),
    )  # fmt: skip


async def run(asked: Asked) -> Response:
    """Runs one kind, in this process. Answers as soon as the run has started; the list of jobs shows how it goes."""
    kinds = _kinds(asked.form.get("kind", ""))
    if not kinds:
        raise PageRefused(400, "name the kind of maintenance to run")
    refuse_in_a_broker(runs_maintenance=asked.store.runs_maintenance)
    asked.store.runs.begin_maintenance(
        f"maintenance, {', '.join(kinds)}",
        asked.store.context,
        Scope(is_forced=bool(asked.form.get("force"))),
        partial(chosen_kinds, asked.store.kind_settings, kinds),
    )
    return RedirectResponse("/maintenance", 303)


async def cancel(asked: Asked) -> Response:
    """Cancels a running job."""
    part = asked.form.get("job", "")
    found = None if (number := number_of(part)) is None else asked.store.image.jobs.get(number)
    if found is None or found.state is not JobState.RUNNING:
        raise PageRefused(404, f"job {part} does not run")
    await asked.run(partial(_cancel, asked.store, asked.visitor, found.job_id))
    return RedirectResponse("/maintenance", 303)


def _state(asked: Asked) -> dict[str, Any]:
    image, now_ms = asked.store.image, asked.store.now_ms()
    found = sorted(image.jobs.values(), key=lambda job: (job.state is not JobState.RUNNING, -job.job_id))
    running = [each for each in found if each.state is JobState.RUNNING]
    runs = next_runs(image, KIND_NAMES, now_ms)
    return {
        "running": running,
        "finished": found[len(running) : len(running) + FINISHED_SHOWN_MAX],
        "asides": [
            each for each in all_set_aside(image) if each.topic is None or asked.visitor.sees(each.topic)
        ],
        "runs": runs,
        "next_note": next_runs_note(runs),
        "late": why_late(image, now_ms) or "",
        "kinds": KIND_NAMES,
        "runs_maintenance": asked.store.runs_maintenance,
        "newest_run": asked.store.runs.newest,
    }


def _kinds(text: str) -> tuple[str, ...]:
    """Raises PageRefused."""
    if text and text not in KIND_NAMES:
        raise PageRefused(400, f"there is no kind {text!r}: {', '.join(KIND_NAMES)}")
    return (text,) if text else ()


def _planned(store: ConsoleStore, kinds: tuple[str, ...], is_forced: bool) -> Overview:
    return overview(store.context, chosen_kinds(store.kind_settings, kinds), Scope(is_forced=is_forced))


def _cancel(store: ConsoleStore, visitor: Visitor, job_id: int) -> None:
    """The report of the job names a user of the store, since no request of Kafka's protocol stands in the audit."""
    check_metadata_is_newest(store.context)
    by = f" by {shortened(str(visitor.principal))} from {visitor.host}" if visitor.host else ""
    store.context.metadata.execute(CancelJob(job_id, f"cancelled in the console on {platform.node()}{by}"))
