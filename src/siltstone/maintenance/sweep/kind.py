"""The sweep as a kind of maintenance: it deletes destroyed objects after their grace period, unless a scan pin holds
them, ends pins past their lease, gives up objects that were prepared and not committed in time, and aborts orphaned
multipart uploads.

It takes no job: two sweeps at once do no harm, and a sweep need not wait for the lease of a driver that died.
"""

from collections.abc import Iterator, Sequence

from siltstone.carrying.pipeline.kind import (
    Attempt,
    Outcome,
    Plan,
    PlannedUnit,
    Scope,
    UnitReport,
    Unplanned,
)
from siltstone.carrying.pipeline.watch import Watch
from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.sweep.pinned import explained, held_by_pin
from siltstone.maintenance.sweep.sweeping import SweepReport, count_in_grace, is_forsaken, sweep_checked
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.lookup import deletable_objects, expired_objects, overdue_pins
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import SET_ASIDE_MS_MIN
from siltstone.object_store.port import MultipartUpload
from siltstone.offline.context import MaintenanceContext

SWEEP = "sweep"
UNIT = "objects"


class Sweep:
    """The kind of maintenance."""

    name = SWEEP
    lease_ms = None

    def __init__(self, grace_period_ms: int) -> None:
        self._grace_period_ms = grace_period_ms

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> Plan:
        if scope.topics is not None:
            return Plan(
                kind=SWEEP, unplanned=(Unplanned(UNIT, "the sweep covers all topics: leave out --topic"),)
            )
        uploads, unplanned = _uploads_listed(context)  # before the image is read, as is_forsaken demands
        image, now_ms = context.metadata.refresh(), context.now_ms()
        forsaken = sum(is_forsaken(upload, image) for upload in uploads)
        overdue = frozenset(overdue_pins(image, now_ms))
        due = deletable_objects(image, now_ms, self._grace_period_ms, len(image.destroyed), overdue)
        expired = expired_objects(image, now_ms, len(image.prepared))
        if (waiting := count_in_grace(image, now_ms, self._grace_period_ms)) > 0:
            unplanned.append(
                Unplanned(UNIT, f"{counted(waiting, 'destroyed object')} still in the grace period")
            )
        unplanned += explained(held_by_pin(image, now_ms, self._grace_period_ms, overdue))
        is_needed = due or expired or forsaken or overdue
        units = [_unit(due, len(expired), forsaken, len(overdue))] if is_needed else []
        return Plan(kind=SWEEP, units=units, unplanned=unplanned)

    def carry_out(self, plan: Plan, names: Sequence[str], attempt: Attempt) -> Iterator[UnitReport]:
        attempt.watch.check()
        yield _report(sweep_checked(attempt.context, self._grace_period_ms))  # a run has checked the metadata


def _uploads_listed(context: MaintenanceContext) -> tuple[list[MultipartUpload], list[Unplanned]]:
    """Returns the uploads of all buckets; and the buckets that could not be listed."""
    uploads: list[MultipartUpload] = []
    unplanned: list[Unplanned] = []
    for bucket_id in context.buckets.urls:
        try:
            uploads += context.buckets.store(bucket_id).list_multipart()
        except SiltstoneError as trouble:
            unplanned.append(Unplanned(f"bucket {bucket_id}", str(trouble), True))
    return uploads, unplanned


def _unit(due: Sequence[ObjectMetadata], expired: int, uploads: int, pins: int) -> PlannedUnit:
    """Returns the one unit of the plan. It is never set aside for longer than the time between two sweeps, because the
    deletion of other objects must not wait for one bucket or object that fails."""
    size_bytes = sum(metadata.size_bytes for metadata in due)
    parts = (
        (
            len(due),
            f"delete {counted(len(due), 'object')}, {size_words(size_bytes)}: the grace period is over",
        ),
        (expired, f"give up {counted(expired, 'prepared object')}: the time limit has passed"),
        (uploads, f"abort {counted(uploads, 'orphaned upload')}"),
        (pins, f"end {counted(pins, 'scan pin')}: the lease is over"),
    )
    return PlannedUnit(
        name=UNIT,
        reason="; ".join(text for count, text in parts if count),
        objects_before=len(due),
        detail={"bytes to delete": str(size_bytes)},
        set_aside_ms_max=SET_ASIDE_MS_MIN,
    )


def _report(done: SweepReport) -> UnitReport:
    parts = (
        f"{counted(done.objects_deleted, 'object')} deleted, {size_words(done.bytes_deleted)}",
        f"{done.objects_expired} given up" if done.objects_expired else "",
        f"{counted(done.uploads_aborted, 'upload')} aborted" if done.uploads_aborted else "",
        f"{counted(done.pins_ended, 'scan pin')} ended" if done.pins_ended else "",
        f"{counted(done.objects_pinned, 'object')} held by scans, {size_words(done.bytes_pinned)}"
        if done.objects_pinned
        else "",
        f"{counted(done.staged_deleted, 'staged object')} deleted" if done.staged_deleted else "",
        *(f"skipped: {reason}" for reason in done.passed_over),
    )
    return UnitReport(
        name=UNIT,
        outcome=Outcome.FAILED if done.passed_over else Outcome.DONE,
        text="; ".join(filter(None, parts)),
        bytes_freed=done.bytes_deleted,
        objects_before=done.objects_deleted,
    )
