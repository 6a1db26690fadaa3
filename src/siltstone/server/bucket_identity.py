"""Before a node writes to its buckets, it marks each as belonging to its store (``object_store.bucket_identity``), and
checks that no process with newer metadata has written to the bucket (``object_store.metadata_mark``). It lists the
buckets in the metadata (``metadata.buckets``), and does the same for each bucket that is added while it runs.

A bucket without a marker is new, unless the metadata says that a node has claimed it: then the settings name the wrong
bucket, or the bucket was emptied. Stores from before markers existed are recognised by their objects.
"""

import logging
from itertools import islice

from siltstone.metadata.buckets import RegisterBuckets, bucket_list_of
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.store_id import claimed_url, put_claimed_url, store_id_of
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.model.objects import ObjectState, object_id_of_key, object_key
from siltstone.object_store.bucket_identity import (
    MARKER_KEY,
    BucketExchanged,
    BucketOfAnotherStore,
    mark,
    refuse_if_marked_as_first,
    refuse_if_marked_by_another,
    refuse_unmarked,
)
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.health import PROBE_PREFIX
from siltstone.object_store.metadata_mark import MARKS_PREFIX, BucketGuard
from siltstone.object_store.port import ObjectNotFound, ObjectStore, StoreDenied
from siltstone.offline.context import guard_of
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.log_limit import LogLimit

KEYS_LOOKED_AT = 1_000
"""How many keys are listed to find an object of a store: one request. Object keys begin with two hexadecimal digits, so
keys of other programs rarely precede them."""

OBJECTS_LOOKED_AT = 10
"""How many committed objects are looked up to recognise a bucket from before markers existed."""

ADDED_INTERVAL_MS = 800
"""A bucket that is added is used within a second."""

REFUSED_INTERVAL_MS = 5_000

NOT_CREATED = "(not created yet)"
"""Stands for the id of a store that does not exist, in errors about buckets that other stores have marked."""

NO_BUCKET = -1
"""The id of a place that is not a bucket of the store yet."""

log = logging.getLogger(__name__)


def claim_buckets(buckets: Buckets, metadata: MetadataClient) -> dict[int, BucketGuard]:
    """Marks every bucket with the store's id, and returns the guards of all buckets. Raises BucketOfAnotherStore,
    BucketMissing, MetadataOlderThanBucket, and what the object stores and the metadata raise. A store that already has
    objects tolerates buckets that refuse or cannot be reached: their check is skipped with a warning."""
    image = metadata.refresh()
    store_id = store_id_of(image)
    assert store_id is not None
    guards: dict[int, BucketGuard] = {}
    removed = bucket_list_of(image).removed
    _refuse_exchanged(buckets, image)
    for bucket_id in sorted(removed & buckets.opened):
        log.warning("bucket %d was removed from the store: its URL in the settings is not used", bucket_id)
    for bucket_id in sorted(buckets.urls.keys() - removed):
        store = buckets.store(bucket_id)
        guards[bucket_id] = guard_of(store, store_id, metadata)
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
    metadata.execute(RegisterBuckets(buckets.urls, buckets.default_bucket_id))
    return guards


def claim_bucket(buckets: Buckets, metadata: MetadataClient, bucket_id: int) -> BucketGuard:
    """Marks one bucket with the store's id, as ``claim_buckets`` does, and returns its guard. Raises the same, also
    what an unreachable bucket raises."""
    image = metadata.refresh()
    store_id = store_id_of(image)
    assert store_id is not None
    _refuse_exchanged(buckets, image)
    store = buckets.store(bucket_id)
    guard = guard_of(store, store_id, metadata)
    _claim(store, store_id, bucket_id, image)
    guard.admit()
    if claimed_url(image, bucket_id) != store.url:
        metadata.execute(put_claimed_url(bucket_id, store.url))
    return guard


async def claim_added_buckets(
    buckets: Buckets,
    metadata: MetadataClient,
    guards: dict[int, BucketGuard],
    calls: BlockingCalls,
    clock: Clock,
) -> None:
    """Adds the guards of the writable buckets that are added while the node runs, and drops those of buckets that are
    removed, until it is cancelled. A bucket that is refused is reported, and tried again."""
    limit = LogLimit(clock)
    while True:
        listed = bucket_list_of(metadata.image)
        for bucket_id in listed.removed & guards.keys():
            del guards[bucket_id]
            log.info("bucket %d was removed", bucket_id)
        added = [each.id for each in listed.writable if each.id not in guards]
        for bucket_id in added:
            try:
                guards[bucket_id] = await calls.run(claim_bucket, buckets, metadata, bucket_id)
            except SiltstoneError as trouble:
                if limit.is_due():
                    log.error(
                        "this node does not write to bucket %d, and tries again: %s", bucket_id, trouble
                    )
            else:
                log.info("bucket %d was added: %s", bucket_id, buckets.store(bucket_id).url)
        is_refused = any(bucket_id not in guards for bucket_id in added)
        await clock.sleep_ms(REFUSED_INTERVAL_MS if is_refused else ADDED_INTERVAL_MS)


