"""A node makes its buckets its store's before it writes to them: by a marker in each, put once (``store_marker``).

A bucket that holds objects and no marker is from before there were markers: it is this store's when the metadata has
ever named an object, and another's, or one whose metadata was lost, when not.
"""

import logging
from itertools import islice

from siltstone.metadata.image import MetadataImage
from siltstone.metadata.store_id import store_id_of
from siltstone.model.errors import Unavailable
from siltstone.model.objects import object_id_of_key
from siltstone.object_store.bucket_identity import BucketOfAnotherStore, mark, refuse_if_marked_by_another
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.port import ObjectStore

KEYS_LOOKED_AT = 1_000
"""One request. Our keys begin with two hexadecimal digits, so other programs' rarely come before them."""

log = logging.getLogger(__name__)


def claim_buckets(buckets: Buckets, image: MetadataImage) -> None:
    """The image has the store's id. Raises BucketOfAnotherStore, and what the stores raise; a store that has worked
    before begins without those that are out of reach now."""
    store_id = store_id_of(image)
    assert store_id is not None
    for bucket_id in buckets.urls:
        try:
            _claim(buckets.store(bucket_id), store_id, is_new=not image.next_object_id)
        except Unavailable as trouble:
            if not image.next_object_id:
                raise
            log.warning("whose bucket %d is was not looked up: %s", bucket_id, trouble)


def _claim(store: ObjectStore, store_id: str, *, is_new: bool) -> None:
    if refuse_if_marked_by_another(store, store_id):
        return
    if is_new:
        _refuse_objects(store)
    mark(store, store_id)


def _refuse_objects(store: ObjectStore) -> None:
    """Ids begin at 0 in every store: new ones would take the place of those."""
    for summary in islice(store.list(), KEYS_LOOKED_AT):
        if object_id_of_key(summary.key) is not None:
            raise BucketOfAnotherStore(
                f"{store.url} holds objects of a store and the metadata knows none: restore the metadata, or give this "
                "store a bucket or a prefix of its own"
            )
