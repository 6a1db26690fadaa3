"""ListOffsets where an object is missing: a lookup by time is refused there, or continues behind the damage."""

import pytest

from siltstone.broker.partitions.damage import DamageStatistics
from siltstone.kafka_protocol.error_code import ErrorCode
from support.broker.broker_world import in_broker_world
from support.kafka.kafka_requests import list_offsets_request, produce_request, row_of, timed_batch
from support.scenarios import scenario

EARLIEST, LATEST, NEWEST = -2, -1, -3


async def found(world, topic, timestamp_ms):
    row = row_of(await world.client().ask(list_offsets_request(topic, timestamp_ms)))
    return ErrorCode(row.error_code), row.offset


async def with_a_hole(world, damaged_read: str):
    """Records 0, 1, 2 of the times 10, 20, 30; the object of record 1 is gone. Returns what puts it back, too."""
    topic = await world.topic(**{"siltstone.damaged.read": damaged_read})
    keys = []
    for timestamp_ms in (10, 20, 30):
        await world.client().ask(produce_request(topic, timed_batch(timestamp_ms)))
        await world.parts.engine.flush()
        keys += [one.key for one in world.world.store.list() if one.key not in keys]
    assert len(keys) == 3
    store = world.world.store
    intact = store.get_range(keys[1], 0, store.head(keys[1]).size_bytes)
    await world.restart()
    store.delete([keys[1]])
    return topic, lambda: store.put(keys[1], [intact])


@scenario(in_broker_world)
async def test_a_lookup_that_meets_the_damage_is_refused_until_the_object_is_restored(world, caplog) -> None:
    topic, restore = await with_a_hole(world, "fail")
    assert await found(world, topic, 10) == (ErrorCode.NONE, 0)
    for timestamp_ms in (15, 25):
        assert await found(world, topic, timestamp_ms) == (ErrorCode.CORRUPT_MESSAGE, -1)
    assert await found(world, topic, EARLIEST) == (ErrorCode.NONE, 0)
    assert await found(world, topic, LATEST) == (ErrorCode.NONE, 3)
    assert await found(world, topic, NEWEST) == (ErrorCode.NONE, 2)
    assert world.parts.partitions.damage.statistics() == DamageStatistics(reads_refused=2)
    assert caplog.text.count("partition t-0: offsets 1 to 1") == 1
    restore()
    assert await found(world, topic, 15) == (ErrorCode.NONE, 1)
    assert await found(world, topic, 25) == (ErrorCode.NONE, 2)


@scenario(in_broker_world)
async def test_a_lookup_continues_behind_the_damage_where_the_topic_says_so(world, caplog) -> None:
    topic, restore = await with_a_hole(world, "skip")
    assert await found(world, topic, 15) == (ErrorCode.NONE, 2)
    assert await found(world, topic, 31) == (ErrorCode.NONE, -1)
    assert "read on at offset 2" in caplog.text
    restore()
    assert await found(world, topic, 15) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("restored", [False, True])
@scenario(in_broker_world)
async def test_the_newest_record_found_by_skipping_is_not_remembered(world, restored) -> None:
    topic, restore = await with_a_hole(world, "skip")
    partition = await world.partition(topic)
    partition.times.renew_newest(type(partition.times.newest)(99, 1))  # as if a later snapshot had said so
    assert await found(world, topic, NEWEST) == (ErrorCode.NONE, 2)
    if restored:
        restore()
        await found(world, topic, NEWEST)
    assert (partition.times.newest.offset == 2) is restored
