"""Fetch as its clients see it: items 13, 17, 19 and 27 to 34."""

import asyncio

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from support.broker.broker_world import WRITE, in_broker_world
from support.broker.fetch_tests import LEADER_EPOCHS, VERSIONS, filled
from support.engine.engine_world import settled
from support.kafka.kafka_batches import bytes_of_records
from support.kafka.kafka_requests import (
    TOPIC_IDS,
    batch_of,
    batches_in,
    fetch_request,
    produce_request,
    row_of,
    rows_of,
)
from support.scenarios import scenario

"""Since these versions there are such things in a request."""


def codes(response) -> list[ErrorCode]:
    return [ErrorCode(row.error_code) for row in rows_of(response)]


@pytest.mark.parametrize("version", VERSIONS)
@scenario(in_broker_world)
async def test_in_every_layout(world, version) -> None:
    topic = await filled(world, partitions=2, batches=2, records=3)
    await world.parts.partitions.trim(world.opened(topic, 1), 3)
    response = await world.client().ask(fetch_request(topic, {0: 0, 1: 3}), version)
    assert (response.error_code, response.session_id, response.throttle_time_ms) == (0, 0, 0)
    (answered,) = response.topics
    if version >= TOPIC_IDS:
        assert (answered.name, answered.topic_id) == ("", topic.topic_id)
    else:
        assert answered.name == "t"
    first, second = answered.partitions
    assert (first.index, batches_in(first)) == (0, [(0, 2), (3, 5)])
    assert (second.index, batches_in(second)) == (1, [(3, 5)])
    for row, start in ((first, 0), (second, 3)):
        assert (row.error_code, row.high_watermark, row.last_stable_offset) == (0, 6, 6)
        assert row.log_start_offset == (start if version >= 5 else -1)
        assert row.preferred_read_replica == -1
        assert row.current_leader.leader_id == row.diverging_epoch.end_offset == -1


@pytest.mark.parametrize("version", VERSIONS)
@scenario(in_broker_world)
async def test_items_13_and_17_topics_and_partitions_that_there_are_not(world, version) -> None:
    topic = await filled(world)
    partitions = [FetchPartition(index=index, bytes_max=1_000) for index in (0, 1, -1)]
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        topics=[
            FetchTopic(name="u", topic_id=b"\7" * 16, partitions=[FetchPartition(index=0)]),
            FetchTopic(name="t", topic_id=topic.topic_id, partitions=partitions),
        ],
    )
    response = await world.client().ask(request, version)
    no_partition = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    no_topic = ErrorCode.UNKNOWN_TOPIC_ID if version >= TOPIC_IDS else no_partition
    assert codes(response) == [no_topic, ErrorCode.NONE, no_partition, no_partition]
    unknown = rows_of(response)[0]
    assert (unknown.high_watermark, unknown.records is not None, bytes_of_records(unknown)) == (
        -1,
        True,
        b"",
    )
    assert world.parts.topics.by_name("u") is None
    if version >= TOPIC_IDS:
        assert [answered.topic_id for answered in response.topics] == [b"\7" * 16, topic.topic_id]


@pytest.mark.parametrize("version", [12, 13])
@scenario(in_broker_world)
async def test_item_13_a_topic_that_goes_before_its_partition_is_opened(world, version) -> None:
    topic = await filled(world)
    await world.restart()
    world.calls.hold("append_all")
    deletion = asyncio.ensure_future(world.parts.partitions.delete_topic(topic))
    asked = world.client().send(fetch_request(topic, {0: 0}), version)
    await settled()
    world.calls.release("append_all")
    await deletion
    expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= TOPIC_IDS else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(await asked) == [expected]


