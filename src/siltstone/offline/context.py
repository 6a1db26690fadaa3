"""``MaintenanceContext`` holds what every kind of maintenance works with: the metadata, the buckets, clock and
randomness. It needs no broker and no Spark (rule 10)."""

import logging
from collections.abc import Callable

import msgspec

from siltstone.kafka_client.client_settings import ClientSettings
from siltstone.kafka_client.connection import Security
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.store_id import claimed_url, store_id_of
from siltstone.model.errors import SiltstoneError
from siltstone.object_store.bandwidth.turns import BandwidthSettings
from siltstone.object_store.bucket_identity import BucketMissing, refuse_if_marked_by_another, refuse_unmarked
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.metadata_mark import (
    BucketGuard,
    MetadataMark,
    MetadataOlderThanBucket,
    mark_of_state,
)
from siltstone.object_store.port import ObjectStore
from siltstone.offline.pressure import Measured, measure
from siltstone.offline.settings import CopyRates
from siltstone.runtime.clock import Clock
from siltstone.runtime.files import Disks, SystemDisks
from siltstone.runtime.randomness import Random

log = logging.getLogger(__name__)


def _no_beats() -> None:
    return None


def _by_environment() -> None:
    return None


class MaintenanceContext(msgspec.Struct, frozen=True):
    metadata: MetadataClient
    buckets: Buckets
    clock: Clock
    rng: Random
    quota_bytes: int = 0
    """All objects together may have at most this many bytes; 0 means no limit."""
    disks: Disks = SystemDisks()
    rates: CopyRates = CopyRates()
    bandwidth: BandwidthSettings = BandwidthSettings()
    """The limits of each process that runs tasks."""
    guards: dict[int, BucketGuard] = msgspec.field(default_factory=dict)
    """The guard of each bucket that this context has used."""
    clock_advance_ms_max: int | None = None
    """How far the store's time may be ahead of the newest time that the store has seen
    (``pipeline.store_time``); None: the clock is trusted."""
    newest_beat_ms: Callable[[], int | None] = _no_beats
    """Reads the time of the newest beat of any broker; None when no beat is known."""
    client: Callable[[], ClientSettings | None] = _by_environment
    """Returns how brokers are connected to, for records that are in no object yet; None: as SILTSTONE_CLIENT_CONFIG
    says. Each new connection asks again, so a query that runs for months follows a file that is replaced."""

    @property
    def security(self) -> Security | None:
        """What a ``Cluster`` of this store's brokers is given. Raises what ``client`` raises."""
        settings = self.client()
        return None if settings is None else Security(settings)

    def now_ms(self) -> int:
        """Returns the store's time, by which everything is deleted that is deleted by its age (rule 15): that of the
        metadata log's clock, and not that of the machine which happens to run the job."""
        return self.metadata.now_ms()

    def space(self) -> Measured:
        """Returns the space on the disks and in the quota from which a copy would take, by the newest image that this
        client has read."""
        return measure(self.metadata.image, self.buckets.urls, self.disks, self.quota_bytes)

    @property
    def is_admitted(self) -> bool:
        """Whether every bucket that this context has used has been checked, and has not refused the metadata."""
        return bool(self.guards) and all(guard.is_admitted for guard in self.guards.values())

    def guard(self, bucket_id: int) -> BucketGuard | None:
        """Returns the guard of a bucket; None before a node has given the store an id. Raises UnknownBucket."""
        store_id = store_id_of(self.metadata.image)
        if store_id is None:
            return None
        found = self.guards.get(bucket_id)
        if found is None:
            store = self.buckets.store(bucket_id)
            guard = guard_of(store, store_id, self.metadata)
            found = self.guards.setdefault(bucket_id, guard)
        return found


def newest_state(metadata: MetadataClient) -> MetadataMark:
    """Reads the metadata to its head, for a guard. Raises what the metadata raises."""
    return mark_of_state(metadata.refresh())


def guard_of(store: ObjectStore, store_id: str, metadata: MetadataClient) -> BucketGuard:
    """Returns a guard of the bucket that goes by this metadata."""
    return BucketGuard(store, store_id, lambda: newest_state(metadata), metadata.append_id_at)


def check_may_write(context: MaintenanceContext, bucket_id: int) -> None:
    """Checks, before anything is written to a bucket or deleted from it, that the bucket is this store's, and that it
    has not seen newer metadata (rule 11).

    Raises BucketOfAnotherStore, DamagedIdentity, MetadataOlderThanBucket, UnknownBucket, and what the bucket and the
    metadata raise."""
    refuse_bucket_of_another_store(context, bucket_id)
    guard = context.guard(bucket_id)
    if guard is not None:
        guard.admit()


def refuse_bucket_of_another_store(context: MaintenanceContext, bucket_id: int) -> None:
    """Raises BucketOfAnotherStore, BucketExchanged, DamagedIdentity, UnknownBucket, and what the bucket raises."""
    store_id = store_id_of(context.metadata.image)
    if store_id is None:
        return
    store = context.buckets.store(bucket_id)
    if not refuse_if_marked_by_another(store, store_id, bucket_id):
        refuse_unmarked(store, claimed_url(context.metadata.image, bucket_id))


def check_metadata_is_newest(context: MaintenanceContext) -> None:
    """Checks all buckets before a run begins: a run with an older copy of the metadata, or with a bucket that the store
    has never used, is refused as a whole. Other failures of a bucket concern only what is written to it, and are raised
    then. Raises MetadataOlderThanBucket, BucketMissing."""
    for bucket_id in context.buckets.urls:
        try:
            check_may_write(context, bucket_id)
        except (MetadataOlderThanBucket, BucketMissing):
            raise
        except SiltstoneError as trouble:
            log.debug("could not check that the metadata is as new as bucket %d: %s", bucket_id, trouble)
