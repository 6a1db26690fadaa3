"""When each kind of maintenance ran last, and when it runs next, as far as the metadata tells.

A service notes that it repeats a kind, and how often. A command, also one of a timer, runs a kind once, and nobody
knows when it comes again. The schedule of the service answers when the kind is due. A service that has ended notes
nothing more: a kind that it has not run in time is *overdue*.
"""

from collections.abc import Iterator, Sequence

import msgspec

from siltstone.carrying.pipeline.schedule import COUNTS_AS, JITTER, Schedule
from siltstone.carrying.pipeline.set_aside import LastRun, last_runs
from siltstone.foundation.quantity_words import duration_words, time_words
from siltstone.metadata.entities import JobState
from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import LAST_RUN_NOTED_MS, MINUTE_MS

LATE_MS = 5 * MINUTE_MS
"""How much later than its schedule a service may be before it is taken as ended: other kinds of its lane have turns."""

OVERDUE = "overdue"
REPEATS = "siltstone maintain serve, or siltstone serve --with-maintenance, repeats each kind."


class NextRun(msgspec.Struct, frozen=True):
    """``ended_ms``: when the last run ended, and ``report``: what it reported; 0 and empty if there was none.
    ``due_ms``: when a service runs the kind next, to about a tenth of its interval; None if it is not known.
    ``words``: the same as a sentence for people."""

    kind: str
    ended_ms: int
    report: str
    due_ms: int | None
    words: str
    is_overdue: bool = False


def next_runs(image: MetadataImage, kinds: Sequence[str], now_ms: int) -> list[NextRun]:
    """Returns a row for each of the kinds, in their order."""
    noted, ended = last_runs(image), runs_that_ended(image)
    busy = {
        job.kind
        for job in image.jobs.values()
        if job.state is JobState.RUNNING and job.lease_until_ms > now_ms
    }
    rows = []
    for kind in kinds:
        last = ended.get(kind, LastRun(kind, 0, ""))
        due_ms, words = (now_ms, "runs now") if kind in busy else _next(kind, noted, now_ms)
        rows.append(NextRun(kind, last.ended_ms, last.report, due_ms, words, words.startswith(OVERDUE)))
    return rows


def next_runs_note(rows: Sequence[NextRun]) -> str:
    """Says in a sentence why the next run of kinds is not known, and what would change it; empty if all are known."""
    overdue = [each.kind for each in rows if each.is_overdue]
    if overdue:
        return (
            f"A service repeated {', '.join(overdue)}, and has not run what was due since: it has ended, or it fails. "
            f"{REPEATS}"
        )
    unknown = [each.kind for each in rows if each.due_ms is None]
    if not unknown:
        return ""
    which = "each kind" if len(unknown) == len(rows) else ", ".join(unknown)
    return (
        f"The next run of {which} is not known: no service repeats it, and a command or a timer leaves no word. "
        f"{REPEATS}"
    )


def runs_that_ended(image: MetadataImage) -> dict[str, LastRun]:
    """Returns the last run of each kind: the run that the metadata note, or a job that ended later. A job counts as a
    run because its driver may have noted none: the driver died, or carried out one kind by itself, as the demo does."""
    runs = last_runs(image)
    for job in image.jobs.values():
        if job.state is not JobState.RUNNING and (
            job.kind not in runs or runs[job.kind].ended_ms < job.finished_ms
        ):
            runs[job.kind] = LastRun(job.kind, job.finished_ms, job.report)
    return runs


def _next(kind: str, noted: dict[str, LastRun], now_ms: int) -> tuple[int | None, str]:
    every_ms = noted[kind].every_ms if kind in noted else 0
    if not every_ms:
        return None, "not known"
    served_ms = max(each.served_ms for each in _counting(kind, noted))
    due_ms = Schedule({kind: every_ms}).seen({kind: served_ms}, now_ms).due_ms(kind, now_ms)
    if now_ms > served_ms + max(round(every_ms * (1 + JITTER)), LAST_RUN_NOTED_MS) + LATE_MS:
        return None, f"{OVERDUE} since {time_words(served_ms + every_ms)} UTC"
    if due_ms > now_ms:
        return due_ms, f"about {time_words(due_ms)} UTC"
    if every_ms < LAST_RUN_NOTED_MS:  # most idle runs are not noted
        return now_ms + every_ms, f"within {duration_words(every_ms)}"
    return now_ms, "due now"


def _counting(kind: str, noted: dict[str, LastRun]) -> Iterator[LastRun]:
    """Yields the noted runs that count as runs of the kind."""
    for other, ran in noted.items():
        if other == kind or kind in COUNTS_AS.get(other, ()):
            yield ran
