"""The marker object in a bucket that names the store whose objects the bucket holds.

When two stores are given the same bucket, one of them is refused: each counts its object ids from 0, so their objects
would overwrite each other. The marker's bytes are in ``object_formats.identity``.
"""

from siltstone.model.errors import InvalidRequest
from siltstone.object_formats.identity import (
    IDENTITY_BYTES_MAX,
    DamagedIdentity,
    StoreIdentity,
    decode_store_identity,
    encode_store_identity,
)
from siltstone.object_store.port import ObjectAlreadyExists, ObjectNotFound, ObjectStore

MARKER_KEY = "siltstone-store.json"


class BucketOfAnotherStore(InvalidRequest):
    """The bucket holds the objects of another store, which new objects would overwrite."""


class BucketMissing(InvalidRequest):
    """The store has claimed another bucket than the one in the settings, or the bucket has lost its content."""


def marked_store_id(store: ObjectStore) -> str | None:
    """The id of the store that marked the bucket, or None. Raises DamagedIdentity, and what the bucket raises."""
    try:
        size_bytes = store.head(MARKER_KEY).size_bytes
        data = store.get_range(MARKER_KEY, 0, min(size_bytes, IDENTITY_BYTES_MAX))
    except ObjectNotFound:
        return None
    try:
        return decode_store_identity(data).store_id
    except DamagedIdentity as damage:
        raise DamagedIdentity(
            f"{MARKER_KEY} in {store.url}: {damage}; delete that object if the bucket belongs to this store"
        ) from damage


def is_marked(store: ObjectStore) -> bool:
    """Whether the bucket has a marker. A folder that is not mounted has none, and no objects either. Raises what the
    bucket raises."""
    try:
        store.head(MARKER_KEY)
    except ObjectNotFound:
        return False
    return True


def refuse_if_marked_by_another(store: ObjectStore, store_id: str) -> bool:
    """Returns whether this store has marked the bucket. Raises BucketOfAnotherStore, and what ``marked_store_id``
    raises."""
    found = marked_store_id(store)
    if found is not None and found != store_id:
        raise BucketOfAnotherStore(
            f"{store.url} belongs to store {found}, this is store {store_id}: restore the metadata of store {found}, "
            "or give this store a bucket or a prefix of its own"
        )
    return found is not None


def refuse_unmarked(store: ObjectStore, claimed_url: str | None) -> None:
    """For a bucket without a marker: raises BucketMissing if the store has claimed the bucket, at ``claimed_url``."""
    if claimed_url is None:
        return
    if claimed_url == store.url:
        reason = "was there before; the bucket was emptied or exchanged. Restore the bucket"
    else:
        reason = (
            f"is in {claimed_url}, which the store used last. Name that bucket with --bucket, or as buckets.N"
        )
    raise BucketMissing(
        f"{store.url} is not this store's bucket: it has no {MARKER_KEY}, which {reason}. Nothing was written"
    )


def mark(store: ObjectStore, store_id: str) -> None:
    """Marks the bucket as this store's. Idempotent. Raises BucketOfAnotherStore when another store was first."""
    try:
        store.put_if_absent(MARKER_KEY, [encode_store_identity(StoreIdentity(store_id))])
    except ObjectAlreadyExists:
        refuse_if_marked_by_another(store, store_id)
