"""What every kind of maintenance needs: the metadata, the buckets, time and chance. No broker, no Spark (rule 10)."""

import msgspec

from siltstone.metadata.client import MetadataClient
from siltstone.object_store.buckets import Buckets
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random


class MaintenanceContext(msgspec.Struct, frozen=True):
    metadata: MetadataClient
    buckets: Buckets
    clock: Clock
    rng: Random
