"""Maintenance is refused while the clock that it goes by may be wrong (rule 15): retention, tombstones and the sweep
delete by time, and one machine with a wrong clock would empty every topic.

The time is the store's (``MaintenanceContext.now_ms``). PostgreSQL has a clock of its own; a machine whose clock
differs from it by CLOCK_OFFSET_MS_MAX does no maintenance, as it runs no broker. SQLite has none, so the machine's
clock is compared with the newest time that the store has seen: the newest mark in a bucket, the last run of a kind, the
newest job, the newest beat of a broker, the newest upload. A clock that is further ahead of all of them than
``clock_advance_ms_max`` is refused until the store has seen a newer time, or a person has said that the clock is right.
"""

from collections.abc import Iterator

from siltstone.carrying.pipeline.set_aside import last_runs
from siltstone.foundation.quantity_words import duration_words, time_words
from siltstone.metadata.client import refuse_wrong_clock
from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import ObjectState
from siltstone.offline.context import MaintenanceContext


class ClockAheadOfStore(InvalidRequest):
    """The machine's clock, ``now_ms``, is too far ahead of ``seen_ms``, the newest time that the store has seen."""

    def __init__(self, now_ms: int, seen_ms: int) -> None:
        ahead = duration_words((now_ms - seen_ms) // HOUR_MS * HOUR_MS)
        super().__init__(
            f"the clock of this machine says {time_words(now_ms)} UTC, {ahead} after the newest time that this store "
            f"has seen, {time_words(seen_ms)}: nothing is deleted by a clock that may be wrong. Correct the clock. If "
            "it is right, since the store was left alone for so long, say so once: siltstone maintain run --trust-clock"
        )
        self.now_ms = now_ms
        self.seen_ms = seen_ms


def check_clock(context: MaintenanceContext) -> None:
    """Raises ClockTooFarOff, ClockAheadOfStore. Called after the buckets were checked, so that their marks are known,
    and before the first entry of a run: an entry with a wrong time would be the newest that the store has seen."""
    refuse_wrong_clock(context.metadata.clock_offset_ms, "no maintenance is run")
    if context.clock_advance_ms_max is None:
        return
    now_ms, seen_ms = context.now_ms(), 0
    for time_ms in _times_seen(context):
        seen_ms = max(seen_ms, time_ms)
        if now_ms - seen_ms <= context.clock_advance_ms_max:
            return
    if seen_ms:
        raise ClockAheadOfStore(now_ms, seen_ms)


def _times_seen(context: MaintenanceContext) -> Iterator[int]:
    """Yields the times that the store has seen, the cheap ones first: a million objects are asked last."""
    image = context.metadata.image
    yield from (guard.newest_mark_ms for guard in context.guards.values())
    yield from (ran.ended_ms for ran in last_runs(image).values())
    yield from (max(job.started_ms, job.finished_ms) for job in image.jobs.values())
    yield context.newest_beat_ms() or 0
    yield from (
        max(held.committed_ms, held.destroyed_ms)
        for held in image.objects.values()
        if held.state is not ObjectState.PREPARED
    )
