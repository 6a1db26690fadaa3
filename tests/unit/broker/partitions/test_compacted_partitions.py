"""A partition whose batches key compaction has thinned out: reading, times, and opening it again after a crash, which
reads the headers of what is left."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from siltstone.broker.deliveries.progress import ShareProgress
from siltstone.broker.partitions.partition import Partition
from siltstone.kafka_protocol.batch_header import read_batch_header
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.metadata.client import MetadataClient
from siltstone.model.limits import HOUR_MS, MINUTE_MS
from siltstone.object_store.buckets import Buckets
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.tasks import source_bytes as stores
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.groups.share_client import ACCEPT, GAP, RELEASE, ShareClient, progress_of, shared_topic
from support.kafka.kafka_requests import NOW_MS, list_offsets_request, produce_request, row_of
from support.maintenance.compacted_store import compact_keys, roll, split
from support.scenarios import scenario

NEWEST = -3


def keyed(*keys: str, value: bytes | None = b"v", timestamp_ms: int = NOW_MS, **fields: Any) -> bytearray:
    records = [Record(timestamp_ms=timestamp_ms, key=key.encode(), value=value) for key in keys]
    return build_batch(records, **fields)


def of_producer(producer_id: int, sequence: int, key: str) -> bytearray:
    return keyed(key, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


async def produced(world: BrokerWorld, topic: Any, *batches: bytearray) -> list[int]:
    """Their base offsets."""
    rows = [row_of(await world.client().ask(produce_request(topic, batch))) for batch in batches]
    assert {row.error_code for row in rows} == {0}
    return [row.base_offset for row in rows]


async def compact(world: BrokerWorld, passes: int = 1) -> None:
    """All that is there, by another process. Then the broker dies, and comes back with empty caches and what its log
    says."""
    await world.node.engine.flush()
    with maintenance(world) as context:
        split(context)
        roll(context)
        for _ in range(passes):
            report = compact_keys(context)
            assert report.is_well, report
            world.clock.advance_ms(MINUTE_MS)
    await world.crash()


@contextmanager
def maintenance(world: BrokerWorld) -> Iterator[MaintenanceContext]:
    store = world.world.store
    stores._opened[store.url] = store
    try:
        client = MetadataClient(world.world.log, world.clock, Random(5))
        yield MaintenanceContext(client, Buckets({0: store}), world.clock, Random(6))
    finally:
        del stores._opened[store.url]


async def left(partition: Partition) -> list[tuple[int, list[int]]]:
    """The last offset of each batch, and the offsets of its records; read from every offset, which gives the same."""
    found: list[tuple[int, list[int]]] = []
    for offset in range(partition.log_start_offset, partition.high_watermark):
        (batch, *_) = await partition.read(offset, 1)
        assert batch.end_offset > offset, "never what lies before"
        one = (batch.end_offset - 1, [record.offset for record in iterate_records(bytes(batch.payload))])
        if one not in found:
            assert not found or batch.base_offset > found[-1][0]
            found.append(one)
    return found


@scenario(in_broker_world)
async def test_k17_what_producers_sent_is_known_from_what_is_left(world: BrokerWorld) -> None:
    topic = await world.topic(cleanup_policy="compact")
    await produced(world, topic, keyed("k0"), of_producer(1, 0, "k0"), of_producer(2, 0, "k0"))
    await produced(world, topic, of_producer(3, 0, "k0"), of_producer(2, 1, "k1"))
    await compact(world)
    partition = await world.partition(topic)
    assert await left(partition) == [(1, []), (3, [3]), (4, [4])]
    sequences = {each.producer_id: each.batches[-1].last_sequence for each in partition.producers.entries()}
    assert sequences == {1: 0, 2: 1, 3: 0}
    assert await produced(world, topic, of_producer(1, 0, "k0")) == [1], "sent again: it stands already"
    assert await produced(world, topic, of_producer(1, 1, "k0")) == [5]
    row = row_of(await world.client().ask(produce_request(topic, of_producer(3, 2, "k0"))))
    assert row.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@scenario(in_broker_world)
async def test_k20_the_end_is_where_it_was_though_nothing_is_left_before_it(world: BrokerWorld) -> None:
    topic = await world.topic(cleanup_policy="compact", delete_retention_ms="0")
    await produced(world, topic, keyed("a"), keyed("b"), keyed("b", value=None))
    await compact(world, passes=2)
    partition = await world.partition(topic)
    assert await left(partition) == [(0, [0]), (2, [])]
    assert (partition.high_watermark, partition.next_offset) == (3, 3)
    assert await produced(world, topic, keyed("c")) == [3]
    assert await left(partition) == [(0, [0]), (2, []), (3, [3])]


@scenario(in_broker_world)
async def test_g12_offsets_stay_and_any_of_them_may_be_asked_for(world: BrokerWorld) -> None:
    topic = await world.topic(cleanup_policy="compact")
    await produced(world, topic, *(keyed(*(f"k{number % 3}" for number in range(10))) for _ in range(30)))
    await compact(world)
    partition = await world.partition(topic)
    assert await left(partition) == [(299, [297, 298, 299])]
    (batch,) = await partition.read(0, 1)
    header = read_batch_header(batch.payload)
    assert (header.base_offset, header.last_offset, header.record_count) == (290, 299, 3)
    assert partition.log_start_offset == 0


def test_times_of_what_is_left() -> None:
    """The newest record was superseded by one with an older time; an empty batch keeps its time and holds nobody up."""

    async def newest(world: BrokerWorld, topic: Any, target: int = NEWEST) -> tuple[int, int]:
        row = row_of(await world.client().ask(list_offsets_request(topic, target)))
        assert row.error_code == 0
        return row.offset, row.timestamp

    async def scenario(world: BrokerWorld) -> None:
        topic = await world.topic(cleanup_policy="compact")
        late = keyed("a", timestamp_ms=NOW_MS + 90, producer_id=7, producer_epoch=0, base_sequence=0)
        await produced(world, topic, keyed("x", timestamp_ms=NOW_MS + 50), late, keyed("a", "b"))
        assert await newest(world, topic) == (1, NOW_MS + 90)
        await compact(world)
        assert await left(await world.partition(topic)) == [(0, [0]), (1, []), (3, [2, 3])]
        for _ in range(2):
            assert await newest(world, topic) == (0, NOW_MS + 50)
        assert await newest(world, topic, NOW_MS + 51) == (-1, -1)
        assert await newest(world, topic, NOW_MS) == (0, NOW_MS + 50)
        await produced(world, topic, keyed("y", timestamp_ms=NOW_MS + 60))
        assert await newest(world, topic) == (4, NOW_MS + 60)

    in_broker_world(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_tail_and_objects_are_one_log(seed: int) -> None:
    """While the newest batches are still cached as they were, and gone from the objects."""

    async def table(partition: Partition) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        offset = partition.log_start_offset
        while offset < partition.high_watermark:
            for batch in await partition.read(offset, 200):
                for record in iterate_records(bytes(batch.payload)):
                    assert record.key is not None and record.value is not None
                    found[bytes(record.key)] = bytes(record.value)
                assert batch.end_offset > offset
                offset = batch.end_offset
        return found

    async def scenario(world: BrokerWorld) -> None:
        rng = Random(seed)
        topic = await world.topic(cleanup_policy="compact")
        expected: dict[bytes, bytes] = {}

        async def produce(count: int) -> None:
            for _ in range(count):
                keys: Sequence[str] = [f"k{rng.randrange(9)}" for _ in range(rng.randint(1, 5))]
                value = b"%d" % rng.randrange(10**9)
                await produced(world, topic, keyed(*keys, value=value))
                expected.update({key.encode(): value for key in keys})

        await produce(30)
        await compact(world)
        for _ in range(3):
            await produce(15)
            await world.node.engine.flush()
            with maintenance(world) as context:
                split(context)
                roll(context)
                assert compact_keys(context).is_well
            partition = await world.partition(topic)
            assert await table(partition) == expected
            await world.node.metadata.refresh()  # the image is new, and the tail cache as it was
            assert await table(partition) == expected
            for offset in range(partition.high_watermark):
                assert (await partition.read(offset, 1))[0].end_offset > offset
            world.clock.advance_ms(HOUR_MS)

    in_broker_world(scenario)


@scenario(in_broker_world)
async def test_sh18_a_share_group_passes_over_what_key_compaction_has_removed(world: BrokerWorld) -> None:
    """Some of it was acquired, released or accepted before."""
    await shared_topic(world)
    topic = await world.topic("compacted", cleanup_policy="compact")
    await produced(world, topic, keyed("a", "b"), keyed("k0", "k1", "k2", "k3", "k4", "k5"))
    await produced(world, topic, keyed("a", "b", "k0", "k1"))
    member = ShareClient(world, topic)
    assert await member.fetch() == [(0, 11, 1)]
    released, accepted = [RELEASE], [ACCEPT]
    assert (
        await member.acknowledge((2, 2, accepted), (3, 3, released), (5, 5, accepted), (7, 7, released)) == 0
    )
    await compact(world)
    assert await left(await world.partition(topic)) == [(7, [4, 5, 6, 7]), (11, [8, 9, 10, 11])]
    member = ShareClient(world, topic)
    assert await member.fetch() == [(3, 3, 2), (4, 4, 1), (6, 6, 1), (7, 7, 2), (8, 11, 1)]
    assert progress_of(world, topic).start_offset == 3, "nothing is left before it"
    assert await member.acknowledge((3, 3, [GAP]), (4, 4, accepted), (6, 11, accepted)) == 0
    assert progress_of(world, topic) == ShareProgress(12)


@scenario(in_broker_world)
async def test_sh18_a_batch_that_key_compaction_has_emptied_is_not_acquired(world: BrokerWorld) -> None:
    """It stays, since it is the last one of its producer."""
    await shared_topic(world)
    topic = await world.topic("compacted", cleanup_policy="compact")
    await produced(world, topic, of_producer(7, 0, "a"), keyed("a", "b"))
    await compact(world)
    assert await left(await world.partition(topic)) == [(0, []), (2, [1, 2])]
    assert await ShareClient(world, topic).fetch() == [(1, 2, 1)]
