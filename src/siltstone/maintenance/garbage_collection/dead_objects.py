"""The kind ``dead-objects``: objects that hold nothing live are destroyed unread (T10, GC1).

The image alone shows which objects are dead: all their streams were deleted, or trimmed past the object; the
streams of compacted topics are no exception (G34). Objects are destroyed in batches. A batch is a unit with its own
commit, and the commit's decision checks once more that nothing in the batch is live.
"""

from collections.abc import Iterator, Sequence

from siltstone.carrying.committing import commit
from siltstone.carrying.pipeline.kind import (
    Attempt,
    Outcome,
    Plan,
    PlannedUnit,
    Scope,
    UnitReport,
    Unplanned,
    object_name,
)
from siltstone.carrying.pipeline.watch import Watch
from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.garbage_collection.planning import in_scope, is_dead, names_of_topics
from siltstone.metadata.commands import CommitCompaction
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.model.errors import Stale
from siltstone.model.limits import DELETE_BATCH_KEYS_MAX, JOB_LEASE_MS
from siltstone.model.objects import ObjectState
from siltstone.offline.blocks.columns import SourceUnusable
from siltstone.offline.context import MaintenanceContext

DEAD_OBJECTS = "dead-objects"
DESTROY_ATTEMPTS_MAX = 3
"""A commit is refused when another driver has destroyed an object of the batch. It is then tried without that object,
at most this often."""


class DeadObjects:
    """The kind of maintenance."""

    name = DEAD_OBJECTS

    def __init__(self, lease_ms: int = JOB_LEASE_MS) -> None:
        self._lease_ms = lease_ms

    @property
    def lease_ms(self) -> int:
        return self._lease_ms

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> Plan:
        image = context.metadata.refresh()
        dead, unplanned = _dead(image, scope)
        batches = [
            tuple(dead[first : first + DELETE_BATCH_KEYS_MAX])
            for first in range(0, len(dead), DELETE_BATCH_KEYS_MAX)
        ]
        return Plan(
            kind=DEAD_OBJECTS,
            units=tuple(_unit(batch) for batch in batches),
            unplanned=tuple(unplanned),
            work={_name(batch): batch for batch in batches},
        )

    def carry_out(self, plan: Plan, names: Sequence[str], attempt: Attempt) -> Iterator[UnitReport]:
        for done, name in enumerate(names):
            if not attempt.watch.may_begin():
                return
            attempt.watch.report("destroy", done, len(names))
            yield _destroyed(attempt.context, attempt.job_id, name, plan.work[name])


def _unit(batch: Sequence[ObjectMetadata]) -> PlannedUnit:
    return PlannedUnit(
        name=_name(batch),
        reason=f"{counted(len(batch), 'object')} with nothing live: {size_words(_size(batch))}",
        objects_before=len(batch),
    )


def _dead(image: MetadataImage, scope: Scope) -> tuple[list[ObjectMetadata], list[Unplanned]]:
    """Returns the dead objects by id; and the objects that contradict the image, each with the reason."""
    topics = names_of_topics(image, scope)
    dead: list[ObjectMetadata] = []
    unplanned: list[Unplanned] = []
    for metadata in image.objects.values():
        if metadata.state is not ObjectState.COMMITTED or not in_scope(metadata, topics, scope):
            continue
        try:
            if is_dead(metadata, image.streams):
                dead.append(metadata)
        except SourceUnusable as contradiction:
            unplanned.append(Unplanned(object_name(metadata.object_id), str(contradiction), True))
    return sorted(dead, key=lambda metadata: metadata.object_id), unplanned


def _destroyed(
    context: MaintenanceContext, job_id: int, name: str, batch: Sequence[ObjectMetadata]
) -> UnitReport:
    """Destroys those of the batch that other drivers have not destroyed meanwhile."""
    refusal: Stale | None = None
    for _ in range(DESTROY_ATTEMPTS_MAX):
        left = _still_dead(context.metadata.refresh(), batch)
        if not left:
            break
        ids = tuple(metadata.object_id for metadata in left)
        try:
            commit(context, CommitCompaction(job_id, ids))
        except Stale as refused:
            refusal = refused
            continue
        return UnitReport(
            name=name,
            outcome=Outcome.DONE,
            text=f"{counted(len(left), 'object')} destroyed, {size_words(_size(left))}",
            bytes_freed=_size(left),
            objects_before=len(left),
        )
    else:
        return UnitReport(name=name, outcome=Outcome.FAILED, text=str(refusal))
    return UnitReport(
        name=name, outcome=Outcome.NOT_NEEDED, text="other drivers have destroyed these objects"
    )


def _still_dead(image: MetadataImage, batch: Sequence[ObjectMetadata]) -> list[ObjectMetadata]:
    now = (committed_object(image, metadata.object_id) for metadata in batch)
    return [held for held in now if held is not None and is_dead(held, image.streams)]


def _name(batch: Sequence[ObjectMetadata]) -> str:
    first, last = batch[0].object_id, batch[-1].object_id
    return object_name(first) if first == last else f"objects {first} to {last}"


def _size(batch: Sequence[ObjectMetadata]) -> int:
    return sum(metadata.size_bytes for metadata in batch)