def _refuse_exchanged(buckets: Buckets, image: MetadataImage) -> None:
    """Raises BucketExchanged when two buckets have one URL, or a bucket is where another one was claimed. Markers from
    before format 2 do not name their bucket."""
    removed = bucket_list_of(image).removed
    urls = {bucket_id: url for bucket_id, url in buckets.urls.items() if bucket_id not in removed}
    by_url: dict[str, int] = {}
    for bucket_id, url in urls.items():
        if url in by_url:
            raise BucketExchanged(
                f"buckets {by_url[url]} and {bucket_id} are both at {url}; give each a place of its own. Nothing was "
                "written"
            )
        by_url[url] = bucket_id
    for bucket_id, url in urls.items():
        claimed = claimed_url(image, bucket_id)
        now = by_url.get(claimed or "")
        if claimed not in (None, url) and now is not None:
            raise BucketExchanged(
                f"{claimed} is bucket {bucket_id} of this store, and the settings have it as bucket {now}: the URLs "
                "were swapped. Nothing was written"
            )


def _claim(store: ObjectStore, store_id: str, bucket_id: int, image: MetadataImage) -> None:
    if not refuse_foreign(store, store_id, bucket_id, image):
        mark(store, store_id, bucket_id)


def refuse_foreign(store: ObjectStore, store_id: str | None, bucket_id: int, image: MetadataImage) -> bool:
    """Returns whether the bucket is marked as this store's; a False one may be. Nothing is written. ``store_id`` None:
    the store is to be created. Raises BucketOfAnotherStore, BucketMissing, and what the bucket raises."""
    if refuse_if_marked_by_another(store, store_id or NOT_CREATED, bucket_id):
        if claimed_url(image, bucket_id) is None and not any(_committed(bucket_id, image)):
            refuse_if_marked_as_first(store, bucket_id)
        return True
    if not image.next_object_id:
        _refuse_objects(store, "but the metadata has none: restore the metadata, or give this store")
    if not _holds_objects_of(store, bucket_id, image):
        refuse_unmarked(store, _url_before(bucket_id, image))
    return False


def _url_before(bucket_id: int, image: MetadataImage) -> str | None:
    """Returns the URL at which the bucket was before; None if the store has never used it."""
    if (url := claimed_url(image, bucket_id)) is not None:
        return url
    return "another bucket" if any(_committed(bucket_id, image)) else None


def _holds_objects_of(store: ObjectStore, bucket_id: int, image: MetadataImage) -> bool:
    """Returns whether the bucket has one of the objects that the metadata names there."""
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
        if each.state is ObjectState.COMMITTED and bucket_id in each.bucket_ids
    ]


def release_place(store: ObjectStore) -> int:
    """Deletes the marker, the marks and the objects that probes left from a removed bucket, so that another store may
    use its place. Returns how many other keys are there, up to KEYS_LOOKED_AT. Raises what the bucket raises."""
    keys = [summary.key for summary in islice(store.list(), KEYS_LOOKED_AT)]
    ours = [key for key in keys if key == MARKER_KEY or key.startswith((MARKS_PREFIX, PROBE_PREFIX))]
    store.delete(ours)
    return len(keys) - len(ours)


def refuse_place(store: ObjectStore, store_id: str) -> None:
    """Checks a place that is to become a bucket of this store. Raises BucketOfAnotherStore, BucketExchanged if it is a
    bucket of this store already, and what the bucket raises."""
    if refuse_if_marked_by_another(store, store_id, NO_BUCKET):
        refuse_if_marked_as_first(store, NO_BUCKET)
    _refuse_objects(store, "which new ones would overwrite: give this bucket")


def _refuse_objects(store: ObjectStore, and_then: str) -> None:
    """Raises BucketOfAnotherStore if the bucket holds objects of a store. Object ids begin at 0 in every store, so new
    objects would overwrite them."""
    for summary in islice(store.list(), KEYS_LOOKED_AT):
        if object_id_of_key(summary.key) is not None:
            raise BucketOfAnotherStore(
                f"{store.url} holds objects of a store, {and_then} a bucket or a prefix of its own"
            )
