"""Carries out a repair plan. Each object is looked up once more, in the bucket and in an image just read (rule 6).

An id that was assigned and is no longer in the image is never assigned again, so an orphan cannot become an object in
use between that look-up and its deletion.
"""

from collections.abc import Iterator

import msgspec

from siltstone.carrying.pipeline.store_time import check_clock
from siltstone.maintenance.checking.findings import FindingKind
from siltstone.maintenance.checking.repair_plan import Action, Repair, RepairPlan
from siltstone.maintenance.checking.wal_check import wal_findings
from siltstone.maintenance.sweep.sweeping import is_forsaken
from siltstone.metadata.copies import WithdrawCopies
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.store_id import store_id_of
from siltstone.model.errors import SiltstoneError
from siltstone.model.objects import object_id_of_key
from siltstone.object_store.bucket_identity import marked_identity
from siltstone.object_store.port import ObjectNotFound, ObjectStore
from siltstone.offline.context import MaintenanceContext, check_may_write, check_metadata_is_newest
from siltstone.runtime.tasks import OnProgress

NO_LONGER = "is not there any more"
IN_USE = "kept: the metadata names it now"
CHANGED = "kept: it has changed since it was listed"
NO_COPY = "the object is gone, or has no other copy any more"
NOT_OURS = "kept: the bucket is not marked as this store's"


class Done(msgspec.Struct, frozen=True):
    """A repair that was tried. ``why_not`` is the reason why it was not done, empty when it was."""

    repair: Repair
    why_not: str = ""


class RepairReport(msgspec.Struct, frozen=True):
    results: tuple[Done, ...]

    @property
    def done(self) -> tuple[Repair, ...]:
        return tuple(each.repair for each in self.results if not each.why_not)

    @property
    def bytes_deleted(self) -> int:
        return sum(each.size_bytes for each in self.done)


def repair(
    context: MaintenanceContext, plan: RepairPlan, on_progress: OnProgress | None = None
) -> RepairReport:
    """Carries out the repairs one by one; a failure of a bucket is in the report. ``on_progress`` is called with
    (repairs tried, repairs in all). Raises Unavailable when the metadata cannot be reached, and what
    ``check_metadata_is_newest`` and ``check_clock`` raise."""
    check_metadata_is_newest(context)
    check_clock(context)
    results: list[Done] = []
    for each in plan.repairs:
        image = context.metadata.refresh()
        try:
            why_not = _carry_out(context, image, each)
        except SiltstoneError as trouble:
            why_not = str(trouble)
        results.append(Done(each, why_not))
        if on_progress is not None:
            on_progress(len(results), len(plan.repairs))
    return RepairReport(tuple(results))


def _carry_out(context: MaintenanceContext, image: MetadataImage, each: Repair) -> str:
    if each.action is Action.WITHDRAW_COPY:
        assert each.object_id is not None
        withdrawn = context.metadata.execute(WithdrawCopies((each.object_id,), each.bucket_id))
        return "" if withdrawn else NO_COPY
    check_may_write(context, each.bucket_id)
    store = context.buckets.store(each.bucket_id)
    if store_id_of(image) is not None and marked_identity(store) is None:
        return NOT_OURS
    if each.action is Action.ABORT_UPLOAD:
        return _abort(store, image, each)
    if each.action is Action.DELETE_PROBE:
        return _delete(store, each)
    is_litter = each.action is Action.DELETE_WAL_OBJECT
    if not (_is_litter(store, image, each) if is_litter else _is_orphan(image, each)):
        return IN_USE
    return _delete(store, each)


def _is_orphan(image: MetadataImage, each: Repair) -> bool:
    object_id = object_id_of_key(each.key)
    is_ours = object_id is not None and object_id == each.object_id and object_id < image.next_object_id
    return is_ours and object_id not in image.objects


def _is_litter(store: ObjectStore, image: MetadataImage, each: Repair) -> bool:
    """Returns whether a new listing of the node's life still shows the object as litter."""
    life = each.key.rpartition("/")[0] + "/"
    findings = wal_findings([*store.list(life)], each.bucket_id, image)
    return any((found.kind, found.key) == (FindingKind.WAL_LITTER, each.key) for found in findings)


def _delete(store: ObjectStore, each: Repair) -> str:
    try:
        found = store.head(each.key)
    except ObjectNotFound:
        return NO_LONGER
    if (found.size_bytes, found.modified_ms) != (each.size_bytes, each.modified_ms):
        return CHANGED
    store.delete([each.key])
    return ""


def _abort(store: ObjectStore, image: MetadataImage, each: Repair) -> str:
    """Aborts the uploads of a key, whose id was no longer prepared when the plan was made and is never prepared
    again."""
    uploads = [upload for upload in store.list_multipart() if upload.key == each.key]
    if not uploads:
        return NO_LONGER
    if not all(is_forsaken(upload, image) for upload in uploads):
        return IN_USE
    for upload in uploads:
        store.abort_multipart(upload)
    return ""


def unrepaired(report: RepairReport) -> Iterator[str]:
    """Yields a line for each repair that was planned and not done."""
    for each in report.results:
        if each.why_not:
            yield f"{each.repair.key}: {each.why_not}"
