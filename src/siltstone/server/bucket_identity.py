"""Before a node writes to its buckets, it marks each as belonging to its store (``object_store.bucket_identity``), and
checks that the bucket has not been written to with newer metadata (``object_store.metadata_mark``).

A bucket without a marker is a new one, unless the metadata says that a node has claimed it: then the settings name the
wrong bucket, or the bucket was emptied. Stores from before markers existed are recognised by their objects.
"""

import logging
from itertools import islice

from siltstone.maintenance.context import newest_state
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.store_id import claimed_url, put_claimed_url, store_id_of
from siltstone.model.errors import Unavailable
from siltstone.model.objects import ObjectState, object_id_of_key, object_key
from siltstone.object_store.bucket_identity import (
    BucketOfAnotherStore,
    mark,
    refuse_if_marked_by_another,
    refuse_unmarked,
)
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.metadata_mark import BucketGuard
from siltstone.object_store.port import ObjectNotFound, ObjectStore, StoreDenied

KEYS_LOOKED_AT = 1_000
"""How many keys are listed to find an object of a store: one request. Object keys begin with two hexadecimal digits, so
keys of other programs rarely precede them."""

OBJECTS_LOOKED_AT = 10
"""How many committed objects are looked up to recognise a bucket from before markers existed."""

log = logging.getLogger(__name__)


def claim_buckets(buckets: Buckets, metadata: MetadataClient) -> dict[int, BucketGuard]:
    """Marks every bucket with the store's id, and returns the guards of all buckets. Raises BucketOfAnotherStore,
    BucketMissing, MetadataOlderThanBucket, and what the object stores and the metadata raise. A store that already has
    objects tolerates buckets that refuse or cannot be reached: their check is skipped with a warning."""
    image = metadata.refresh()
    store_id = store_id_of(image)
    assert store_id is not None
    guards: dict[int, BucketGuard] = {}
    for bucket_id in buckets.urls:
        store = buckets.store(bucket_id)
        guards[bucket_id] = BucketGuard(store, store_id, lambda: newest_state(metadata))
        try:
            _claim(store, store_id, bucket_id, image)
            guards[bucket_id].admit()
        except (Unavailable, StoreDenied) as trouble:
            if not image.next_object_id:
                raise
            log.warning("could not check that bucket %d belongs to this store: %s", bucket_id, trouble)
            continue
        if claimed_url(image, bucket_id) != store.url:
            metadata.execute(put_claimed_url(bucket_id, store.url))
    return guards


def _claim(store: ObjectStore, store_id: str, bucket_id: int, image: MetadataImage) -> None:
    if refuse_if_marked_by_another(store, store_id):
        return
    if not image.next_object_id:
        _refuse_objects(store)
    if not _holds_objects_of(store, bucket_id, image):
        refuse_unmarked(store, _url_before(bucket_id, image))
    mark(store, store_id)


def _url_before(bucket_id: int, image: MetadataImage) -> str | None:
    """Where the bucket was before; None if the store has never used it."""
    if (url := claimed_url(image, bucket_id)) is not None:
        return url
    return "another bucket" if any(_committed(bucket_id, image)) else None


def _holds_objects_of(store: ObjectStore, bucket_id: int, image: MetadataImage) -> bool:
    """Whether the bucket has one of the objects that the metadata names there."""
    for object_id in islice(_committed(bucket_id, image), OBJECTS_LOOKED_AT):
        try:
            store.head(object_key(object_id))
        except ObjectNotFound:
            continue
        return True
    return False


def _committed(bucket_id: int, image: MetadataImage) -> list[int]:
    objects = image.objects.values()
    return [
        each.object_id
        for each in objects
        if (each.state, each.bucket_id) == (ObjectState.COMMITTED, bucket_id)
    ]


def _refuse_objects(store: ObjectStore) -> None:
    """Raises BucketOfAnotherStore if the bucket holds objects of a store. Object ids begin at 0 in every store, so new
    objects would overwrite them."""
    for summary in islice(store.list(), KEYS_LOOKED_AT):
        if object_id_of_key(summary.key) is not None:
            raise BucketOfAnotherStore(
                f"{store.url} holds objects of a store, but the metadata has none: restore the metadata, or give this "
                "store a bucket or a prefix of its own"
            )
