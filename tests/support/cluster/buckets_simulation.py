"""Simulates a cluster with three buckets: they are added, made writable, drained and removed, the strategy changes, and
each bucket is out of reach for a while, or refuses writes, for all nodes and for maintenance.

In the end buckets that are being drained are emptied, and can be removed.
"""

from collections.abc import Callable
from typing import NoReturn

from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.relocation.kind import Relocation
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.buckets import RemoveBucket, SetBucketState, SetWriteStrategy, bucket_list_of
from siltstone.model.buckets import BucketState, StrategyType, WriteStrategy
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import ObjectState
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectStore, StoreDenied, StoreTransient
from siltstone.offline.settings import StreamObjectCompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.server.bucket_identity import release_place
from support.cluster.cluster_simulation import GRACE_PERIOD_MS, ClusterSimulation
from support.engine.faulty_store import Fault, FaultyStore

BUCKETS = 3
WRITES = ("put", "start_multipart", "upload_part", "complete_multipart")


class WorldBucket(FaultyStore):
    """A bucket as all nodes and maintenance see it. ``trouble``: "out" (no call succeeds), "denied" (no write does), or
    none."""

    trouble = ""

    def _choose(self, name: str) -> Fault | None:
        if self.trouble == "out":
            self._unreachable(name)
        if self.trouble == "denied" and name in WRITES:
            raise StoreDenied(f"{name}: access denied")
        return super()._choose(name)

    def _unreachable(self, name: str) -> NoReturn:
        raise StoreTransient(f"{name}: the bucket is out of reach", uncertain=False)


class BucketsSimulation(ClusterSimulation):
    def _made_buckets(self) -> dict[int, ObjectStore]:
        self.world_buckets = [
            WorldBucket(self.bucket if number == 0 else MemoryStore(self.clock, f"cluster-{self.seed}-{number}"))
            for number in range(BUCKETS)
        ]  # fmt: skip
        self._trouble_until_ms: dict[int, float] = {}
        return dict(enumerate(self.world_buckets))

    def _weights(self) -> dict[Callable[[], None], int]:
        return super()._weights() | {
            self._make_writable: 4, self._set_strategy: 2, self._drain_bucket: 2, self._remove_bucket: 1,
            self._trouble_a_bucket: 4,
        }  # fmt: skip

    async def _begin(self) -> None:
        await super()._begin()
        for bucket_id in range(1, BUCKETS):
            if self.rng.random() < 0.7:
                self._command("writable", SetBucketState(bucket_id, BucketState.WRITABLE))
        self._set_strategy()

    def _any_bucket(self) -> int:
        return self.rng.randrange(BUCKETS)

    def _make_writable(self) -> None:
        self._command("writable", SetBucketState(self._any_bucket(), BucketState.WRITABLE))

    def _drain_bucket(self) -> None:
        self._command("bucket drained", SetBucketState(self._any_bucket(), BucketState.DRAINING))

    def _set_strategy(self) -> None:
        order = self.rng.sample(range(BUCKETS), self.rng.randint(0, BUCKETS))
        kind = self.rng.choice(list(StrategyType))
        copies = self.rng.randint(2, BUCKETS) if kind is StrategyType.REPLICATION else 1
        enough = self.rng.randint(0, copies) if copies > 1 else 0
        self._command("strategy", SetWriteStrategy(WriteStrategy(kind, tuple(order), copies, enough)))

    def _remove_bucket(self) -> None:
        self._removed(self._any_bucket())

    def _removed(self, bucket_id: int) -> bool:
        """Removes a bucket, as ``siltstone buckets remove`` does."""
        before = self.counts.get("bucket removed", 0)
        self._command("bucket removed", RemoveBucket(bucket_id))
        if self.counts.get("bucket removed", 0) == before:
            return False
        try:
            left = release_place(self.world_buckets[bucket_id])
            assert left == 0, [each.key for each in self.world_buckets[bucket_id].list()]
        except (StoreTransient, StoreDenied):
            self.count("place not released", bucket_id)
        return True

    def _trouble_a_bucket(self) -> None:
        """A bucket that denies the log of a node ends that node."""
        bucket_id = self._any_bucket()
        kinds = ["out"] if bucket_id == 0 and self.wal_in_bucket else ["out", "denied"]
        self.world_buckets[bucket_id].trouble = kind = self.rng.choice(kinds)
        self.count(f"bucket {kind}", bucket_id)
        self._trouble_until_ms[bucket_id] = self.clock.monotonic_ms() + self.rng.choice(
            [1_000, 8_000, 40_000]
        )

    async def _supervise(self) -> None:
        now_ms = self.clock.monotonic_ms()
        for bucket_id, until_ms in list(self._trouble_until_ms.items()):
            if now_ms >= until_ms:
                self._well_again(bucket_id)
        await super()._supervise()

    def _well_again(self, bucket_id: int) -> None:
        del self._trouble_until_ms[bucket_id]
        self.world_buckets[bucket_id].trouble = ""
        self.count("bucket well", bucket_id)

    def _maintain(self) -> None:
        try:
            super()._maintain()
        except SiltstoneError as trouble:
            self._expect_trouble("maintenance", trouble)

    def _compact(self) -> None:
        try:
            super()._compact()
        except SiltstoneError as trouble:
            self._expect_trouble("compaction", trouble)

    def _expect_trouble(self, what: str, trouble: SiltstoneError) -> None:
        assert self._trouble_until_ms, trouble
        self.count(f"{what} ended", f"{type(trouble).__name__}: {trouble}"[:150])

    async def _heal(self) -> None:
        for bucket_id in list(self._trouble_until_ms):
            self._well_again(bucket_id)
        await super()._heal()

    async def _end(self) -> None:
        await super()._end()
        context = self._maintenance()
        for bucket_id in sorted(bucket_list_of(context.metadata.image).draining):
            self._drain_to_the_end(bucket_id)

    def _drain_to_the_end(self, bucket_id: int) -> None:
        context = self._maintenance()
        report = run(
            context, Relocation(StreamObjectCompactionSettings()), InProcessRunner, Scope(), Budget(),
            Watch("relocation", self.clock),
        )  # fmt: skip
        assert not report.failed and not report.trouble, report
        objects = context.metadata.refresh().objects.values()
        left = [each for each in objects if bucket_id in each.every_bucket_id]
        assert not [each for each in left if each.state is ObjectState.COMMITTED], left
        for _ in range(2):
            self.clock.advance_ms(25 * HOUR_MS)
            sweep(self._maintenance(), GRACE_PERIOD_MS)
        if bucket_id == 0 and self.wal_in_bucket:
            self.count("not removed: the logs are there", bucket_id)
        else:
            assert self._removed(bucket_id), "what was drained can be removed"
