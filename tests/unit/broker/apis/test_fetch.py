"""Fetch as its clients see it: items 13, 17, 19 and 27 to 34."""

import asyncio
import inspect

import pytest

from siltstone.broker.request import CloseConnection
from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.batch_header import read_batch_header
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.headers import RequestHeader, encode_request_header
from siltstone.kafka_protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from siltstone.model.errors import CorruptData, Unavailable
from siltstone.model.limits import FETCH_READS_SIDE_BY_SIDE
from siltstone.object_store.port import StoreDenied
from support.broker.broker_world import READ, WRITE, in_broker_world
from support.broker.partition_state import trim_in_metadata
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
from support.kafka.message_versions import versions_with_own_layout
from support.scenarios import scenario

VERSIONS = versions_with_own_layout(FetchRequest, FetchResponse)
LEADER_EPOCHS, SESSIONS = 9, 7
"""Since these versions there are such things in a request."""
SIZE = len(batch_of(value_bytes=100))


def codes(response) -> list[ErrorCode]:
    return [ErrorCode(row.error_code) for row in rows_of(response)]


async def filled(world, partitions=1, batches=1, records=1):
    """A topic with so many batches of SIZE bytes, if of one record, in each partition."""
    topic = await world.topic(partitions=partitions)
    for _ in range(batches):
        sent = [batch_of(records, value_bytes=100) for _ in range(partitions)]
        await world.client().ask(produce_request(topic, *sent))
    return topic


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


# -- items 13, 17, 19 --------------------------------------------------------------------------------------------


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


# -- items 27, 28, 33 --------------------------------------------------------------------------------------------


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


# -- items 29, 30, 31 --------------------------------------------------------------------------------------------


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


# -- item 32 -----------------------------------------------------------------------------------------------------


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


# -- reading fails -----------------------------------------------------------------------------------------------


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


# -- item 34 -----------------------------------------------------------------------------------------------------


def in_session(session_id, epoch, **fields):
    return {"session_id": session_id, "session_epoch": epoch, "wait_ms": 0, **fields}


def told(response):
    """Partition → batches."""
    return {row.index: batches_in(row) for row in rows_of(response)}


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= SESSIONS])
@scenario(in_broker_world)
async def test_item_34_only_changes_go_over_the_wire(world, version) -> None:
    topic = await filled(world, partitions=3)
    client = world.client()

    async def fetch(session_id, epoch, offsets, **fields):
        return await client.ask(
            fetch_request(topic, offsets, **in_session(session_id, epoch, **fields)), version
        )

    full = await fetch(0, 0, {0: 0, 1: 0, 2: 1})
    session_id = full.session_id
    assert session_id > 0
    assert told(full) == {0: [(0, 0)], 1: [(0, 0)], 2: []}
    response = await fetch(session_id, 1, {0: 1, 1: 1})
    assert (response.session_id, response.topics) == (session_id, [])
    await client.ask(produce_request(topic, batch_of()))
    assert told(await fetch(session_id, 2, {})) == {0: [(1, 1)]}
    assert told(await fetch(session_id, 3, {0: 2, 1: 0})) == {1: [(0, 0)]}
    await world.parts.partitions.trim(world.opened(topic, 2), 1)
    assert told(await fetch(session_id, 4, {1: 1})) == ({2: []} if version >= 5 else {})
    assert told(await fetch(session_id, 5, {2: 0}, forgotten=[0, 1])) == {2: []}
    await client.ask(produce_request(topic, batch_of(), batch_of(), batch_of()))
    assert told(await fetch(session_id, 6, {2: 1})) == {2: [(1, 1)]}


