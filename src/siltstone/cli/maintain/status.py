"""``siltstone maintain status``: jobs, units that are set aside, last runs, and free space."""

from collections.abc import Sequence

import click
import msgspec
from rich.console import Group, RenderableType

from siltstone.carrying.pipeline.next_runs import NextRun, next_runs, next_runs_note, runs_that_ended
from siltstone.carrying.pipeline.set_aside import SetAside, all_set_aside
from siltstone.cli.output import print_json, results, table
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import count_words, counted, seconds_words, size_words, time_words
from siltstone.maintenance.retention.next_deletion import NextDeletion, deletion_day, next_deletions
from siltstone.metadata.entities import JobMetadata, JobState
from siltstone.metadata.image import MetadataImage
from siltstone.offline.kind_rows import KIND_NAMES
from siltstone.offline.pressure import Pressure, Space

FINISHED_SHOWN_MAX = 15
"""Finished jobs in the table; --json has all that the metadata keeps."""

DELETIONS_SHOWN_MAX = 1_000
"""Topics whose next deletion --json has, the first ones first; siltstone maintain explain has each."""


@click.command()
@json_option
@store_options
def status(choice: StoreChoice, as_json: bool) -> None:
    """Show jobs, failed units, last and next runs, and free space.

    A job is one run of one kind of maintenance. Its driver renews a lease; if the lease of a running job has expired,
    its driver is gone, and the next run takes the job over. A unit that failed is set aside: it is retried
    automatically at the time shown, or with the next run after its topic was configured differently. When a kind runs
    next is known while a service repeats it (siltstone maintain serve, or siltstone serve --with-maintenance).
    """
    with choice.open() as store:
        image, now_ms = store.metadata.image, store.metadata.now_ms()
        spaces = store.context.space().spaces
    if as_json:
        print_json(_as_document(image, spaces, now_ms))
    else:
        results().print(_shown(image, spaces, now_ms))


def _as_document(image: MetadataImage, spaces: Sequence[Space], now_ms: int) -> dict[str, object]:
    return {
        "now_ms": now_ms,
        "spaces": [_space_document(space) for space in spaces],
        "jobs": [_job_document(job, now_ms) for job in _jobs(image)],
        "set_aside": _set_aside(image),
        "last_runs": list(runs_that_ended(image).values()),
        "next_runs": [
            {"kind": each.kind, "due_ms": each.due_ms, "words": each.words}
            for each in next_runs(image, KIND_NAMES, now_ms)
        ],
        "next_deletions": next_deletions(image, now_ms)[:DELETIONS_SHOWN_MAX],
    }


def _space_document(space: Space) -> dict[str, object]:
    return msgspec.structs.asdict(space) | {"pressure": space.pressure.name.lower()}


def _job_document(job: JobMetadata, now_ms: int) -> dict[str, object]:
    named = {name: getattr(job, name) for name in job.__struct_fields__}
    return named | {"state": job.state.name, "lease_left_ms": _lease_left_ms(job, now_ms)}


def _lease_left_ms(job: JobMetadata, now_ms: int) -> int | None:
    return job.lease_until_ms - now_ms if job.state is JobState.RUNNING else None


def _jobs(image: MetadataImage) -> list[JobMetadata]:
    """Running jobs first; among equals the newest first."""
    return sorted(image.jobs.values(), key=lambda job: (job.state is not JobState.RUNNING, -job.job_id))


def _set_aside(image: MetadataImage) -> list[SetAside]:
    return sorted(all_set_aside(image), key=lambda aside: (aside.retry_at_ms, aside.kind, aside.name))


def _shown(image: MetadataImage, spaces: Sequence[Space], now_ms: int) -> RenderableType:
    jobs = _jobs(image)
    running = [job for job in jobs if job.state is JobState.RUNNING]
    finished = jobs[len(running) :]
    runs = next_runs(image, KIND_NAMES, now_ms)
    return Group(
        _running_shown(running, now_ms),
        "",
        _finished_shown(finished),
        "",
        _aside_shown(_set_aside(image), image, now_ms),
        "",
        _runs_shown(runs, now_ms),
        *([note] if (note := next_runs_note(runs)) else []),
        "",
        _deletion_words(next_deletions(image, now_ms), now_ms),
        *(line for space in spaces for line in ("", _space_words(space))),
    )


def _space_words(space: Space) -> str:
    effect = {
        Pressure.NONE: "maintenance is not held back",
        Pressure.WARN: "major garbage collection waits for free space",
        Pressure.FULL: "compaction and garbage collection wait for free space; deletion continues",
    }[space.pressure]
    return f"{space.name}: {space.use:.0%} used, {size_words(space.room_bytes)} free; {effect}"


def _running_shown(jobs: Sequence[JobMetadata], now_ms: int) -> RenderableType:
    if not jobs:
        return "No job is running."
    shown = table(">job", "kind", "since", "lease", "driver", "what", title="Running")
    for job in jobs:
        shown.add_row(
            str(job.job_id),
            job.kind,
            time_words(job.started_ms),
            _lease_words(job, now_ms),
            job.driver,
            job.description,
        )
    return shown


def _lease_words(job: JobMetadata, now_ms: int) -> str:
    left_ms = job.lease_until_ms - now_ms
    return f"{seconds_words(left_ms / 1000)} left" if left_ms > 0 else "expired: its driver is gone"


def _finished_shown(jobs: Sequence[JobMetadata]) -> RenderableType:
    if not jobs:
        return "No job has found work yet."
    shown = table(">job", "kind", "ended", "outcome", "report", title="Recent jobs")
    for job in jobs[:FINISHED_SHOWN_MAX]:
        outcome = "done" if job.state is JobState.SUCCEEDED else "failed"
        style = "" if job.state is JobState.SUCCEEDED else "red"
        shown.add_row(
            str(job.job_id), job.kind, time_words(job.finished_ms), outcome, job.report, style=style
        )
    if (more := len(jobs) - FINISHED_SHOWN_MAX) > 0:
        shown.add_row("…", "", "", "", f"and {count_words(more)} more (--json has all)")
    return shown


def _aside_shown(asides: Sequence[SetAside], image: MetadataImage, now_ms: int) -> RenderableType:
    if not asides:
        return "No unit is set aside."
    shown = table(
        "kind", "unit", ">failures", "since", "next try", "reason", title="Set aside after failures"
    )
    for aside in asides:
        next_try = time_words(aside.retry_at_ms) if aside.waits(image, now_ms) else "with the next run"
        shown.add_row(
            aside.kind, aside.name, str(aside.failures), time_words(aside.since_ms), next_try, aside.reason
        )
    return shown


def _runs_shown(runs: Sequence[NextRun], now_ms: int) -> RenderableType:
    shown = table("kind", "ended", "report", "next", title="Last and next run of each kind")
    for ran in runs:
        age = f"{seconds_words(max(0, now_ms - ran.ended_ms) / 1000)} ago" if ran.ended_ms else "never"
        shown.add_row(ran.kind, age, ran.report, ran.words)
    return shown


def _deletion_words(found: Sequence[NextDeletion], now_ms: int) -> str:
    if not found:
        return "Time makes retention delete nothing."
    day = deletion_day(found[0], now_ms)
    first = [each for each in found if deletion_day(each, now_ms) == day]
    size_bytes = sum(each.size_bytes for each in first)
    return (
        f"Retention deletes {day}: {counted(sum(each.offsets for each in first), 'offset')} of"
        f" {counted(len(first), 'topic')}, {size_words(size_bytes)}, if nothing is written meanwhile"
    )
