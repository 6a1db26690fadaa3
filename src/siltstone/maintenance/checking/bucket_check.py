"""What lies in a bucket that no committed metadata names.

The bucket is listed before the image is read: what is in the list was prepared before, so an object just uploaded
cannot look like an orphan. What ended in between, swept or committed, is looked up once more.

A listing is doubtful (``listing``) when it leaves out what is there. Nothing is deleted by such a one.

Whether the listing of a bucket is to be believed.

Stores have answered with part of a list, or none of it, and called that all. Who deletes what a list does not have, or
what only a list has, loses data by it (BookKeeper #870). So a listing is held against what is known: every object that
is committed before and after has to be in it.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from siltstone.maintenance.checking.findings import Finding, FindingKind
from siltstone.maintenance.context import MaintenanceContext
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.metadata.store_id import store_id_of
from siltstone.model.errors import SiltstoneError
from siltstone.model.objects import ObjectState, object_id_of_key, object_key
from siltstone.object_formats.identity import DamagedIdentity
from siltstone.object_store.bucket_identity import MARKER_KEY, marked_store_id
from siltstone.object_store.keys import InvalidKey
from siltstone.object_store.port import MultipartUpload, ObjectNotFound, ObjectStore, ObjectSummary

LOOKED_UP_MAX = 10
"""Objects missing from a list that are looked up: one of them that is there is enough."""


def doubts_of(
    summaries: Sequence[ObjectSummary],
    bucket_id: int,
    before: MetadataImage | None,
    after: MetadataImage,
    store: ObjectStore,
) -> Iterator[Finding]:
    """At most one. Without an image from before, only whether it is in order. What is missing from the list and from
    the bucket is no doubt about the list: ``object_check`` finds it. Raises what the store does."""
    if any(first.key >= second.key for first, second in pairwise(summaries)):
        yield _doubt(bucket_id, "is not in the order of its keys, or repeats some")
        return
    if any(summary.size_bytes < 0 or summary.modified_ms < 0 for summary in summaries):
        yield _doubt(bucket_id, "has sizes or times below nothing")
        return
    if before is None:
        return
    listed = {summary.key for summary in summaries}
    for key in islice(_missing(listed, bucket_id, before, after), LOOKED_UP_MAX):
        if _is_there(store, key):
            yield _doubt(bucket_id, f"leaves out {key}, which is there: it is cut short, or not up to date")
            return


def _missing(listed: set[str], bucket_id: int, before: MetadataImage, after: MetadataImage) -> Iterator[str]:
    for metadata in before.objects.values():
        if metadata.state is ObjectState.COMMITTED and metadata.bucket_id == bucket_id:
            key = object_key(metadata.object_id)
            if committed_object(after, metadata.object_id) is not None and key not in listed:
                yield key


def _is_there(store: ObjectStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFound:
        return False
    return True


def _doubt(bucket_id: int, text: str) -> Finding:
    return Finding(
        FindingKind.LISTING_DOUBTFUL,
        f"the listing of bucket {bucket_id} {text}; nothing is deleted by it",
        bucket_id=bucket_id,
    )


def check_bucket(
    context: MaintenanceContext, bucket_id: int, before: MetadataImage | None = None
) -> list[Finding]:
    """``before``: an image from before this call; what it names, and the one after too, has to be listed. A bucket that
    fails is a finding; metadata that cannot be reached is raised."""
    store = context.buckets.store(bucket_id)
    try:
        summaries = list(store.list())
        uploads = list(store.list_multipart())
    except SiltstoneError as trouble:
        return [_unreachable(bucket_id, trouble)]
    image = context.metadata.refresh()
    try:
        return [
            *doubts_of(summaries, bucket_id, before, image, store),
            *_judge_objects(summaries, bucket_id, image, store),
            *_judge_uploads(uploads, bucket_id, image, store),
        ]
    except SiltstoneError as trouble:
        return [_unreachable(bucket_id, trouble)]


def _judge_objects(
    summaries: Sequence[ObjectSummary], bucket_id: int, image: MetadataImage, store: ObjectStore
) -> Iterator[Finding]:
    for summary in summaries:
        if summary.key == MARKER_KEY:
            yield from _judge_marker(store, bucket_id, image)
        elif (finding := _judge_object(summary, bucket_id, image)) and _still_there(store, summary.key):
            yield finding


def _judge_marker(store: ObjectStore, bucket_id: int, image: MetadataImage) -> Iterator[Finding]:
    try:
        marked = marked_store_id(store)
    except DamagedIdentity as damage:
        yield _of_marker(bucket_id, f"bucket {bucket_id}: {damage}")
        return
    if marked != store_id_of(image):
        yield _of_marker(
            bucket_id,
            f"bucket {bucket_id} belongs to store {marked}, this is store {store_id_of(image)}: "
            "the settings name the wrong bucket, or the metadata is another store's",
        )


def _of_marker(bucket_id: int, text: str) -> Finding:
    return Finding(FindingKind.BUCKET_OF_ANOTHER_STORE, text, key=MARKER_KEY, bucket_id=bucket_id)


def _judge_object(summary: ObjectSummary, bucket_id: int, image: MetadataImage) -> Finding | None:
    """None for an object that is where it belongs."""
    object_id = _own_id(summary.key, image)
    if object_id is None:
        return _finding(FindingKind.FOREIGN_KEY, summary, bucket_id, None, "was not written by this store")
    metadata = image.objects.get(object_id)
    if metadata is None or metadata.bucket_id != bucket_id:
        return _finding(FindingKind.ORPHAN_OBJECT, summary, bucket_id, object_id, "is named by nobody")
    if metadata.state is ObjectState.PREPARED:
        text = "is uploaded, not committed yet"
        return _finding(FindingKind.OBJECT_PREPARED, summary, bucket_id, object_id, text)
    if metadata.state is ObjectState.DESTROYED:
        text = "waits for the end of its grace period"
        return _finding(FindingKind.OBJECT_AWAITS_DELETION, summary, bucket_id, object_id, text)
    return None


def _judge_uploads(
    uploads: Sequence[MultipartUpload], bucket_id: int, image: MetadataImage, store: ObjectStore
) -> list[Finding]:
    """An upload is completed before its object is committed: one that only the first list has was no orphan."""
    findings = {upload: _judge_upload(upload, bucket_id, image) for upload in uploads}
    if any(finding.kind is FindingKind.ORPHAN_UPLOAD for finding in findings.values()):
        left = set(store.list_multipart())
        return [finding for upload, finding in findings.items() if upload in left]
    return list(findings.values())


def _judge_upload(upload: MultipartUpload, bucket_id: int, image: MetadataImage) -> Finding:
    object_id = _own_id(upload.key, image)
    if object_id is None:
        text = "has an upload in parts that is not this store's"
        return _of_upload(FindingKind.FOREIGN_KEY, upload, bucket_id, None, text)
    metadata = image.objects.get(object_id)
    if metadata is not None and metadata.state is ObjectState.PREPARED:
        text = "is being uploaded in parts"
        return _of_upload(FindingKind.UPLOAD_UNDER_WAY, upload, bucket_id, object_id, text)
    text = "has an upload in parts that nobody will complete"
    return _of_upload(FindingKind.ORPHAN_UPLOAD, upload, bucket_id, object_id, text)


def _own_id(key: str, image: MetadataImage) -> int | None:
    """None when the key is another program's, or its id was never given out here."""
    object_id = object_id_of_key(key)
    return object_id if object_id is not None and object_id < image.next_object_id else None


def _finding(
    kind: FindingKind, summary: ObjectSummary, bucket_id: int, object_id: int | None, text: str
) -> Finding:
    return Finding(
        kind,
        f"{summary.key} ({summary.size_bytes} bytes) {text}",
        object_id=object_id,
        key=summary.key,
        size_bytes=summary.size_bytes,
        bucket_id=bucket_id,
        modified_ms=summary.modified_ms,
    )


def _of_upload(
    kind: FindingKind, upload: MultipartUpload, bucket_id: int, object_id: int | None, text: str
) -> Finding:
    return Finding(kind, f"{upload.key} {text}", object_id=object_id, key=upload.key, bucket_id=bucket_id)


def _unreachable(bucket_id: int, trouble: SiltstoneError) -> Finding:
    text = f"bucket {bucket_id} cannot be listed: {trouble}"
    return Finding(FindingKind.STORE_UNREACHABLE, text, bucket_id=bucket_id)


def _still_there(store: ObjectStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFound:
        return False
    except InvalidKey:  # another program's, which we would not even name; it was listed
        return True
    return True
