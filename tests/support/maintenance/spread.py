"""Makes stores whose objects are in several buckets, by any strategy: hypothesis draws them (B21)."""

from collections.abc import Mapping
from random import Random

import msgspec
from hypothesis import strategies as st

from siltstone.metadata.buckets import RegisterBuckets, SetBucketState, SetWriteStrategy
from siltstone.metadata.client import MetadataClient
from siltstone.model.buckets import BucketState, StrategyType, WriteStrategy
from siltstone.object_store.port import ObjectStore


class Spread(msgspec.Struct, frozen=True):
    """``buckets``: how many there are. ``seed``: which one each object was put into before maintenance begins."""

    buckets: int = 1
    strategy: StrategyType = StrategyType.FAILOVER
    seed: int = 0

    def list_buckets(self, metadata: MetadataClient, stores: Mapping[int, ObjectStore]) -> None:
        """Makes all of them writable, and sets the strategy. One bucket alone stays unlisted, as in old stores."""
        if self.buckets == 1:
            return
        metadata.execute(RegisterBuckets({bucket_id: store.url for bucket_id, store in stores.items()}, 0))
        for bucket_id in range(1, self.buckets):
            metadata.execute(SetBucketState(bucket_id, BucketState.WRITABLE))
        copies = 2 if self.strategy is StrategyType.REPLICATION else 1
        metadata.execute(SetWriteStrategy(WriteStrategy(self.strategy, copies=copies)))

    def choices(self) -> Random:
        return Random(self.seed)


ONE_BUCKET = Spread()
SPREADS = st.one_of(
    st.just(ONE_BUCKET),
    st.builds(
        Spread,
        buckets=st.integers(2, 3),
        strategy=st.sampled_from(StrategyType),
        seed=st.integers(0, 10),
    ),
)
