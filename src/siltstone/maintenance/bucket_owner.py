"""Maintenance deletes and writes objects by their ids, which every store counts from 0: never in another's bucket."""

from siltstone.maintenance.context import MaintenanceContext
from siltstone.metadata.store_identity import store_id_of
from siltstone.object_store.store_marker import refuse_if_marked_by_another


def refuse_bucket_of_another_store(context: MaintenanceContext, bucket_id: int) -> None:
    """Raises BucketOfAnotherStore, DamagedIdentity, UnknownBucket, and what the store raises."""
    store_id = store_id_of(context.metadata.image)
    if store_id is not None:
        refuse_if_marked_by_another(context.buckets.store(bucket_id), store_id)
