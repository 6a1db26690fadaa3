"""Where maintenance puts its objects: B19 as far as the choice alone decides it."""

import pytest

from siltstone.metadata.buckets import RegisterBuckets, SetBucketState, SetWriteStrategy
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.store.memory import MemoryLog
from siltstone.model.buckets import BucketState, StrategyType, WriteStrategy
from siltstone.model.buffers import Buffers
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import StoreDenied
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.output_buckets import OutputBuckets, why_not_writable
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness


class Bucket(MemoryStore):
    """``is_denied``: the bucket takes no writes."""

    is_denied = False

    def put(self, key: str, buffers: Buffers) -> None:
        if self.is_denied:
            raise StoreDenied("read only")
        super().put(key, buffers)


@pytest.fixture
def stores() -> dict[int, Bucket]:
    return {number: Bucket(ManualClock(), str(number)) for number in range(3)}


@pytest.fixture
def context(stores: dict[int, Bucket]) -> MaintenanceContext:
    clock = ManualClock()
    metadata = MetadataClient(MemoryLog(), clock, seeded_randomness(1))
    return MaintenanceContext(metadata, Buckets(stores), clock, seeded_randomness(2))


@pytest.fixture
def several(context: MaintenanceContext) -> MaintenanceContext:
    context.metadata.execute(RegisterBuckets({number: f"memory:{number}" for number in range(3)}, 0))
    for number in (1, 2):
        context.metadata.execute(SetBucketState(number, BucketState.WRITABLE))
    context.metadata.execute(SetWriteStrategy(WriteStrategy(StrategyType.ROUND_ROBIN)))
    return context


def test_b20_a_store_from_before_the_list_has_one_bucket_which_is_not_probed(
    context: MaintenanceContext, stores: dict[int, Bucket]
) -> None:
    stores[0].is_denied = True
    outputs = OutputBuckets(context)
    assert outputs.of_set() == outputs.of_stream(5) == 0


def test_streams_have_homes_and_probes_leave_nothing(
    several: MaintenanceContext, stores: dict[int, Bucket]
) -> None:
    outputs = OutputBuckets(several)
    homes = [outputs.of_stream(stream_id) for stream_id in range(50)]
    assert set(homes) == {0, 1, 2}
    assert homes == [OutputBuckets(several).of_stream(stream_id) for stream_id in range(50)]
    assert not any(list(store.list()) for store in stores.values())


def test_b19_a_bucket_that_takes_no_writes_is_left_out(
    several: MaintenanceContext, stores: dict[int, Bucket]
) -> None:
    stores[0].is_denied = True
    outputs = OutputBuckets(several)
    assert outputs.of_set() == 1
    assert {outputs.of_stream(stream_id) for stream_id in range(50)} == {1, 2}


def test_with_none_that_takes_writes_the_trouble_is_raised(
    several: MaintenanceContext, stores: dict[int, Bucket]
) -> None:
    for store in stores.values():
        store.is_denied = True
    with pytest.raises(StoreDenied):
        OutputBuckets(several).of_set()


def test_a_bucket_that_is_read_only_says_so(several: MaintenanceContext) -> None:
    several.metadata.execute(SetBucketState(2, BucketState.READ_ONLY))
    troubles = why_not_writable(several, (0, 2))
    assert list(troubles) == [2] and "read-only" in troubles[2]
