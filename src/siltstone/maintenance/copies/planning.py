"""Decides which objects lack copies, and which buckets are due to be listed. Pure."""

from collections.abc import Iterator

import msgspec

from siltstone.carrying.pipeline.kind import object_name
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import ImageView, MetadataImage
from siltstone.model.limits import DAY_MS
from siltstone.model.objects import ObjectState

LISTED_PREFIX = "copies-listed/"
"""The keys of the metadata with the time at which each bucket was listed last, as decimal ms since 1970, begin with
it."""

LISTING_INTERVAL_MS = DAY_MS
"""A listing of a million objects takes a thousand requests, and copies rarely disappear."""


class ObjectShort(msgspec.Struct, frozen=True):
    """An object with too few copies, and the buckets that get one."""

    metadata: ObjectMetadata
    targets: tuple[int, ...]

    @property
    def name(self) -> str:
        return object_name(self.metadata.object_id)


def objects_short(image: MetadataImage) -> list[ObjectShort]:
    """Returns the committed objects that replication wants in more buckets, sorted by id. Objects that hold nothing
    live are left out, and so are objects in a bucket that is drained, since relocation puts them into as many buckets
    as they need."""
    listed = bucket_list_of(image)
    strategy = listed.strategy
    if not strategy.is_replication:
        return []
    writable = strategy.in_order(each.id for each in listed.writable)
    found: list[ObjectShort] = []
    for metadata in image.objects.values():
        if metadata.state is not ObjectState.COMMITTED or not metadata.ranges:
            continue
        missing = strategy.copies - len(metadata.bucket_ids)
        if missing <= 0 or not listed.draining.isdisjoint(metadata.every_bucket_id):
            continue
        targets = tuple(each for each in writable if each not in metadata.bucket_ids)[:missing]
        if targets:
            found.append(ObjectShort(metadata, targets))
    return sorted(found, key=lambda each: each.metadata.object_id)


def listings_due(image: ImageView, now_ms: int, *, is_forced: bool = False) -> Iterator[int]:
    """Yields the buckets whose daily listing is due. A store without copies lists none."""
    listed = bucket_list_of(image)
    if not listed.has_copies:
        return
    for bucket_id in listed.urls:
        stored = image.keys.get(f"{LISTED_PREFIX}{bucket_id}")
        if is_forced or stored is None or int(stored) + LISTING_INTERVAL_MS <= now_ms:
            yield bucket_id
