"""The marker object in a bucket that names the store whose objects the bucket holds.

When two stores are given the same bucket, one of them is refused: each counts its object ids from 0, so their objects
would overwrite each other. The marker also names the bucket by its id, so that URLs of one store that were swapped are
noticed: objects would seem lost, and deleting them would succeed at keys without objects. The marker's bytes are in
``object_formats.identity``.
"""

from siltstone.model.errors import InvalidRequest
from siltstone.model.objects import DEFAULT_BUCKET_ID
from siltstone.object_formats.identity import (
    IDENTITY_BYTES_MAX,
    DamagedIdentity,
    IdentityOfNewerVersion,
    StoreIdentity,
    decode_store_identity,
    encode_store_identity,
)
from siltstone.object_store.port import ObjectAlreadyExists, ObjectNotFound, ObjectStore

MARKER_KEY = "siltstone-store.json"


class BucketOfAnotherStore(InvalidRequest):
    """The bucket holds the objects of another store, which new objects would overwrite."""


class BucketExchanged(BucketOfAnotherStore):
    """The place is another bucket of the same store: two URLs were swapped, or two buckets are at one place."""


class BucketMissing(InvalidRequest):
    """The store has claimed another bucket than the one in the settings, or the bucket has lost its content."""


def marked_identity(store: ObjectStore) -> StoreIdentity | None:
    """Returns the identity in the bucket's marker, or None. Raises DamagedIdentity, and what the bucket raises."""
    try:
        size_bytes = store.head(MARKER_KEY).size_bytes
        data = store.get_range(MARKER_KEY, 0, min(size_bytes, IDENTITY_BYTES_MAX))
    except ObjectNotFound:
        return None
    try:
        return decode_store_identity(data)
    except IdentityOfNewerVersion as newer:
        raise IdentityOfNewerVersion(f"{MARKER_KEY} in {store.url}: {newer}") from newer
    except DamagedIdentity as damage:
        raise DamagedIdentity(
            f"{MARKER_KEY} in {store.url}: {damage}; delete that object if the bucket belongs to this store"
        ) from damage


def is_marked(store: ObjectStore) -> bool:
    """Returns whether the bucket has a marker. A folder that is not mounted has none, and no objects either. Raises
    what the bucket raises."""
    try:
        store.head(MARKER_KEY)
    except ObjectNotFound:
        return False
    return True


def refuse_if_marked_by_another(store: ObjectStore, store_id: str, bucket_id: int) -> bool:
    """Returns whether this store has marked the bucket. Raises BucketOfAnotherStore, BucketExchanged, and what
    ``marked_identity`` raises."""
    found = marked_identity(store)
    if found is None:
        return False
    if found.store_id != store_id:
        raise BucketOfAnotherStore(
            f"{store.url} belongs to store {found.store_id}, this is store {store_id}: restore the metadata of store "
            f"{found.store_id}, or give this store a bucket or a prefix of its own"
        )
    if found.bucket_id is not None and found.bucket_id != bucket_id:
        raise _exchanged(store, bucket_id, f"is marked as bucket {found.bucket_id}")
    return True


def refuse_if_marked_as_first(store: ObjectStore, bucket_id: int) -> None:
    """Checks a bucket that no node has claimed yet, and that this store has marked: raises BucketExchanged unless the
    marker names the bucket. A marker without a number is that of bucket 0."""
    found = marked_identity(store)
    if found is not None and found.bucket_id is None and bucket_id != DEFAULT_BUCKET_ID:
        raise _exchanged(store, bucket_id, f"is bucket {DEFAULT_BUCKET_ID} already")


def _exchanged(store: ObjectStore, bucket_id: int, what_it_is: str) -> BucketExchanged:
    place = (
        f"{store.url} is not bucket {bucket_id} of this store"
        if bucket_id >= 0
        else f"{store.url} cannot be added"
    )
    return BucketExchanged(
        f"{place}: it {what_it_is}. Look whether two URLs of buckets were swapped, or lead to one place. Nothing was "
        "written"
    )


def refuse_unmarked(store: ObjectStore, claimed_url: str | None) -> None:
    """Checks a bucket without a marker: raises BucketMissing if the store has claimed the bucket, at
    ``claimed_url``."""
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


def mark(store: ObjectStore, store_id: str, bucket_id: int = DEFAULT_BUCKET_ID) -> None:
    """Marks the place as this bucket of this store. Idempotent. Raises BucketOfAnotherStore and BucketExchanged when
    another store, or another bucket of this one, was first."""
    identity = StoreIdentity(store_id, None if bucket_id == DEFAULT_BUCKET_ID else bucket_id)
    try:
        store.put_if_absent(MARKER_KEY, [encode_store_identity(identity)])
    except ObjectAlreadyExists:
        refuse_if_marked_by_another(store, store_id, bucket_id)
        refuse_if_marked_as_first(store, bucket_id)
