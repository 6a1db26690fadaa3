"""The work of a sweep: it gives up prepared objects after their time limit, deletes destroyed ones after their grace
period, and aborts multipart uploads of objects that are not prepared any more.

An object is deleted only if no committed metadata names it (rule 6): its id is DESTROYED in an image just read, and an
id never leaves that state. A bucket that fails is skipped, with the reason, and so is an object that the bucket
refuses to delete; the next sweep tries again. Deleting is idempotent, so a sweep that is killed, or two at once, do
no harm.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from siltstone.foundation.sharded_map import by_shard
from siltstone.maintenance.context import MaintenanceContext, check_may_write, check_metadata_is_newest
from siltstone.metadata.commands import ExpireObjects, ForgetObjects
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import deletable_objects, expired_objects, grace_is_over
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import DELETE_BATCH_KEYS_MAX, GRACE_PERIOD_MS
from siltstone.model.objects import ObjectState, object_id_of_key, object_key
from siltstone.object_store.port import MultipartUpload, StoreDenied

log = logging.getLogger(__name__)

DENIED_OBJECTS_MAX = 20
"""When the store refused to delete this many objects and deleted none, the whole bucket is skipped until the next
sweep."""

EXPIRED_PER_COMMAND_MAX = 2_000
"""Keeps a log entry of the metadata small."""


class SweepReport(msgspec.Struct, frozen=True):
    """What a sweep did. ``objects_waiting`` counts destroyed objects whose grace period is not over. ``passed_over``
    names the buckets that failed, each with the reason."""

    objects_expired: int
    objects_deleted: int
    bytes_deleted: int
    delete_requests: int
    uploads_aborted: int
    objects_waiting: int
    passed_over: tuple[str, ...]


class _Deleted(msgspec.Struct):
    objects: int = 0
    size_bytes: int = 0
    requests: int = 0


def sweep(context: MaintenanceContext, grace_period_ms: int = GRACE_PERIOD_MS) -> SweepReport:
    """Does a whole sweep. Raises Unavailable when the metadata cannot be reached, and what
    ``check_metadata_is_newest`` raises."""
    check_metadata_is_newest(context)
    passed_over: dict[int, str] = {}
    expired = _expire(context)
    deleted = _delete_due(context, grace_period_ms, passed_over)
    aborted = _abort_forsaken_uploads(context, passed_over)
    return SweepReport(
        objects_expired=expired,
        objects_deleted=deleted.objects,
        bytes_deleted=deleted.size_bytes,
        delete_requests=deleted.requests,
        uploads_aborted=aborted,
        objects_waiting=_count_waiting(context, grace_period_ms),
        passed_over=tuple(f"bucket {bucket_id}: {reason}" for bucket_id, reason in passed_over.items()),
    )


def _expire(context: MaintenanceContext) -> int:
    """Gives up all objects that are due in one image, in several commands. Each command names its objects, so that
    200,000 prepared objects are looked at once, not once for each command, and it changes few shards of the image."""
    image = context.metadata.refresh()
    due = by_shard(expired_objects(image, context.clock.now_ms(), len(image.prepared)))
    return sum(
        len(context.metadata.execute(ExpireObjects(len(ids), ids)))
        for first in range(0, len(due), EXPIRED_PER_COMMAND_MAX)
        if (ids := tuple(due[first : first + EXPIRED_PER_COMMAND_MAX]))
    )


def _delete_due(context: MaintenanceContext, grace_period_ms: int, passed_over: dict[int, str]) -> _Deleted:
    """Deletes all objects that are due in one image. An id leaves the state DESTROYED only by being forgotten, so
    changes after the image was read do no harm, and 200,000 objects are looked at once, not once for each batch."""
    deleted = _Deleted()
    image = context.metadata.refresh()
    found = deletable_objects(image, context.clock.now_ms(), grace_period_ms, len(image.destroyed))
    due = [image.objects[object_id] for object_id in by_shard(each.object_id for each in found)]
    for bucket_id, objects in _by_bucket(due).items():
        for first in range(0, len(objects), DELETE_BATCH_KEYS_MAX):
            batch = objects[first : first + DELETE_BATCH_KEYS_MAX]
            deleting = _Deleting(context, bucket_id)
            deleting.begin(batch)
            if gone := deleting.gone:
                ids = tuple(metadata.object_id for metadata in gone)
                context.metadata.execute(ForgetObjects(ids, grace_period_ms))
            deleted.objects += len(gone)
            deleted.size_bytes += sum(metadata.size_bytes for metadata in gone)
            deleted.requests += deleting.requests
            if deleting.trouble is not None:
                _pass_over(bucket_id, deleting.trouble, passed_over)
            if deleting.is_over:
                break
    return deleted


def _count_waiting(context: MaintenanceContext, grace_period_ms: int) -> int:
    now_ms = context.clock.now_ms()
    destroyed = context.metadata.image.destroyed.values()
    return sum(not grace_is_over(destroyed_ms, now_ms, grace_period_ms) for destroyed_ms in destroyed)


def _by_bucket(objects: Iterable[ObjectMetadata]) -> dict[int, list[ObjectMetadata]]:
    grouped: defaultdict[int, list[ObjectMetadata]] = defaultdict(list)
    for metadata in objects:
        grouped[metadata.bucket_id].append(metadata)
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
    list was prepared before, so an upload that has just begun cannot look orphaned."""
    aborted = 0
    for bucket_id in context.buckets.urls:
        if bucket_id in passed_over:
            continue
        store = context.buckets.store(bucket_id)
        try:
            check_may_write(context, bucket_id)
            uploads = list(store.list_multipart())
        except SiltstoneError as trouble:
            _pass_over(bucket_id, trouble, passed_over)
            continue
        image = context.metadata.refresh()
        try:
            for upload in uploads:
                if is_forsaken(upload, image):
                    store.abort_multipart(upload)
                    aborted += 1
        except SiltstoneError as trouble:
            _pass_over(bucket_id, trouble, passed_over)
    return aborted


def is_forsaken(upload: MultipartUpload, image: MetadataImage) -> bool:
    """Whether no driver or node can complete the upload. The image must be newer than the list that has the upload."""
    object_id = object_id_of_key(upload.key)
    if object_id is None or object_id >= image.next_object_id:
        return False  # it belongs to another program, or to another store in the same bucket
    metadata = image.objects.get(object_id)
    return metadata is None or metadata.state is not ObjectState.PREPARED
