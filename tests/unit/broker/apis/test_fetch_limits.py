"""The limits of a Fetch in bytes and partitions (items 29 to 33), and reads that fail."""

import pytest

from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.batch_header import read_batch_header
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from siltstone.model.errors import CorruptData, Unavailable
from siltstone.model.limits import FETCH_READS_SIDE_BY_SIDE
from siltstone.object_store.port import StoreDenied
from support.broker.broker_world import READ, in_broker_world
from support.broker.fetch_tests import VERSIONS, filled
from support.kafka.kafka_batches import bytes_of_records
from support.kafka.kafka_requests import (
    batch_of,
    batches_in,
    fetch_request,
    produce_request,
    row_of,
    rows_of,
)
from support.scenarios import scenario

SIZE = len(batch_of(value_bytes=100))


@pytest.mark.parametrize(
    ("partition_bytes", "bytes_max", "given"),
    [
        (2**31 - 1, 2**31 - 1, [3, 3, 3]),
        (2 * SIZE, 2**31 - 1, [2, 2, 2]),
        (2 * SIZE - 1, 2**31 - 1, [1, 1, 1]),
        (1, 2**31 - 1, [1, 0, 0]),
        (2**31 - 1, 4 * SIZE, [3, 1, 0]),
        (2**31 - 1, 6 * SIZE, [3, 3, 0]),
        (2**31 - 1, 5 * SIZE - 1, [3, 1, 0]),
        (2 * SIZE, 3 * SIZE, [2, 1, 0]),
        (2**31 - 1, 2 * SIZE, [2, 0, 0]),
        (2**31 - 1, 1, [1, 0, 0]),
        (0, 0, [1, 0, 0]),
        (0, 2**31 - 1, [1, 0, 0]),
        (-(2**31), 2**31 - 1, [1, 0, 0]),
        (2**31 - 1, 0, [1, 0, 0]),
        (2**31 - 1, -(2**31), [1, 0, 0]),
        (-1, -1, [1, 0, 0]),
        (-(2**31), -(2**31), [1, 0, 0]),
    ],
)
@pytest.mark.parametrize("where", ["memory", "objects"])
def test_item_29_limits(partition_bytes, bytes_max, given, where):
    async def scenario(world):
        topic = await filled(world, partitions=3, batches=3)
        if where == "objects":
            await world.restart()
        request = fetch_request(topic, {0: 0, 1: 0, 2: 0}, bytes_max=partition_bytes, max_bytes=bytes_max)
        rows = rows_of(await world.client().ask(request))
        assert [len(batches_in(row)) for row in rows] == given
        assert [row.high_watermark for row in rows] == [3] * 3

    in_broker_world(scenario)


@pytest.mark.parametrize("where", ["memory", "objects"])
@scenario(in_broker_world)
async def test_item_29_a_first_batch_larger_than_every_limit_is_given_wherever_it_is(world, where) -> None:
    topic = await world.topic(partitions=3)
    large = batch_of(value_bytes=5_000)
    await world.client().ask(produce_request(topic, batch_of(), large, batch_of()))
    if where == "objects":
        await world.restart()
    request = fetch_request(topic, {0: 1, 1: 0, 2: 0}, bytes_max=100, max_bytes=200)
    rows = rows_of(await world.client().ask(request))
    assert [batches_in(row) for row in rows] == [[], [(0, 0)], []]


@pytest.mark.parametrize("where", ["memory", "objects"])
@scenario(in_broker_world)
async def test_item_29_a_fetch_goes_on_where_the_limit_stopped_it(world, where) -> None:
    """Nor is a batch that is larger than the limit given behind another."""
    topic = await world.topic()
    for count in (1, 4, 2, 9, 1):
        await world.client().ask(produce_request(topic, batch_of(count, value_bytes=count * 100)))
    if where == "objects":
        await world.restart()
    answers, offset = [], 0
    while offset < 17:
        request = fetch_request(topic, {0: offset}, bytes_max=700)
        answers.append(batches_in(row_of(await world.client().ask(request))))
        offset = answers[-1][-1][1] + 1
    assert answers == [[(0, 0)], [(1, 4)], [(5, 6)], [(7, 15)], [(16, 16)]]


@pytest.mark.parametrize("batches", [1, 2, 3, 4, 7, 25, 33, 100])
def test_item_29_of_more_partitions_than_are_read_side_by_side(batches):
    partitions = FETCH_READS_SIDE_BY_SIDE + 4

    async def scenario(world):
        topic = await filled(world, partitions, batches=3)
        await world.restart()
        request = fetch_request(
            topic, dict.fromkeys(range(partitions), 0), max_bytes=batches * SIZE + SIZE // 2
        )
        given = [len(batches_in(row)) for row in rows_of(await world.client().ask(request))]
        assert given == [max(0, min(3, batches - 3 * index)) for index in range(partitions)]

    in_broker_world(scenario)


