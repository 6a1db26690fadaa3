"""Whether the listing of a bucket is to be believed.

Stores have answered with part of a list, or none of it, and called that all. Who deletes what a list does not have, or
what only a list has, loses data by it (BookKeeper #870). So a listing is held against what is known: every object that
is committed before and after has to be in it.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from siltstone.maintenance.checking.findings import Finding, FindingKind
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.model.objects import ObjectState, object_key
from siltstone.object_store.port import ObjectNotFound, ObjectStore, ObjectSummary

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
