"""What every kind of maintenance works with: the metadata, the buckets, time and chance. No broker and no Spark (rule
10)."""

import msgspec

from siltstone.maintenance.pressure import Measured, measure
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.store_id import store_id_of
from siltstone.object_store.bucket_identity import refuse_if_marked_by_another
from siltstone.object_store.buckets import Buckets
from siltstone.runtime.clock import Clock
from siltstone.runtime.files import Disks, SystemDisks
from siltstone.runtime.randomness import Random


class MaintenanceContext(msgspec.Struct, frozen=True):
    metadata: MetadataClient
    buckets: Buckets
    clock: Clock
    rng: Random
    quota_bytes: int = 0
    """All objects together may have at most this many bytes; 0 means no limit."""
    disks: Disks = SystemDisks()

    def space(self) -> Measured:
        """The space on the disks and in the quota from which a copy would take, by the newest image that this client
        has read."""
        return measure(self.metadata.image, self.buckets.urls, self.disks, self.quota_bytes)


def refuse_bucket_of_another_store(context: MaintenanceContext, bucket_id: int) -> None:
    """Every store counts object ids from 0, so maintenance never writes to or deletes from the bucket of another store.

    Raises BucketOfAnotherStore, DamagedIdentity, UnknownBucket, and what the store raises."""
    store_id = store_id_of(context.metadata.image)
    if store_id is not None:
        refuse_if_marked_by_another(context.buckets.store(bucket_id), store_id)