@scenario(in_broker_world)
async def test_item_29_partitions_in_the_order_of_the_request(world) -> None:
    topic = await filled(world, partitions=3)
    partitions = [FetchPartition(index=index, bytes_max=10_000) for index in (2, 0, 1)]
    rows = rows_of(await world.client().ask(fetch_request(topic, partitions, max_bytes=2 * SIZE)))
    assert [(row.index, len(batches_in(row))) for row in rows] == [(2, 1), (0, 1), (1, 0)]


@scenario(in_broker_world, BrokerSettings(fetch_max_bytes=2 * SIZE + 1))
async def test_item_29_the_brokers_own_limit(world) -> None:
    topic = await filled(world, batches=5)
    request = fetch_request(topic, {0: 0}, bytes_max=2**31 - 1, max_bytes=2**31 - 1)
    assert len(batches_in(row_of(await world.client().ask(request)))) == 2


@pytest.mark.parametrize("where", ["memory", "objects"])
@scenario(in_broker_world)
async def test_item_30_the_batch_that_holds_the_offset_comes_from_its_beginning(world, where) -> None:
    topic = await filled(world, batches=2, records=5)
    await world.parts.partitions.trim(world.opened(topic), 2)
    if where == "objects":
        await world.restart()
    client = world.client()
    for offset, given in ((2, [(0, 4), (5, 9)]), (4, [(0, 4), (5, 9)]), (5, [(5, 9)]), (9, [(5, 9)])):
        row = row_of(await client.ask(fetch_request(topic, {0: offset})))
        assert (batches_in(row), row.log_start_offset) == (given, 2)


@pytest.mark.parametrize("version", VERSIONS)
@scenario(in_broker_world)
async def test_item_31_nothing_is_empty_and_not_null(world, version) -> None:
    topic = await filled(world)
    request = fetch_request(topic, {0: 1, 5: 0}, wait_ms=0)
    rows = rows_of(await world.client().ask(request, version))
    assert [row.records is not None and bytes_of_records(row) for row in rows] == [b"", b""]
    assert (rows[1].high_watermark, rows[1].last_stable_offset, rows[1].log_start_offset) == (-1, -1, -1)


@pytest.mark.parametrize("version", [4, 11, 18])
@scenario(in_broker_world)
async def test_item_32_isolation(world, version) -> None:
    topic = await filled(world)
    for level, aborted in ((0, None), (1, [])):
        request = fetch_request(topic, {0: 0, 9: 0}, isolation_level=level)
        rows = rows_of(await world.client().ask(request, version))
        for row in rows:
            assert (row.aborted_transactions, row.last_stable_offset) == (aborted, row.high_watermark)
        assert batches_in(rows[0]) == [(0, 0)]


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Unavailable("no bucket"), ErrorCode.KAFKA_STORAGE_ERROR),
        (StoreDenied("403 ExpiredToken"), ErrorCode.KAFKA_STORAGE_ERROR),
        (CorruptData("flipped"), ErrorCode.CORRUPT_MESSAGE),
    ],
)
@scenario(in_broker_world)
async def test_what_cannot_be_read_is_told_in_its_partition(world, failure, code) -> None:
    topic = await filled(world)
    await world.restart()
    other = await world.topic("other")
    await world.client().ask(produce_request(other, batch_of()))
    await world.partition(topic)
    world.calls.fail(READ, failure)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        topics=[
            FetchTopic(topic_id=each.topic_id, partitions=[FetchPartition(index=0, bytes_max=1_000)])
            for each in (topic, other)
        ],
    )
    rows = rows_of(await world.client().ask(request))
    assert (rows[0].error_code, rows[0].high_watermark) == (code, -1)
    assert batches_in(rows[1]) == [(0, 0)]


@scenario(in_broker_world)
async def test_a_partition_that_cannot_be_opened_is_named_in_the_log(world, caplog) -> None:
    topic = await filled(world)
    await world.parts.engine.flush()
    await world.crash()
    world.calls.fail(READ, Unavailable("no bucket"))
    row = row_of(await world.client().ask(fetch_request(topic, {0: 0})))
    assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "partition t-0 cannot be read at the moment, and clients try again: no bucket" in caplog.text
    world.calls.before_call = lambda _: None


@scenario(in_broker_world)
async def test_item_33_after_a_crash_what_was_read_is_still_there(world) -> None:
    topic = await filled(world, batches=3, records=2)
    before = row_of(await world.client().ask(fetch_request(topic, {0: 0})))
    await world.crash()
    after = row_of(await world.client().ask(fetch_request(topic, {0: 0})))
    assert bytes_of_records(after) == bytes_of_records(before)
    assert after.high_watermark == before.high_watermark == 6
    await world.client().ask(produce_request(topic, batch_of()))
    row = row_of(await world.client().ask(fetch_request(topic, {0: 6})))
    header = read_batch_header(bytes_of_records(row))
    assert (header.base_offset, header.partition_leader_epoch) == (6, 1)
