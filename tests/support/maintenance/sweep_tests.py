"""What the tests of the sweep share."""

from collections.abc import Iterable

from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.model.limits import GRACE_PERIOD_MS
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import MultipartUpload
from support.maintenance.maintained_store import MaintainedStore


def destroyed_long_ago(
    world: MaintainedStore, count: int, bucket_ids: Iterable[int] = (0,)
) -> dict[int, list[int]]:
    """Expired in each of the buckets, and the grace period over; their ids by bucket."""
    ids = {bucket_id: world.destroyed(count, bucket_id) for bucket_id in bucket_ids}
    sweep(world.context)
    world.clock.advance_ms(GRACE_PERIOD_MS)
    return ids


def uploads_of(world: MaintainedStore, bucket_id: int = 0) -> set[MultipartUpload]:
    return set(MemoryStore.list_multipart(world.stores[bucket_id]))
