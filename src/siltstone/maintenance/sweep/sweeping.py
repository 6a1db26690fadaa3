"""Does the work of a sweep: ends scan pins past their lease, destroys prepared objects after their time limit, deletes
destroyed objects after their grace period, and aborts multipart uploads of objects that are no longer prepared.

An object is deleted only if no committed metadata names it (rule 6): its id is DESTROYED in an image just read, and an
id never leaves that state. Nor may a scan pin hold it. Overdue pins are ended by records first, then the image is read;
a pin that is put later holds no object that is destroyed in this image. A bucket that fails is skipped, with the
reason, and so is an object that the bucket refuses to delete; the next sweep tries again. Deleting is idempotent, so a
sweep that is killed, or two at once, do no harm.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from siltstone.carrying.pipeline.store_time import check_clock
from siltstone.foundation.sharded_map import by_shard
from siltstone.maintenance.sweep.pinned import pinned_objects
from siltstone.metadata.commands import ExpireObjects, ForgetObjects, UnpinScan
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import deletable_objects, expired_objects, grace_is_over, overdue_pins
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import DELETE_BATCH_KEYS_MAX, GRACE_PERIOD_MS
from siltstone.model.objects import ObjectState, object_id_of_key, object_key
from siltstone.object_store.port import MultipartUpload, StoreDenied
from siltstone.offline.context import (
    MaintenanceContext,
    check_may_write,
    check_metadata_is_newest,
    refuse_bucket_of_another_store,
)
from siltstone.sinking.staged_sweep import has_sinks, sweep_staged

log = logging.getLogger(__name__)

DENIED_OBJECTS_MAX = 20
"""When the store refused to delete this many objects and deleted none, the whole bucket is skipped until the next
sweep."""

EXPIRED_PER_COMMAND_MAX = 2_000
"""The limit keeps a log entry of the metadata small."""


class SweepReport(msgspec.Struct, frozen=True):
    """The result of a sweep. ``objects_waiting`` counts destroyed objects whose grace period is not over.
    ``passed_over`` names the buckets that failed, each with the reason. ``objects_pinned`` and ``bytes_pinned``:
    objects past their grace period that scan pins hold; ``pins_ended``: pins whose lease was over; ``staged_deleted``:
    objects that sinks had staged and no batch needs."""

    objects_expired: int
    objects_deleted: int
    bytes_deleted: int
    delete_requests: int
    uploads_aborted: int
    objects_waiting: int
    passed_over: tuple[str, ...]
    objects_pinned: int = 0
    bytes_pinned: int = 0
    pins_ended: int = 0
    staged_deleted: int = 0


class _Deleted(msgspec.Struct):
    objects: int = 0
    size_bytes: int = 0
    requests: int = 0


def sweep(context: MaintenanceContext, grace_period_ms: int = GRACE_PERIOD_MS) -> SweepReport:
    """Does a whole sweep. Raises Unavailable when the metadata cannot be reached, and what
    ``check_metadata_is_newest`` and ``check_clock`` raise."""
    check_metadata_is_newest(context)
    check_clock(context)
    return sweep_checked(context, grace_period_ms)


def sweep_checked(context: MaintenanceContext, grace_period_ms: int) -> SweepReport:
    """Does a whole sweep, just after the caller has called ``check_metadata_is_newest``. Before each batch is deleted,
    the bucket is checked once more. Raises Unavailable when the metadata cannot be reached."""
    passed_over: dict[int, str] = {}
    pins_ended = _end_overdue_pins(context)
    expired = _expire(context)
    deleted = _delete_due(context, grace_period_ms, passed_over)
    aborted = _abort_forsaken_uploads(context, passed_over)
    staged = _delete_staged(context, passed_over)
    image, now_ms = context.metadata.image, context.now_ms()
    pinned = pinned_objects(image, now_ms, grace_period_ms)
    return SweepReport(
        objects_expired=expired,
        objects_deleted=deleted.objects,
        bytes_deleted=deleted.size_bytes,
        delete_requests=deleted.requests,
        uploads_aborted=aborted,
        objects_waiting=count_in_grace(image, now_ms, grace_period_ms),
        passed_over=tuple(f"bucket {bucket_id}: {reason}" for bucket_id, reason in passed_over.items()),
        objects_pinned=len(pinned),
        bytes_pinned=sum(metadata.size_bytes for metadata in pinned),
        pins_ended=pins_ended,
        staged_deleted=staged,
    )


def _end_overdue_pins(context: MaintenanceContext) -> int:
    """Ends the pins whose lease is over, and returns their number. A pin that was renewed since the image was read
    remains."""
    tokens = overdue_pins(context.metadata.refresh(), context.now_ms())
    if not tokens:
        return 0
    ended = context.metadata.execute_all([UnpinScan(token, overdue_only=True) for token in tokens])
    return sum(each is True for each in ended)


def _expire(context: MaintenanceContext) -> int:
    """Destroys all prepared objects that are due in one image, in several commands. Each command names its objects, so
    that 200,000 prepared objects are looked at once, not once for each command, and it changes few shards of the
    image."""
    image = context.metadata.refresh()
    due = by_shard(expired_objects(image, context.now_ms(), len(image.prepared)))
    return sum(
        len(context.metadata.execute(ExpireObjects(len(ids), ids)))
        for first in range(0, len(due), EXPIRED_PER_COMMAND_MAX)
        if (ids := tuple(due[first : first + EXPIRED_PER_COMMAND_MAX]))
    )


def _delete_due(context: MaintenanceContext, grace_period_ms: int, passed_over: dict[int, str]) -> _Deleted:
    """Deletes all objects that are due in one image. An id leaves the state DESTROYED only by being forgotten, so
    changes after the image was read do no harm, and 200,000 objects are looked at once, not once for each batch.

    An object is forgotten with the batch that deletes the last of its copies. If a bucket fails, its objects stay
    DESTROYED until a later sweep, which deletes their other copies once more (B14)."""
    deleted = _Deleted()
    image = context.metadata.refresh()
    found = deletable_objects(image, context.now_ms(), grace_period_ms, len(image.destroyed))
    due = [image.objects[object_id] for object_id in by_shard(each.object_id for each in found)]
    copies_left = Counter({each.object_id: len(each.every_bucket_id) for each in due})
    for bucket_id, objects in _by_bucket(due).items():
        for first in range(0, len(objects), DELETE_BATCH_KEYS_MAX):
            batch = objects[first : first + DELETE_BATCH_KEYS_MAX]
            deleting = _Deleting(context, bucket_id)
            deleting.begin(batch)
            copies_left.subtract(each.object_id for each in deleting.gone)
            gone = [each for each in deleting.gone if not copies_left[each.object_id]]
            if gone:
                ids = tuple(metadata.object_id for metadata in gone)
                context.metadata.execute(ForgetObjects(ids, grace_period_ms))
            deleted.objects += len(gone)
            deleted.size_bytes += sum(metadata.size_bytes for metadata in deleting.gone)
            deleted.requests += deleting.requests
            if deleting.trouble is not None:
                _pass_over(bucket_id, deleting.trouble, passed_over)
            if deleting.is_over:
                break
    return deleted


def count_in_grace(image: MetadataImage, now_ms: int, grace_period_ms: int) -> int:
    """Returns how many destroyed objects are still in their grace period."""
    destroyed = image.destroyed.values()
    return sum(not grace_is_over(destroyed_ms, now_ms, grace_period_ms) for destroyed_ms in destroyed)


def _by_bucket(objects: Iterable[ObjectMetadata]) -> dict[int, list[ObjectMetadata]]:
    """Returns the objects of each bucket; an object that has, or may have, copies is in several."""
    grouped: defaultdict[int, list[ObjectMetadata]] = defaultdict(list)
    for metadata in objects:
        for bucket_id in metadata.every_bucket_id:
            grouped[bucket_id].append(metadata)
    return grouped


class _Deleting:
    """Deletes one batch. When the store denies it, the batch is halved until the denied objects are found: one object
    with a lock or other permissions must not keep the others from being deleted. ``is_over`` says that the whole
    bucket has to wait for the next sweep."""

    def __init__(self, context: MaintenanceContext, bucket_id: int) -> None:
        self._context = context
        self._bucket_id = bucket_id
        self._denied = 0
        self.gone: list[ObjectMetadata] = []
        self.requests = 0
        self.trouble: SiltstoneError | None = None
        self.is_over = False

    def begin(self, objects: Sequence[ObjectMetadata]) -> None:
        try:
            check_may_write(self._context, self._bucket_id)
        except SiltstoneError as trouble:
            self.trouble, self.is_over = trouble, True
        self._delete(objects)

    def _delete(self, objects: Sequence[ObjectMetadata]) -> None:
        if self.is_over:
            return
        assert all(metadata.state is ObjectState.DESTROYED for metadata in objects)
        try:
            store = self._context.buckets.store(self._bucket_id)
            store.delete([object_key(metadata.object_id) for metadata in objects])
        except StoreDenied as trouble:
            self._separate(objects, trouble)
        except SiltstoneError as trouble:
            self.trouble, self.is_over = trouble, True
        else:
            self.gone += objects
            self.requests += 1

    def _separate(self, objects: Sequence[ObjectMetadata], trouble: StoreDenied) -> None:
        if len(objects) > 1:
            middle = len(objects) // 2
            self._delete(objects[:middle])
            self._delete(objects[middle:])
            return
        self.trouble = trouble
        self._denied += 1
        self.is_over = self._denied >= DENIED_OBJECTS_MAX and not self.gone


def _pass_over(bucket_id: int, trouble: SiltstoneError, passed_over: dict[int, str]) -> None:
    """Notes that a bucket failed. An error of the metadata is not noted: it ends the sweep."""
    log.warning("the sweep skips bucket %d until the next time: %s", bucket_id, trouble)
    passed_over[bucket_id] = str(trouble)


def _abort_forsaken_uploads(context: MaintenanceContext, passed_over: dict[int, str]) -> int:
    """Aborts the uploads of ids that are not prepared any more. The list is read before the image: an upload in the
    list was prepared before, so an upload that has just started cannot look orphaned."""
    aborted = 0
    for bucket_id in context.buckets.urls:
        if bucket_id in passed_over:
            continue
        store = context.buckets.store(bucket_id)
        try:
            refuse_bucket_of_another_store(context, bucket_id)
            uploads = list(store.list_multipart())
        except SiltstoneError as trouble:
            _pass_over(bucket_id, trouble, passed_over)
            continue
        image = context.metadata.refresh()
        forsaken = [upload for upload in uploads if is_forsaken(upload, image)]
        try:
            if forsaken:
                check_may_write(context, bucket_id)
            for upload in forsaken:
                store.abort_multipart(upload)
                aborted += 1
        except SiltstoneError as trouble:
            _pass_over(bucket_id, trouble, passed_over)
    return aborted


def _delete_staged(context: MaintenanceContext, passed_over: dict[int, str]) -> int:
    """Deletes objects that batches of sinks have staged and no longer need."""
    deleted = 0
    for bucket_id in context.buckets.urls if has_sinks(context) else ():
        if bucket_id in passed_over:
            continue
        try:
            deleted += sweep_staged(context, bucket_id).objects
        except SiltstoneError as trouble:
            _pass_over(bucket_id, trouble, passed_over)
    return deleted


def is_forsaken(upload: MultipartUpload, image: MetadataImage) -> bool:
    """Returns whether no driver or node can complete the upload any more. The image must be newer than the list that
    has the upload."""
    object_id = object_id_of_key(upload.key)
    if object_id is None or object_id >= image.next_object_id:
        return False  # the upload belongs to another program, or to another store in the same bucket
    metadata = image.objects.get(object_id)
    return metadata is None or metadata.state is not ObjectState.PREPARED