@scenario(in_broker_world)
async def test_item_17_a_new_topic_of_the_same_name_is_another(world) -> None:
    old = await filled(world)
    await world.parts.partitions.delete_topic(old)
    await world.topic()
    assert codes(await world.client().ask(fetch_request(old, {0: 0}), 13)) == [ErrorCode.UNKNOWN_TOPIC_ID]
    row = row_of(await world.client().ask(fetch_request(old, {0: 0}, wait_ms=0), 12))
    assert (row.error_code, row.high_watermark) == (0, 0)


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= LEADER_EPOCHS])
@scenario(in_broker_world)
async def test_item_19_leader_epochs(world, version) -> None:
    topic = await filled(world)
    await world.restart()
    answers = {}
    for epoch in (-1, 0, 1, 2):
        partition = FetchPartition(index=0, bytes_max=1_000, current_leader_epoch=epoch)
        answers[epoch] = await world.client().ask(fetch_request(topic, [partition]), version)
    assert {epoch: codes(answer)[0] for epoch, answer in answers.items()} == {
        -1: ErrorCode.NONE,
        0: ErrorCode.FENCED_LEADER_EPOCH,
        1: ErrorCode.NONE,
        2: ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
    for epoch, answer in answers.items():
        leader = row_of(answer).current_leader
        if epoch == 0 and version >= 16:
            assert (leader.leader_id, leader.leader_epoch) == (7, 1)
            (node,) = answer.node_endpoints
            assert (node.node_id, node.host, node.port) == (7, "kafka.example", 9092)
        else:
            assert (leader.leader_id, leader.leader_epoch, answer.node_endpoints) == (-1, -1, [])
    assert row_of(answers[0]).high_watermark == -1


@scenario(in_broker_world)
async def test_the_epoch_of_what_was_read_last(world) -> None:
    topic = await filled(world)
    await world.restart()
    await world.client().ask(produce_request(topic, batch_of()))

    async def ask(offset, epoch):
        partition = FetchPartition(index=0, fetch_offset=offset, bytes_max=1_000, last_fetched_epoch=epoch)
        return row_of(await world.client().ask(fetch_request(topic, [partition], wait_ms=0)))

    row = await ask(2, 0)
    assert (row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (0, 1)
    assert (row.error_code, bytes_of_records(row)) == (0, b"")
    row = await ask(1, 0)
    assert (row.diverging_epoch.epoch, batches_in(row)) == (-1, [(1, 1)])
    assert (await ask(1, 9)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", [4, 11, 18])
@scenario(in_broker_world)
async def test_item_27_offsets_out_of_range(world, version) -> None:
    topic = await filled(world, batches=4)
    await world.parts.partitions.trim(world.opened(topic), 2)
    for offset in (-1, 0, 1, 5, 2**62):
        row = row_of(await world.client().ask(fetch_request(topic, {0: offset}), version))
        assert (row.error_code, row.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, 4)
        assert row.log_start_offset == (2 if version >= 5 else -1)
        assert (bytes_of_records(row), row.preferred_read_replica) == (b"", -1)
    for offset, given in ((2, [(2, 2), (3, 3)]), (3, [(3, 3)])):
        assert batches_in(row_of(await world.client().ask(fetch_request(topic, {0: offset})))) == given


@scenario(in_broker_world)
async def test_items_27_and_28_at_the_end_of_the_log_one_waits(world) -> None:
    topic = await filled(world)
    asked = world.client().send(fetch_request(topic, {0: 1}, wait_ms=500))
    await settled()
    await world.pass_ms(499)
    assert not asked.done()
    await world.pass_ms(1)
    row = row_of(await asked)
    assert (row.error_code, row.high_watermark, bytes_of_records(row)) == (0, 1, b"")


@scenario(in_broker_world)
async def test_a_broker_that_closes_answers_waiting_fetches_and_lets_none_wait(world) -> None:
    topic = await filled(world)
    asked = world.client().send(fetch_request(topic, {0: 1}, wait_ms=500))
    await settled()
    assert not asked.done()
    world.broker.end_waits()
    assert row_of(await asked).high_watermark == 1
    assert row_of(await world.client().ask(fetch_request(topic, {0: 1}, wait_ms=500))).error_code == 0


@scenario(in_broker_world)
async def test_items_28_and_33_only_what_is_durable_ends_the_wait(world) -> None:
    topic = await filled(world)
    client = world.client()
    world.calls.hold(WRITE)
    produced = world.client().send(produce_request(topic, batch_of(2)))
    await settled()
    row = row_of(await client.ask(fetch_request(topic, {0: 0})))
    assert (row.high_watermark, batches_in(row)) == (1, [(0, 0)])
    beyond = await client.ask(fetch_request(topic, {0: 2}))
    assert codes(beyond) == [ErrorCode.OFFSET_OUT_OF_RANGE]
    waiting = client.send(fetch_request(topic, {0: 1}))
    await settled()
    assert not waiting.done()
    world.calls.release(WRITE)
    row = row_of(await waiting)
    assert (row.high_watermark, batches_in(row)) == (3, [(1, 2)])
    await produced


@pytest.mark.parametrize("where", ["memory", "objects"])
@pytest.mark.parametrize(
    ("name", "partition", "code"),
    [
        ("t", FetchPartition(index=1, fetch_offset=9), ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", FetchPartition(index=7), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", FetchPartition(index=1, current_leader_epoch=99), ErrorCode.UNKNOWN_LEADER_EPOCH),
        ("u", FetchPartition(index=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
@scenario(in_broker_world)
async def test_item_28_an_error_ends_the_wait_of_all(world, name, partition, code, where) -> None:
    topic = await filled(world, partitions=2)
    if where == "objects":
        await world.restart()
    request = fetch_request(topic, {0: 1})
    request.topics.append(FetchTopic(name=name, partitions=[partition]))
    assert codes(await world.client().ask(request, 12)) == [ErrorCode.NONE, code]


@scenario(in_broker_world)
async def test_item_28_other_topics_do_not_end_the_wait(world) -> None:
    topic = await filled(world)
    other = await world.topic("other")
    asked = world.client().send(fetch_request(topic, {0: 1}))
    await world.client().ask(produce_request(other, batch_of()))
    await settled()
    assert not asked.done()
    await world.pass_ms(500)
    await asked


@pytest.mark.parametrize("wait_ms", [-1, -(2**31), 0])
@pytest.mark.parametrize("min_bytes", [-(2**31), 0, 1, 2**31 - 1])
@scenario(in_broker_world)
async def test_strange_limits_of_the_wait(world, wait_ms, min_bytes) -> None:
    topic = await filled(world)
    response = await world.client().ask(fetch_request(topic, {0: 1}, wait_ms=wait_ms, min_bytes=min_bytes))
    assert codes(response) == [ErrorCode.NONE]
