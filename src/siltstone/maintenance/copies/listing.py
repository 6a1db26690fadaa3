"""Compares the listing of a bucket with the image: it finds copies that the image counts and the bucket does not have,
or has with another size.

The image is read before and after the listing, and what looks missing is looked up by itself, because a listing may be
wrong. A copy is taken out of the metadata only if its object is in another bucket, too; a missing object without
another copy is left to ``siltstone check``.
"""

from collections.abc import Iterator
from itertools import islice

from siltstone.metadata.copies import WithdrawCopies
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.lookup import committed_object
from siltstone.model.objects import object_id_of_key, object_key
from siltstone.object_store.port import ObjectNotFound, ObjectStore
from siltstone.offline.context import MaintenanceContext

WITHDRAWN_AT_ONCE = 1_000
"""Keeps a log entry of the metadata small."""


def withdraw_missing(context: MaintenanceContext, bucket_id: int) -> list[int]:
    """Lists the bucket, and takes copies that are missing there, or have another size, out of the metadata. Returns the
    ids of their objects. Raises what the bucket and the metadata raise."""
    before = context.metadata.refresh()
    store = context.buckets.store(bucket_id)
    sizes = {
        object_id: summary.size_bytes
        for summary in store.list()
        if (object_id := object_id_of_key(summary.key)) is not None
    }
    after = context.metadata.refresh()
    suspects = (
        metadata
        for object_id in before.objects
        if (metadata := committed_object(after, object_id)) is not None
        and _counts(before.objects[object_id], bucket_id)
        and _counts(metadata, bucket_id)
        and sizes.get(object_id) != metadata.size_bytes
        and not _is_there(store, metadata)
    )
    withdrawn: list[int] = []
    for batch in _batches(each.object_id for each in suspects):
        done: tuple[int, ...] = context.metadata.execute(WithdrawCopies(batch, bucket_id))
        withdrawn += done
    return withdrawn


def _batches(object_ids: Iterator[int]) -> Iterator[tuple[int, ...]]:
    while batch := tuple(islice(object_ids, WITHDRAWN_AT_ONCE)):
        yield batch


def _counts(metadata: ObjectMetadata, bucket_id: int) -> bool:
    """Returns whether the object is in this bucket and in another one."""
    return bool(metadata.copies) and bucket_id in metadata.bucket_ids


def _is_there(store: ObjectStore, metadata: ObjectMetadata) -> bool:
    try:
        return store.head(object_key(metadata.object_id)).size_bytes == metadata.size_bytes
    except ObjectNotFound:
        return False
