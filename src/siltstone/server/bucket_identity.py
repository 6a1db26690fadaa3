"""Before a node writes to its buckets, it marks each as belonging to its store (``object_store.bucket_identity``).

A bucket with objects and without a marker dates from before markers existed. If the metadata has ever created an
object, the bucket belongs to this store. If not, it belongs to another store, or the metadata of this store was lost.
"""

import logging
from itertools import islice

from siltstone.metadata.image import MetadataImage
from siltstone.metadata.store_id import store_id_of
from siltstone.model.errors import Unavailable
from siltstone.model.objects import object_id_of_key
from siltstone.object_store.bucket_identity import BucketOfAnotherStore, mark, refuse_if_marked_by_another
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.port import ObjectStore, StoreDenied

KEYS_LOOKED_AT = 1_000
"""How many keys are listed to find an object of a store: one request. Object keys begin with two hexadecimal digits, so
keys of other programs rarely precede them."""

log = logging.getLogger(__name__)


def claim_buckets(buckets: Buckets, image: MetadataImage) -> None:
    """Marks every bucket with the store id in ``image``. Raises BucketOfAnotherStore, and what the object stores
    raise. A store that already has objects tolerates buckets that refuse or cannot be reached: their check is skipped
    with a warning."""
    store_id = store_id_of(image)
    assert store_id is not None
    for bucket_id in buckets.urls:
        try:
            _claim(buckets.store(bucket_id), store_id, is_new=not image.next_object_id)
        except (Unavailable, StoreDenied) as trouble:
            if not image.next_object_id:
                raise
            log.warning("could not check that bucket %d belongs to this store: %s", bucket_id, trouble)


def _claim(store: ObjectStore, store_id: str, *, is_new: bool) -> None:
    if refuse_if_marked_by_another(store, store_id):
        return
    if is_new:
        _refuse_objects(store)
    mark(store, store_id)


def _refuse_objects(store: ObjectStore) -> None:
    """Raises BucketOfAnotherStore if the bucket holds objects of a store. Object ids begin at 0 in every store, so new
    objects would overwrite them."""
    for summary in islice(store.list(), KEYS_LOOKED_AT):
        if object_id_of_key(summary.key) is not None:
            raise BucketOfAnotherStore(
                f"{store.url} holds objects of a store, but the metadata has none: restore the metadata, or give this "
                "store a bucket or a prefix of its own"
            )