@pytest.mark.parametrize(
    ("session_id_plus", "epoch", "code"),
    [
        (1, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, 2**31 - 1, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, -2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
@scenario(in_broker_world)
async def test_item_34_requests_out_of_order_are_refused(world, session_id_plus, epoch, code) -> None:
    topic = await filled(world)
    client = world.client()
    session_id = (await client.ask(fetch_request(topic, {0: 0}, **in_session(0, 0)))).session_id
    request = fetch_request(topic, {0: 0}, **in_session(session_id + session_id_plus, epoch))
    refused = await client.ask(request)
    assert (ErrorCode(refused.error_code), refused.session_id, refused.topics) == (code, 0, [])
    assert (await client.ask(fetch_request(topic, {}, **in_session(session_id, 1)))).error_code == 0


@scenario(in_broker_world)
async def test_item_34_the_last_epoch_ends_the_session_and_asks_for_all(world) -> None:
    topic = await filled(world)
    client = world.client()
    session_id = (await client.ask(fetch_request(topic, {0: 0}, **in_session(0, 0)))).session_id
    last = await client.ask(fetch_request(topic, {0: 0}, **in_session(session_id, -1)))
    assert (last.session_id, told(last)) == (0, {0: [(0, 0)]})
    gone = await client.ask(fetch_request(topic, {}, **in_session(session_id, 1)))
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@scenario(in_broker_world)
async def test_item_34_a_new_session_in_place_of_the_old(world) -> None:
    topic = await filled(world)
    client = world.client()
    old = (await client.ask(fetch_request(topic, {0: 0}, **in_session(0, 0)))).session_id
    new = await client.ask(fetch_request(topic, {0: 0}, **in_session(old, 0)))
    assert new.session_id not in (0, old)
    assert told(new) == {0: [(0, 0)]}
    assert len(world.broker._fetch._sessions) == 1


@scenario(in_broker_world)
async def test_item_34_a_session_belongs_to_names_or_to_ids(world) -> None:
    topic = await filled(world)
    client = world.client()
    session_id = (await client.ask(fetch_request(topic, {0: 0}, **in_session(0, 0)), 12)).session_id
    refused = await client.ask(fetch_request(topic, {}, **in_session(session_id, 1)), 13)
    assert refused.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert (await client.ask(fetch_request(topic, {}, **in_session(session_id, 1)), 12)).error_code == 0


@scenario(in_broker_world)
async def test_item_34_a_long_poll_waits_for_all_partitions_of_its_session(world) -> None:
    topic = await filled(world, partitions=2)
    client = world.client()
    session_id = (await client.ask(fetch_request(topic, {0: 1, 1: 1}, **in_session(0, 0)))).session_id
    asked = client.send(fetch_request(topic, {}, **in_session(session_id, 1, wait_ms=500)))
    await settled()
    assert not asked.done()
    await world.client().ask(produce_request(topic, None, batch_of()))
    assert told(await asked) == {1: [(1, 1)]}


@scenario(in_broker_world)
async def test_item_34_a_session_left_without_partitions_ends(world) -> None:
    topic = await filled(world)
    client = world.client()
    session_id = (await client.ask(fetch_request(topic, {0: 0}, **in_session(0, 0)))).session_id
    last = await client.ask(fetch_request(topic, {}, **in_session(session_id, 1, wait_ms=500, forgotten=[0])))
    assert (last.error_code, last.session_id, last.topics) == (0, 0, [])


@scenario(in_broker_world, BrokerSettings(fetch_sessions_max=1))
async def test_item_34_without_room_every_fetch_is_a_full_one(world) -> None:
    topic = await filled(world)
    client = world.client()
    first = await client.ask(fetch_request(topic, {0: 0}, **in_session(0, 0)))
    second = await client.ask(fetch_request(topic, {0: 0}, **in_session(0, 0)))
    assert first.session_id > 0 and second.session_id == 0
    assert told(second) == told(first)


@scenario(in_broker_world)
async def test_item_34_errors_are_told_until_they_are_mended(world) -> None:
    topic = await filled(world, partitions=2)
    client = world.client()
    full = await client.ask(fetch_request(topic, {0: 1, 1: 9}, **in_session(0, 0)))
    for epoch in (1, 2):
        response = await client.ask(fetch_request(topic, {}, **in_session(full.session_id, epoch)))
        assert [(row.index, row.error_code) for row in rows_of(response)] == [(1, 1)]
    mended = await client.ask(fetch_request(topic, {1: 1}, **in_session(full.session_id, 3)))
    assert [(row.index, row.error_code) for row in rows_of(mended)] == [(1, 0)]
    assert rows_of(await client.ask(fetch_request(topic, {}, **in_session(full.session_id, 4)))) == []
    broken = await client.ask(fetch_request(topic, {0: 9}, **in_session(full.session_id, 5)))
    assert [(row.index, row.error_code) for row in rows_of(broken)] == [(0, 1)]
    mended = await client.ask(fetch_request(topic, {0: 1}, **in_session(full.session_id, 6)))
    assert [(row.index, row.error_code) for row in rows_of(mended)] == [(0, 0)]


@scenario(in_broker_world)
async def test_item_34_who_had_data_comes_last_the_next_time(world) -> None:
    topic = await filled(world, partitions=3, batches=3)
    client = world.client()
    limits = {"max_bytes": 1}
    response = await client.ask(fetch_request(topic, {0: 0, 1: 0, 2: 0}, **in_session(0, 0, **limits)))
    session_id, turns = response.session_id, []
    for epoch in range(1, 5):
        response = await client.ask(fetch_request(topic, {}, **in_session(session_id, epoch, **limits)))
        turns += [row.index for row in rows_of(response)]
    assert turns == [1, 2, 0, 1]


@scenario(in_broker_world)
async def test_sessions_need_version_7(world) -> None:
    topic = await filled(world)
    response = await world.client().ask(fetch_request(topic, {0: 0}), 6)
    assert (response.session_id, told(response)) == (0, {0: [(0, 0)]})
    assert len(world.broker._fetch._sessions) == 0


# -- strange requests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [0, -1])
@scenario(in_broker_world)
async def test_nothing_to_fetch_is_answered_at_once(world, epoch) -> None:
    topic = await filled(world)
    response = await world.client().ask(fetch_request(topic, {}, session_epoch=epoch))
    assert (response.error_code, response.session_id, response.topics) == (0, 0, [])


@pytest.mark.parametrize("epoch", [0, -1])
@scenario(in_broker_world)
async def test_a_partition_named_twice_is_answered_once_as_named_last(world, epoch) -> None:
    topic = await filled(world, partitions=2, batches=2)
    partitions = [
        FetchPartition(index=index, fetch_offset=offset, bytes_max=1_000)
        for index, offset in ((0, 0), (1, 0), (0, 1))
    ]
    request = fetch_request(topic, partitions, session_epoch=epoch)
    rows = rows_of(await world.client().ask(request))
    assert [(row.index, batches_in(row)) for row in rows] == [
        (0, [(1, 1)]),
        (1, [(0, 0), (1, 1)]),
    ]


@scenario(in_broker_world)
async def test_a_thousand_partitions(world) -> None:
    topic = await world.topic(partitions=1_000)
    client = world.client()
    await client.ask(produce_request(topic, *[batch_of()] * 1_000))
    full = await client.ask(fetch_request(topic, dict.fromkeys(range(1_000), 0), **in_session(0, 0)))
    assert [batches_in(row) for row in rows_of(full)] == [[(0, 0)]] * 1_000
    positions = dict.fromkeys(range(1_000), 1)
    waiting = client.send(fetch_request(topic, positions, **in_session(full.session_id, 1, wait_ms=500)))
    await settled()
    await client.ask(produce_request(topic, *[None] * 500, batch_of()))
    assert told(await waiting) == {500: [(1, 1)]}


@scenario(in_broker_world)
async def test_a_frame_that_is_none_closes_the_connection(world) -> None:
    client = world.client()
    header = encode_request_header(RequestHeader(FetchRequest.api_key, 12, 1, "c"))
    handled = world.broker.handle(client.connection, memoryview(bytearray(header + b"\0\0")))
    assert inspect.iscoroutine(handled)
    with pytest.raises(CloseConnection):
        await handled


@scenario(in_broker_world)
async def test_item_27_a_trim_that_only_the_metadata_has_heard_of_yet(world) -> None:
    topic = await filled(world, batches=5)
    await world.restart()
    partition = await world.partition(topic)
    await trim_in_metadata(partition, world.parts, 3)
    asked = world.client().send(fetch_request(topic, {0: 1}))
    await settled()
    assert not asked.done()
    await world.parts.partitions.trim(partition, 3)
    row = row_of(await asked)
    assert (row.error_code, row.high_watermark, row.log_start_offset) == (1, 5, 3)
