"""What lies in a bucket that no committed metadata names.

The bucket is listed before the image is read: what is in the list was prepared before, so an object just uploaded
cannot look like an orphan. What was swept in between is looked up once more.
"""

from collections.abc import Iterator

from siltstone.maintenance.checking.findings import Finding, FindingKind
from siltstone.maintenance.context import MaintenanceContext
from siltstone.metadata.image import MetadataImage
from siltstone.model.objects import ObjectState, object_id_of_key
from siltstone.object_store.port import MultipartUpload, ObjectNotFound, ObjectStore, ObjectSummary


def check_bucket(context: MaintenanceContext, bucket_id: int) -> Iterator[Finding]:
    store = context.buckets.store(bucket_id)
    summaries = list(store.list())
    uploads = list(store.list_multipart())
    image = context.metadata.refresh()
    for summary in summaries:
        if (finding := _judge_object(summary, bucket_id, image)) and _still_there(store, summary.key):
            yield finding
    for upload in uploads:
        yield _judge_upload(upload, image)


def _judge_object(summary: ObjectSummary, bucket_id: int, image: MetadataImage) -> Finding | None:
    """None for an object that is where it belongs."""
    object_id = object_id_of_key(summary.key)
    if object_id is None or object_id >= image.next_object_id:
        return _finding(FindingKind.FOREIGN_KEY, summary, object_id, "was not written by this store")
    metadata = image.objects.get(object_id)
    if metadata is None or metadata.bucket_id != bucket_id:
        return _finding(FindingKind.ORPHAN_OBJECT, summary, object_id, "is named by nobody")
    if metadata.state is ObjectState.PREPARED:
        return _finding(FindingKind.OBJECT_PREPARED, summary, object_id, "is uploaded, not committed yet")
    if metadata.state is ObjectState.DESTROYED:
        return _finding(
            FindingKind.OBJECT_AWAITS_DELETION, summary, object_id, "waits for the end of its grace period"
        )
    return None


def _judge_upload(upload: MultipartUpload, image: MetadataImage) -> Finding:
    object_id = object_id_of_key(upload.key)
    metadata = image.objects.get(object_id) if object_id is not None else None
    if metadata is not None and metadata.state is ObjectState.PREPARED:
        kind, text = FindingKind.UPLOAD_UNDER_WAY, "is being uploaded in parts"
    else:
        kind, text = FindingKind.ORPHAN_UPLOAD, "has an upload in parts that nobody will complete"
    return Finding(kind, f"{upload.key} {text}", object_id=object_id, key=upload.key)


def _finding(kind: FindingKind, summary: ObjectSummary, object_id: int | None, text: str) -> Finding:
    return Finding(
        kind,
        f"{summary.key} ({summary.size_bytes} bytes) {text}",
        object_id=object_id,
        key=summary.key,
        size_bytes=summary.size_bytes,
    )


def _still_there(store: ObjectStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFound:
        return False
    return True
