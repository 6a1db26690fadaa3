"""Compares the listing of a bucket with the metadata: it finds objects and uploads that the metadata does not name.

The bucket is listed before the image is read. Every object in the list was prepared before, so an object that was just
uploaded cannot look like an orphan. An orphan is looked up once more, since it may have been deleted after the listing.

A listing may be wrong: stores have returned part of a list, or an empty one, as the whole. A program that trusts such a
list deletes objects that are in use (BookKeeper #870). So every object that was committed before and after the listing
has to be in it; a listing that omits one is reported as doubtful, and nothing is repaired.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from siltstone.maintenance.checking.findings import Finding, FindingKind
from siltstone.maintenance.checking.wal_check import wal_findings
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.metadata.sinks import STAGING_PREFIX
from siltstone.metadata.store_id import claimed_url, store_id_of
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import ObjectState, object_id_of_key, object_key
from siltstone.object_formats.identity import DamagedIdentity
from siltstone.object_formats.wal_object import wal_object_name
from siltstone.object_store.bucket_identity import MARKER_KEY, marked_identity
from siltstone.object_store.health import PROBE_PREFIX
from siltstone.object_store.keys import InvalidKey
from siltstone.object_store.metadata_mark import contradicts, mark_of_key
from siltstone.object_store.port import MultipartUpload, ObjectNotFound, ObjectStore, ObjectSummary
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.erasures import erasure_id_of_key

PROBE_LEFT_MS_MIN = HOUR_MS
"""A probe takes a moment, and the next one in the same bucket deletes what is older than ten minutes."""

LOOKED_UP_MAX = 10
"""At most this many objects that a list omits are looked up; one that exists proves the list wrong."""


def doubts_of(
    summaries: Sequence[ObjectSummary],
    bucket_id: int,
    before: MetadataImage | None,
    after: MetadataImage,
    store: ObjectStore,
) -> Iterator[Finding]:
    """Yields at most one finding, LISTING_DOUBTFUL. Without an image from before the listing, only order, sizes and
    times are checked. An object that is missing from the list and from the bucket is no doubt about the list:
    ``object_check`` reports it. Raises what the store raises."""
    if any(first.key >= second.key for first, second in pairwise(summaries)):
        yield _doubt(bucket_id, "is not in the order of its keys, or repeats some")
        return
    if any(summary.size_bytes < 0 or summary.modified_ms < 0 for summary in summaries):
        yield _doubt(bucket_id, "has negative sizes or times")
        return
    if before is None:
        return
    listed = {summary.key for summary in summaries}
    for key in islice(_missing(listed, bucket_id, before, after), LOOKED_UP_MAX):
        if _is_there(store, key):
            yield _doubt(
                bucket_id, f"omits {key}, which is in the bucket: the list is incomplete or out of date"
            )
            return


def _missing(listed: set[str], bucket_id: int, before: MetadataImage, after: MetadataImage) -> Iterator[str]:
    for metadata in before.objects.values():
        if metadata.state is ObjectState.COMMITTED and bucket_id in metadata.bucket_ids:
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
        f"the listing of bucket {bucket_id} {text}; no object is deleted because of it",
        bucket_id=bucket_id,
    )


def check_bucket(
    context: MaintenanceContext, bucket_id: int, before: MetadataImage | None = None
) -> list[Finding]:
    """Checks one bucket. ``before`` is an image read before this call: the objects that are committed in it, and
    still are after the listing, have to be listed. A bucket that fails becomes a finding. Raises Unavailable when the
    metadata cannot be reached."""
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
            *_judge_objects(summaries, bucket_id, image, store, context.now_ms()),
            *_judge_marks(summaries, bucket_id, context.metadata, image),
            *_judge_uploads(uploads, bucket_id, image, store),
        ]
    except SiltstoneError as trouble:
        return [_unreachable(bucket_id, trouble)]


def _judge_objects(
    summaries: Sequence[ObjectSummary], bucket_id: int, image: MetadataImage, store: ObjectStore, now_ms: int
) -> Iterator[Finding]:
    if claimed_url(image, bucket_id) is not None and all(each.key != MARKER_KEY for each in summaries):
        yield _of_marker(
            bucket_id,
            f"bucket {bucket_id} has no {MARKER_KEY}, which {claimed_url(image, bucket_id)} had: the settings name "
            "another bucket, or the bucket was emptied",
        )
    for summary in summaries:
        if summary.key == MARKER_KEY:
            yield from _judge_marker(store, bucket_id, image)
        elif mark_of_key(summary.key) is not None or wal_object_name(summary.key) is not None:
            continue
        elif erasure_id_of_key(summary.key) is not None:
            continue  # the list of erasures, for a restore from an older backup
        elif (finding := _judge_object(summary, bucket_id, image, now_ms)) and _still_there(
            store, summary.key
        ):
            yield finding
    for finding in wal_findings(summaries, bucket_id, image):
        if _still_there(store, finding.key or ""):
            yield finding


def _judge_marker(store: ObjectStore, bucket_id: int, image: MetadataImage) -> Iterator[Finding]:
    try:
        marked = marked_identity(store)
    except DamagedIdentity as damage:
        yield _of_marker(bucket_id, f"bucket {bucket_id}: {damage}")
        return
    marked_id = None if marked is None else marked.store_id
    if marked_id != store_id_of(image):
        yield _of_marker(
            bucket_id,
            f"bucket {bucket_id} belongs to store {marked_id}, this is store {store_id_of(image)}: "
            "the settings name the wrong bucket, or the metadata is another store's",
        )
    elif marked is not None and marked.bucket_id not in (None, bucket_id):
        yield Finding(
            FindingKind.BUCKET_MISMATCH,
            f"{store.url} is bucket {marked.bucket_id} of this store, and is used as bucket {bucket_id}: two URLs were "
            "swapped, or lead to one place",
            key=MARKER_KEY,
            bucket_id=bucket_id,
        )


def _judge_marks(
    summaries: Sequence[ObjectSummary], bucket_id: int, metadata: MetadataClient, image: MetadataImage
) -> Iterator[Finding]:
    """Judges the marks in the listing. The image was read after the listing, so the current metadata is at the version
    of each listed mark, or later."""
    for key, mark in ((each.key, mark_of_key(each.key)) for each in summaries):
        if mark is None:
            continue
        if mark.version > image.version:
            evidence = f"version {mark.version} of the metadata, this is version {image.version}"
        elif contradicts(mark, metadata.append_id_at(mark.version)):
            evidence = f"entry {mark.version} of the metadata log as append {mark.append_id}, this log has another one"
        else:
            continue
        yield Finding(
            FindingKind.METADATA_OLDER,
            f"bucket {bucket_id} was written to with {evidence}: the metadata is an older copy, or continued from one. "
            "Restore the newest copy; until then nothing is written or deleted",
            key=key,
            bucket_id=bucket_id,
        )


def _of_marker(bucket_id: int, text: str) -> Finding:
    return Finding(FindingKind.BUCKET_OF_ANOTHER_STORE, text, key=MARKER_KEY, bucket_id=bucket_id)


def _judge_object(
    summary: ObjectSummary, bucket_id: int, image: MetadataImage, now_ms: int
) -> Finding | None:
    """Returns the finding about a listed object; None when a committed object of this bucket has the key."""
    object_id = _own_id(summary.key, image)
    if object_id is None:
        return _judge_other(summary, bucket_id, now_ms)
    metadata = image.objects.get(object_id)
    if metadata is None or bucket_id not in metadata.every_bucket_id:
        return _finding(FindingKind.ORPHAN_OBJECT, summary, bucket_id, object_id, "is named by no metadata")
    if metadata.state is ObjectState.PREPARED:
        text = "is uploaded, not committed yet"
        return _finding(FindingKind.OBJECT_PREPARED, summary, bucket_id, object_id, text)
    if metadata.state is ObjectState.DESTROYED:
        text = "waits for the end of its grace period, or of the scans that hold it"
        return _finding(FindingKind.OBJECT_AWAITS_DELETION, summary, bucket_id, object_id, text)
    return None


def _judge_other(summary: ObjectSummary, bucket_id: int, now_ms: int) -> Finding | None:
    """Returns the finding about what is no data object of this store."""
    if summary.key.startswith(STAGING_PREFIX):
        return None  # a sink's, which the sweep deletes when no batch needs it
    if not summary.key.startswith(PROBE_PREFIX):
        return _finding(FindingKind.FOREIGN_KEY, summary, bucket_id, None, "was not written by this store")
    if summary.modified_ms >= now_ms - PROBE_LEFT_MS_MIN:
        return None
    text = "was left behind by a process that tried the bucket"
    return _finding(FindingKind.PROBE_LEFT, summary, bucket_id, None, text)


def _judge_uploads(
    uploads: Sequence[MultipartUpload], bucket_id: int, image: MetadataImage, store: ObjectStore
) -> list[Finding]:
    """Lists the uploads once more when some look orphaned: an upload that is gone by then was completed or aborted."""
    findings = {upload: _judge_upload(upload, bucket_id, image) for upload in uploads}
    if any(finding.kind is FindingKind.ORPHAN_UPLOAD for finding in findings.values()):
        left = set(store.list_multipart())
        return [finding for upload, finding in findings.items() if upload in left]
    return list(findings.values())


def _judge_upload(upload: MultipartUpload, bucket_id: int, image: MetadataImage) -> Finding:
    object_id = _own_id(upload.key, image)
    if object_id is None:
        text = "has a multipart upload that is not this store's"
        return _of_upload(FindingKind.FOREIGN_KEY, upload, bucket_id, None, text)
    metadata = image.objects.get(object_id)
    if metadata is not None and metadata.state is ObjectState.PREPARED:
        text = "has a multipart upload under way"
        return _of_upload(FindingKind.UPLOAD_UNDER_WAY, upload, bucket_id, object_id, text)
    text = "has a multipart upload that will never be completed"
    return _of_upload(FindingKind.ORPHAN_UPLOAD, upload, bucket_id, object_id, text)


def _own_id(key: str, image: MetadataImage) -> int | None:
    """Returns the object id in a key; None when the key is another program's, or when this store has never assigned the
    id."""
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
    except InvalidKey:  # another program's key that this store could not have made; it was listed
        return True
    return True
