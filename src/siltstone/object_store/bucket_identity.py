"""The marker in a bucket that says whose it is. Of two stores that begin in one bucket one is turned away: ids count
from 0 in each, and their objects would take each other's place."""

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
    """The bucket holds another store's objects: new ones would take the place of those."""


def marked_store_id(store: ObjectStore) -> str | None:
    """None when nobody has marked it. Raises DamagedIdentity, and what the store raises."""
    try:
        size_bytes = store.head(MARKER_KEY).size_bytes
        data = store.get_range(MARKER_KEY, 0, min(size_bytes, IDENTITY_BYTES_MAX))
    except ObjectNotFound:
        return None
    try:
        return decode_store_identity(data).store_id
    except DamagedIdentity as damage:
        raise DamagedIdentity(
            f"{MARKER_KEY} in {store.url}: {damage}; delete it if the bucket is this store's"
        ) from damage


def refuse_if_marked_by_another(store: ObjectStore, store_id: str) -> bool:
    """Whether this store has marked it. Raises BucketOfAnotherStore."""
    found = marked_store_id(store)
    if found is not None and found != store_id:
        raise BucketOfAnotherStore(
            f"{store.url} belongs to store {found}, this is store {store_id}: restore the metadata that belongs to it, "
            "or give this store a bucket or a prefix of its own"
        )
    return found is not None


def mark(store: ObjectStore, store_id: str) -> None:
    """Idempotent. Raises BucketOfAnotherStore when another store was first."""
    try:
        store.put_if_absent(MARKER_KEY, [encode_store_identity(StoreIdentity(store_id))])
    except ObjectAlreadyExists:
        refuse_if_marked_by_another(store, store_id)
