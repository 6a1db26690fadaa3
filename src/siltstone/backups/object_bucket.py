"""The bucket in which backups keep copies of objects. It is for one store only, because each store counts its objects
from 0, so the objects of two stores would have the same keys.

The object ``siltstone-backup.json`` names the store; its bytes are those of a bucket's marker
(``object_formats.identity``). A bucket that belongs to a store is never used: its nodes would delete the copies as
orphans.
"""

from siltstone.model.errors import InvalidRequest
from siltstone.object_formats.identity import (
    IDENTITY_BYTES_MAX,
    StoreIdentity,
    decode_store_identity,
    encode_store_identity,
)
from siltstone.object_store.bucket_identity import is_marked, marked_identity
from siltstone.object_store.port import ObjectAlreadyExists, ObjectNotFound, ObjectStore

BACKUP_MARKER_KEY = "siltstone-backup.json"


class BackupBucketRefused(InvalidRequest):
    """The bucket belongs to a store, or has the backups of another one."""


def claim_for_backups(bucket: ObjectStore, store_id: str) -> None:
    """Marks the bucket as the one for backups of this store. Raises BackupBucketRefused, and what the bucket raises."""
    if is_marked(bucket):
        raise BackupBucketRefused(
            f"{bucket.url} is the bucket of a store: give backups a bucket or a prefix of their own"
        )
    try:
        bucket.put_if_absent(BACKUP_MARKER_KEY, [encode_store_identity(StoreIdentity(store_id))])
    except ObjectAlreadyExists:
        if (found := backed_up_store(bucket)) != store_id:
            raise BackupBucketRefused(
                f"{bucket.url} has the objects of store {found}, this is store {store_id}: give each store a bucket "
                "or a prefix of its own"
            ) from None


def backed_up_store(bucket: ObjectStore) -> str | None:
    """Returns the id of the store whose backups are in the bucket; None if there are none. Raises DamagedIdentity, and
    what the bucket raises."""
    try:
        size_bytes = bucket.head(BACKUP_MARKER_KEY).size_bytes
        data = bucket.get_range(BACKUP_MARKER_KEY, 0, min(size_bytes, IDENTITY_BYTES_MAX))
    except ObjectNotFound:
        return None
    return decode_store_identity(data).store_id


def refuse_objects_of_another(bucket: ObjectStore, store_id: str) -> None:
    """Checks a bucket from which objects are to be restored. Raises BackupBucketRefused unless it has objects of this
    store, and what the bucket raises."""
    of_backups = backed_up_store(bucket)
    found = of_backups or ((identity := marked_identity(bucket)) and identity.store_id)
    if found != store_id:
        what = "has no objects of a store" if found is None else f"has the objects of store {found}"
        raise BackupBucketRefused(
            f"{bucket.url} {what}, and the backup is of store {store_id}: name another bucket"
        )
