"""Produce as its clients see it: items 9, 13, 17 and 23 to 26."""

import asyncio
import gc
import weakref

import pytest
from msgspec.structs import replace

from siltstone.broker.apis.produce_under_way import ProduceUnderWay
from siltstone.broker.backlog.quota_rules import Backlog, Verdict
from siltstone.broker.backlog.verdicts import Sentence
from siltstone.broker.partitions.admission import NO_KEY
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.request import CloseConnection, Overtakable
from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.batch_header import TRANSACTIONAL_BIT, Codec, read_batch_header
from siltstone.kafka_protocol.codec import encode
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.headers import RequestHeader, encode_request_header
from siltstone.kafka_protocol.messages.produce import (
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.kafka_protocol.records.validation import RECORDS_NAMED_MAX
from siltstone.model.errors import Unavailable
from siltstone.model.limits import PRODUCE_HOLD_MS_MAX
from support.broker.broker_world import READ, SMALL_TAIL, WRITE, in_broker_world
from support.engine.engine_world import settled
from support.kafka.kafka_batches import bytes_of_records, with_header, with_offset_deltas
from support.kafka.kafka_requests import (
    NOW_MS,
    TOPIC_IDS,
    batch_of,
    fetch_request,
    produce_request,
    row_of,
    rows_of,
    sequenced,
    timed_batch,
)
from support.kafka.message_versions import versions_with_own_layout
from support.scenarios import scenario

SWEEP_MS = 1_000
VERSIONS = versions_with_own_layout(ProduceRequest, ProduceResponse)


def codes(response) -> list[ErrorCode]:
    return [ErrorCode(row.error_code) for row in rows_of(response)]


async def stored(world, topic, index=0) -> int:
    """How many records there are."""
    return (await world.partition(topic, index)).high_watermark


@pytest.mark.parametrize("version", VERSIONS)
@scenario(in_broker_world)
async def test_in_every_layout(world, version) -> None:
    topic = await world.topic(partitions=2)
    client = world.client()
    for base in (0, 3):
        response = await client.ask(produce_request(topic, batch_of(3), batch_of(3)), version)
        (answered,) = response.topics
        if version >= TOPIC_IDS:
            assert (answered.name, answered.topic_id) == ("", topic.topic_id)
        else:
            assert answered.name == "t"
        rows = [(row.index, row.error_code, row.base_offset) for row in answered.partitions]
        assert rows == [(0, 0, base), (1, 0, base)]
        assert {row.log_append_time_ms for row in answered.partitions} == {-1}
        assert {row.log_start_offset for row in answered.partitions} == {0 if version >= 5 else -1}
        assert all(row.record_errors == [] and row.error_message is None for row in answered.partitions)


# -- item 9 ------------------------------------------------------------------------------------------------------


@scenario(in_broker_world)
async def test_item_9_acks_0_has_no_answer(world) -> None:
    topic = await world.topic()
    client = world.client()
    assert await client.ask(produce_request(topic, batch_of(2), acks=0)) is None
    assert await client.ask(produce_request(topic, batch_of(2), acks=0)) is None
    assert await stored(world, topic) == 4


@scenario(in_broker_world)
async def test_item_9_an_error_with_acks_0_closes_the_connection(world) -> None:
    topic = await world.topic(partitions=2)
    client = world.client()
    for batches in ((batch_of(), b""), (with_header(batch_of(), crc=1), batch_of())):
        with pytest.raises(CloseConnection, match="acks=0"):
            await client.ask(produce_request(topic, *batches, acks=0))
    assert [await stored(world, topic, index) for index in range(2)] == [1, 1]


@pytest.mark.parametrize("acks", [2, -2, 32767])
@scenario(in_broker_world)
async def test_acks_that_mean_nothing(world, acks) -> None:
    topic = await world.topic(partitions=2)
    response = await world.client().ask(produce_request(topic, batch_of(), batch_of(), acks=acks))
    assert codes(response) == [ErrorCode.INVALID_REQUIRED_ACKS] * 2
    assert await stored(world, topic) == 0


@pytest.mark.parametrize("acks", [1, -1])
@scenario(in_broker_world)
async def test_acknowledged_means_durable(world, acks) -> None:
    topic = await world.topic()
    await world.partition(topic)
    world.calls.hold(WRITE)
    asked = world.client().send(produce_request(topic, batch_of(), acks=acks))
    await settled()
    assert not asked.done()
    world.calls.release(WRITE)
    assert row_of(await asked).base_offset == 0


# -- items 13, 17 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@scenario(in_broker_world)
async def test_items_13_and_17_topics_and_partitions_that_there_are_not(world, version) -> None:
    topic = await world.topic()
    response = await world.client().ask(
        ProduceRequest(
            acks=-1,
            timeout_ms=1_000,
            topics=[
                ProduceTopic(
                    name="u", topic_id=b"\7" * 16, partitions=[ProducePartition(records=batch_of())]
                ),
                ProduceTopic(
                    name="t",
                    topic_id=topic.topic_id,
                    partitions=[
                        ProducePartition(index=index, records=batch_of()) for index in (1, -1, 0, 2**31 - 1)
                    ],
                ),
            ],
        ),
        version,
    )
    no_partition = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    no_topic = ErrorCode.UNKNOWN_TOPIC_ID if version >= TOPIC_IDS else no_partition
    assert codes(response) == [no_topic, no_partition, no_partition, ErrorCode.NONE, no_partition]
    assert [row.base_offset for row in rows_of(response)] == [-1, -1, -1, 0, -1]
    assert [topic.topic_id for topic in response.topics] == (
        [b"\7" * 16, topic.topic_id] if version >= TOPIC_IDS else [bytes(16)] * 2
    )
    assert world.parts.topics.by_name("u") is None


@scenario(in_broker_world)
async def test_item_17_a_new_topic_of_the_same_name_is_another(world) -> None:
    old = await world.topic()
    await world.client().ask(produce_request(old, batch_of()))
    await world.parts.partitions.delete_topic(old)
    new = await world.topic()
    client = world.client()
    assert codes(await client.ask(produce_request(old, batch_of()), 13)) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert row_of(await client.ask(produce_request(old, batch_of()), 12)).base_offset == 0
    assert row_of(await client.ask(produce_request(new, batch_of()), 13)).base_offset == 1


@pytest.mark.parametrize("version", [12, 13])
@scenario(in_broker_world)
async def test_item_13_a_topic_that_goes_between_two_batches(world, version) -> None:
    topic = await world.topic()
    await world.partition(topic)
    client = world.client()
    world.calls.hold(WRITE)
    on_its_way = client.send(produce_request(topic, sequenced(1, 0)), version)
    await world.parts.partitions.delete_topic(topic)
    late = client.send(produce_request(topic, sequenced(1, 1)), version)
    world.calls.release(WRITE)
    assert codes(await on_its_way) == [ErrorCode.NONE]
    expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= TOPIC_IDS else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(await late) == [expected]


@scenario(in_broker_world, BrokerSettings(offsets_topic_num_partitions=1))
async def test_nobody_writes_into_the_brokers_own_topics(world) -> None:
    topic = await world.parts.creation.offsets_topic()
    response = await world.client().ask(produce_request(topic, batch_of()))
    assert codes(response) == [ErrorCode.INVALID_TOPIC_EXCEPTION]


# -- item 23 -----------------------------------------------------------------------------------------------------


@scenario(in_broker_world)
async def test_item_23_sequences(world) -> None:
    topic = await world.topic()
    client = world.client()

    async def send(sequence, count=2, epoch=1):
        row = row_of(await client.ask(produce_request(topic, sequenced(9, sequence, count, epoch))))
        return ErrorCode(row.error_code), row.base_offset

    assert [await send(2 * number) for number in range(6)] == [
        (ErrorCode.NONE, 2 * number) for number in range(6)
    ]
    assert await send(2) == (ErrorCode.NONE, 2)
    assert await send(10) == (ErrorCode.NONE, 10)
    assert await send(0) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)  # the sixth last
    assert await send(13) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert await send(12, epoch=0) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert await send(12, epoch=2) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert await send(0, epoch=2) == (ErrorCode.NONE, 12)
    assert await send(12, epoch=1) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert await stored(world, topic) == 14


@scenario(in_broker_world)
async def test_item_23_each_partition_counts_for_itself(world) -> None:
    topic = await world.topic(partitions=2)
    client = world.client()
    for sequence in range(2):
        await client.ask(produce_request(topic, sequenced(9, sequence)))
    again = rows_of(await client.ask(produce_request(topic, sequenced(9, 2), sequenced(9, 0))))
    assert [row.base_offset for row in again] == [2, 0]
    gap = await client.ask(produce_request(topic, sequenced(9, 3), sequenced(9, 2)))
    assert codes(gap) == [ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]


@scenario(in_broker_world)
async def test_item_23_a_repetition_on_its_way_is_answered_with_the_first(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    one, other = world.client(), world.client()
    world.calls.hold(WRITE)
    asked = [
        client.send(produce_request(topic, sequenced(9, 0, 3), timeout_ms=timeout_ms))
        for client, timeout_ms in ((one, 1_500), (other, 10_000))
    ]
    await settled()
    assert not any(answer.done() for answer in asked)
    await world.pass_ms(2 * SWEEP_MS)
    assert codes(await asked[0]) == [ErrorCode.REQUEST_TIMED_OUT]
    asked.append(one.send(produce_request(topic, sequenced(9, 0, 3))))
    await settled()
    assert not asked[2].done()
    world.calls.release(WRITE)
    assert [row_of(await answer).base_offset for answer in asked[1:]] == [0, 0]
    assert await stored(world, topic) == 3


@scenario(in_broker_world)
async def test_item_23_a_repetition_is_not_acknowledged_when_the_first_failed(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    client = world.client()
    world.calls.hold(WRITE)
    asked = [client.send(produce_request(topic, sequenced(9, 0))) for _ in range(2)]
    world.calls.fail(WRITE, OSError("no disk"))
    world.calls.release(WRITE)
    assert [codes(await answer) for answer in asked] == [[ErrorCode.KAFKA_STORAGE_ERROR]] * 2
    later = await client.ask(produce_request(topic, sequenced(9, 0)))
    assert codes(later) == [ErrorCode.KAFKA_STORAGE_ERROR]
    await world.crash()
    again = row_of(await world.client().ask(produce_request(topic, sequenced(9, 0))))
    assert (again.error_code, again.base_offset) == (0, 0)
    assert await stored(world, topic) == 1


@scenario(in_broker_world)
async def test_item_23_a_repetition_keeps_the_time_of_its_first_arrival(world) -> None:
    topic = await world.topic(message_timestamp_type="LogAppendTime")
    client = world.client()
    for _ in range(2):
        row = row_of(await client.ask(produce_request(topic, sequenced(9, 0))))
        assert (row.base_offset, row.log_append_time_ms) == (0, NOW_MS)
        await world.pass_ms(50)


# -- item 24 -----------------------------------------------------------------------------------------------------


@scenario(in_broker_world)
async def test_item_24_requests_under_way_are_put_in_the_order_of_their_arrival(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    client = world.client()
    world.calls.hold(WRITE)
    asked = [client.send(produce_request(topic, sequenced(9, 2 * number, 2))) for number in range(5)]
    world.calls.release(WRITE)
    assert [row_of(await answer).base_offset for answer in asked] == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("end", ["restart", "crash"])
@scenario(in_broker_world)
async def test_item_24_producers_are_known_in_the_next_life(world, end) -> None:
    topic = await world.topic()
    for sequence in range(3):
        await world.client().ask(produce_request(topic, sequenced(9, sequence)))
    await getattr(world, end)()
    client = world.client()
    assert row_of(await client.ask(produce_request(topic, sequenced(9, 1)))).base_offset == 1
    gap = await client.ask(produce_request(topic, sequenced(9, 4)))
    assert codes(gap) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    old = await client.ask(produce_request(topic, sequenced(9, 3, epoch=-1)))
    assert codes(old) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert row_of(await client.ask(produce_request(topic, sequenced(9, 3)))).base_offset == 3


@scenario(in_broker_world)
async def test_item_24_what_was_not_answered_before_a_crash_is_not_written_twice(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    client = world.client()
    unanswered = client.send(produce_request(topic, sequenced(9, 0)))
    world.calls.before_call = lambda _: None
    frozen = asyncio.Event()

    def freeze() -> None:
        world.calls.is_frozen = True
        frozen.set()

    world.calls.after_call = freeze
    await frozen.wait()
    assert not unanswered.done()
    world.calls.after_call = lambda: None
    await world.crash()
    again = row_of(await world.client().ask(produce_request(topic, sequenced(9, 0))))
    assert (again.error_code, again.base_offset) == (0, 0)
    assert await stored(world, topic) == 1
    unanswered.cancel()


@scenario(in_broker_world)
async def test_item_24_a_closed_partition_is_opened_before_the_next_request_to_it_is_begun(world) -> None:
    topic = await world.topic()
    client = world.client()
    closed = client.begin(produce_request(topic, sequenced(9, 0)), 13)
    assert isinstance(closed, Overtakable)
    await closed
    opened = client.begin(produce_request(topic, sequenced(9, 1)), 13)
    assert isinstance(opened, asyncio.Future)
    await opened
    assert client.connection.sends_records


def produce_to(topic, batches):
    request = produce_request(topic, *(batches.get(index) for index in range(max(batches) + 1)))
    partitions = [each for each in request.topics[0].partitions if each.index in batches]
    return replace(request, topics=[replace(request.topics[0], partitions=partitions)])


@scenario(in_broker_world)
async def test_item_24_a_partition_that_is_being_opened_holds_back_no_other(world) -> None:
    """Requests of one connection: to 0, to 1 which is open, to both, to 1 again, to 0 again. Those that share a
    partition with one that waits are appended behind it, each partition in the order of arrival."""
    topic = await world.topic(partitions=2)
    await world.client().ask(produce_request(topic, batch_of(), batch_of()))
    await world.restart()
    client = world.client()
    await client.ask(produce_to(topic, {1: batch_of()}))
    world.calls.hold(READ)
    requests = [
        produce_to(topic, batches)
        for batches in (
            {0: sequenced(9, 0)},
            {1: sequenced(9, 0)},
            {0: sequenced(9, 1), 1: sequenced(9, 1)},
            {1: sequenced(9, 2)},
            {0: sequenced(9, 2)},
        )
    ]
    sent = []
    for request in requests:
        sent.append(client.send(request))
        await settled()
    assert [each.done() for each in sent] == [False, True, False, False, False]
    world.calls.release(READ)
    rows = [
        [(row.index, row.error_code, row.base_offset) for row in (await each).topics[0].partitions]
        for each in sent
    ]
    assert rows[0] == [(0, 0, 1)] and rows[1] == [(1, 0, 2)]
    assert rows[2:] == [[(0, 0, 2), (1, 0, 3)], [(1, 0, 4)], [(0, 0, 3)]]
    assert client.connection.produces_waiting == {}


@scenario(in_broker_world)
async def test_item_24_a_client_that_goes_while_its_partition_is_opened(world) -> None:
    topic = await world.topic()
    await world.client().ask(produce_request(topic, sequenced(9, 0)))
    await world.restart()
    world.calls.hold(READ)
    gone = world.client().send(produce_request(topic, sequenced(9, 1)))
    await settled()
    gone.cancel()
    world.calls.release(READ)
    await settled()
    assert await stored(world, topic) == 1


@pytest.mark.parametrize("acks", [-1, 0])
@scenario(in_broker_world)
async def test_item_24_a_client_that_goes_before_the_answer(world, acks, caplog) -> None:
    topic = await world.topic()
    world.calls.hold(WRITE)
    gone = world.client().send(produce_request(topic, batch_of(), acks=acks))
    await settled()
    gone.cancel()
    await settled()
    world.calls.release(WRITE)
    await settled()
    assert await stored(world, topic) == 1
    gc.collect()
    assert "never retrieved" not in caplog.text


# -- item 25 -----------------------------------------------------------------------------------------------------


@scenario(in_broker_world)
async def test_item_25_partitions_of_one_request_succeed_and_fail_by_themselves(world) -> None:
    topic = await world.topic(partitions=5)
    request = produce_request(
        topic,
        batch_of(2),
        with_header(batch_of(), crc=1),
        sequenced(9, 0),
        None,
        batch_of(value_bytes=100),
    )
    response = await world.client().ask(request)
    assert codes(response) == [
        ErrorCode.NONE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NONE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.NONE,
    ]
    assert [row.base_offset for row in rows_of(response)] == [0, -1, 0, -1, 0]
    assert [await stored(world, topic, index) for index in range(5)] == [2, 0, 1, 0, 1]


@scenario(in_broker_world)
async def test_item_25_answered_when_the_last_is_durable(world) -> None:
    topic = await world.topic(partitions=2)
    for index in range(2):
        await world.partition(topic, index)
    client = world.client()
    await client.ask(produce_request(topic, sequenced(9, 0)))
    world.calls.hold(WRITE)
    asked = client.send(produce_request(topic, sequenced(9, 0), batch_of()))
    await settled()
    assert not asked.done()
    world.calls.release(WRITE)
    assert codes(await asked) == [ErrorCode.NONE] * 2


@pytest.mark.parametrize(("timeout_ms", "sweeps"), [(1_500, 2), (999, 1), (0, 1), (-1, 1), (-(2**31), 1)])
@scenario(in_broker_world)
async def test_item_25_what_takes_too_long_is_answered_and_may_stand_all_the_same(
    world, timeout_ms, sweeps
) -> None:
    topic = await world.topic(partitions=2)
    for index in range(2):
        await world.partition(topic, index)
    client = world.client()
    await client.ask(produce_request(topic, sequenced(9, 0)))
    world.calls.hold(WRITE)
    asked = client.send(produce_request(topic, sequenced(9, 0), batch_of(), timeout_ms=timeout_ms))
    for _ in range(sweeps):
        await settled()
        assert not asked.done()
        await world.pass_ms(SWEEP_MS)
    response = await asked
    assert codes(response) == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
    assert [row.base_offset for row in rows_of(response)] == [0, -1]
    world.calls.release(WRITE)
    await settled()
    assert await stored(world, topic, 1) == 1


@scenario(in_broker_world)
async def test_item_25_what_was_durable_in_time_is_told_so(world) -> None:
    topic = await world.topic(partitions=2)
    for index in range(2):
        await world.partition(topic, index)
    world.calls.hold(WRITE)
    first = world.client().send(produce_request(topic, sequenced(9, 0)))
    await settled()
    asked = world.client().send(produce_request(topic, sequenced(9, 0), batch_of(), timeout_ms=10))
    world.calls.release(WRITE)
    world.calls.hold(WRITE)  # the group with the second partition's
    assert codes(await first) == [ErrorCode.NONE]
    await settled()
    assert not asked.done()
    await world.pass_ms(SWEEP_MS)
    assert codes(await asked) == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
    world.calls.release(WRITE)


@pytest.mark.parametrize("timeout_ms", [0, -1, 2**31 - 1])
@scenario(in_broker_world)
async def test_item_25_no_time_limit_is_an_error_while_batches_become_durable_at_once(
    world, timeout_ms
) -> None:
    topic = await world.topic()
    request = produce_request(topic, batch_of(), timeout_ms=timeout_ms)
    assert codes(await world.client().ask(request)) == [ErrorCode.NONE]


@scenario(in_broker_world)
async def test_item_25_an_answer_within_its_time_is_not_touched_by_the_clock(world) -> None:
    topic = await world.topic()
    client = world.client()
    for _ in range(3):
        asked = client.send(produce_request(topic, batch_of(), timeout_ms=2**31 - 1))
        await world.pass_ms(10 * SWEEP_MS)
        assert codes(await asked) == [ErrorCode.NONE]
    assert not world.broker._produce._under_way


@scenario(in_broker_world)
async def test_acks_0_and_too_late_closes_the_connection(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    world.calls.hold(WRITE)
    asked = world.client().send(produce_request(topic, batch_of(), acks=0, timeout_ms=10))
    await settled()
    await world.pass_ms(SWEEP_MS)
    with pytest.raises(CloseConnection, match="REQUEST_TIMED_OUT"):
        await asked
    world.calls.release(WRITE)


# -- over a backlog quota ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timeout_ms", "wait_ms"),
    [(1_000, 500), (2 * PRODUCE_HOLD_MS_MAX, PRODUCE_HOLD_MS_MAX), (60_000, PRODUCE_HOLD_MS_MAX)],
)
@scenario(in_broker_world)
async def test_a_held_request_waits_for_half_of_its_time_limit_and_not_longer_than_ours(
    world, timeout_ms, wait_ms
) -> None:
    """The other half is for the append, when the group has caught up at the last moment."""
    topic = await world.topic()
    held = Sentence(Verdict.HOLD, Backlog("g", size_bytes=2, quota_bytes=1))
    world.parts.quota_verdicts.pronounce({(topic.id, 0): held})
    asked = world.client().send(produce_request(topic, batch_of(), timeout_ms=timeout_ms))
    await settled()
    await world.pass_ms(wait_ms - 1)
    assert not asked.done()
    await world.pass_ms(1)
    assert asked.done() and codes(asked.result()) == [ErrorCode.REQUEST_TIMED_OUT]
    assert await stored(world, topic) == 0


# -- item 26 and refusals ----------------------------------------------------------------------------------------


@scenario(in_broker_world)
async def test_item_26_the_brokers_time_and_the_start_of_the_log_are_told(world) -> None:
    topic = await world.topic(message_timestamp_type="LogAppendTime")
    client = world.client()
    await client.ask(produce_request(topic, batch_of(3)))
    await world.parts.partitions.trim(world.opened(topic), 2)
    row = row_of(await client.ask(produce_request(topic, timed_batch(1, 2))))
    assert (row.base_offset, row.log_append_time_ms, row.log_start_offset) == (3, NOW_MS, 2)
    stored = read_batch_header(bytes_of_records(row_of(await client.ask(fetch_request(topic, {0: 3})))))
    assert (stored.is_log_append_time, stored.max_timestamp_ms) == (True, NOW_MS)


REFUSED = {
    "no batch": (None, {}, ErrorCode.INVALID_RECORD),
    "empty": (b"", {}, ErrorCode.INVALID_RECORD),
    "two batches": (batch_of() + batch_of(), {}, ErrorCode.INVALID_RECORD),
    "half a batch": (batch_of()[:61], {}, ErrorCode.CORRUPT_MESSAGE),
    "less than a header": (batch_of()[:20], {}, ErrorCode.CORRUPT_MESSAGE),
    "one byte less": (batch_of()[:-1], {}, ErrorCode.CORRUPT_MESSAGE),
    "one byte more": (batch_of() + b"\0", {}, ErrorCode.CORRUPT_MESSAGE),
    "another crc": (with_header(batch_of(), crc=5), {}, ErrorCode.CORRUPT_MESSAGE),
    "flipped": (batch_of()[:-1] + b"\1", {}, ErrorCode.CORRUPT_MESSAGE),
    "magic 1": (with_header(batch_of(), magic=1), {}, ErrorCode.INVALID_RECORD),
    "offset not 0": (with_header(batch_of(), base_offset=1), {}, ErrorCode.INVALID_RECORD),
    "another count": (with_header(batch_of(), record_count=3), {}, ErrorCode.INVALID_RECORD),
    "a count of 0": (
        with_header(batch_of(), record_count=0, last_offset_delta=-1),
        {},
        ErrorCode.INVALID_RECORD,
    ),
    "a gap in it": (with_header(batch_of(2), last_offset_delta=7), {}, ErrorCode.INVALID_RECORD),
    "more than fit": (
        with_header(batch_of(), record_count=2**31 - 1, last_offset_delta=2**31 - 2),
        {},
        ErrorCode.INVALID_RECORD,
    ),
    "control": (with_header(batch_of(), attributes=0x20), {}, ErrorCode.INVALID_RECORD),
    "log append time": (with_header(batch_of(), attributes=8), {}, ErrorCode.INVALID_TIMESTAMP),
    "codec 6": (with_header(batch_of(), attributes=6), {}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "no sequence": (with_header(batch_of(), producer_id=1, producer_epoch=0), {}, ErrorCode.INVALID_RECORD),
    "no epoch": (with_header(batch_of(), producer_id=1), {}, ErrorCode.INVALID_RECORD),
    "too large": (batch_of(value_bytes=500), {"max_message_bytes": "400"}, ErrorCode.MESSAGE_TOO_LARGE),
    "too large when stored": (
        batch_of(value_bytes=100_000, compression=Codec.ZSTD),
        {"max_message_bytes": "5000", "compression_type": "uncompressed"},
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
    "in a transaction": (
        with_header(sequenced(1, 0), attributes=TRANSACTIONAL_BIT),
        {},
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "without key": (batch_of(key=None), {"cleanup_policy": "compact"}, ErrorCode.INVALID_RECORD),
    "too early": (batch_of(timestamp_ms=NOW_MS + 3_600_001), {}, ErrorCode.INVALID_TIMESTAMP),
    "deltas that do not increase": (
        with_offset_deltas([Record(timestamp_ms=NOW_MS, key=b"k")] * 3, (2, 1, 0)),
        {"cleanup_policy": "compact"},
        ErrorCode.INVALID_RECORD,
    ),
    "a producer epoch that cannot be": (
        with_header(batch_of(), producer_id=4, producer_epoch=-5, base_sequence=0),
        {},
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ),
    "no records": (
        with_header(batch_of(), attributes=1),
        {"siltstone_record_validation": "full"},
        ErrorCode.INVALID_RECORD,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("version", [7, 13])
def test_item_26_what_is_refused(name, version):
    batch, configs, code = REFUSED[name]

    async def scenario(world):
        topic = await world.topic(**configs)
        sent = None if batch is None else bytes(batch)
        row = row_of(await world.client().ask(produce_request(topic, sent), version))
        assert (ErrorCode(row.error_code), row.base_offset, row.log_append_time_ms) == (code, -1, -1)
        assert row.log_start_offset == -1
        assert bool(row.error_message) == (version >= 8)
        assert await stored(world, topic) == 0

    in_broker_world(scenario)


@scenario(in_broker_world)
async def test_item_26_zstd_from_a_client_before_version_7(world) -> None:
    topic = await world.topic()
    request = produce_request(topic, batch_of(compression=Codec.ZSTD))
    assert codes(await world.client().ask(request, 6)) == [ErrorCode.UNSUPPORTED_COMPRESSION_TYPE]
    assert codes(await world.client().ask(request, 7)) == [ErrorCode.NONE]


@pytest.mark.parametrize("version", [7, 8, 13])
@scenario(in_broker_world)
async def test_item_26_which_record_is_to_blame(world, version) -> None:
    compacted = await world.topic("keys", cleanup_policy="compact")
    some = build_batch([Record(timestamp_ms=NOW_MS, key=key) for key in (b"a", None, b"b", None)])
    row = row_of(await world.client().ask(produce_request(compacted, some), version))
    assert row.error_code == ErrorCode.INVALID_RECORD
    errors = [(error.batch_index, error.message) for error in row.record_errors]
    assert errors == ([(1, NO_KEY), (3, NO_KEY)] if version >= 8 else [])
    assert row.error_message == (f"2 records are refused; record 1: {NO_KEY}" if version >= 8 else None)
    late = await world.topic("late", message_timestamp_before_max_ms="10")
    row = row_of(await world.client().ask(produce_request(late, timed_batch(NOW_MS, 5, NOW_MS, 6)), version))
    assert row.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in row.record_errors] == ([1, 3] if version >= 8 else [])


@scenario(in_broker_world)
async def test_one_answer_names_no_more_records_than_the_limit_says(world) -> None:
    """However many batches of few bytes a request holds: these have 8,000 records each."""
    compacted = await world.topic("keys", partitions=3, cleanup_policy="compact")
    keyless = build_batch([Record(timestamp_ms=NOW_MS)] * 8_000, compression=Codec.ZSTD)
    answer = await world.client().ask(produce_request(compacted, *[bytes(keyless)] * 3), 13)
    rows = answer.topics[0].partitions
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_RECORD] * 3
    assert [len(row.record_errors) for row in rows] == [8_000, RECORDS_NAMED_MAX - 8_000, 0]
    assert all(row.error_message.startswith("8000 records are refused; record 0: ") for row in rows)


@scenario(in_broker_world)
async def test_tp11_one_transactional_batch_without_a_transactional_id_refuses_the_whole_request(
    world,
) -> None:
    topic = await world.topic(partitions=2)
    transactional = with_header(sequenced(1, 0), attributes=TRANSACTIONAL_BIT)
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    request = produce_request(topic, batch_of(), transactional)
    assert codes(await world.client().ask(request)) == [code] * 2
    assert await stored(world, topic) == 0
    request = produce_request(topic, batch_of(), batch_of(), transactional_id="tx")
    assert codes(await world.client().ask(request)) == [0] * 2, "none of the batches is in a transaction"


@scenario(in_broker_world, engine=SMALL_TAIL)
async def test_item_25_an_append_that_waits_for_room_is_answered_in_time_and_stands_later(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    world.calls.hold(WRITE)
    count = 0
    while not world.broker.wants_pause:
        asked = world.client().send(produce_request(topic, batch_of(value_bytes=2_000), timeout_ms=1_500))
        count += 1
    for _ in range(2):
        await settled()
        assert not asked.done()
        await world.pass_ms(SWEEP_MS)
    assert world.broker.wants_pause
    assert codes(await asked) == [ErrorCode.REQUEST_TIMED_OUT]
    world.calls.release(WRITE)
    while world.broker.wants_pause:
        await world.pass_ms(SWEEP_MS)
    assert await stored(world, topic) == count


@scenario(in_broker_world, engine=SMALL_TAIL)
async def test_no_room_means_ask_again(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    client = world.client()
    world.calls.hold(WRITE)
    asked = [
        client.send(produce_request(topic, sequenced(9, number, value_bytes=2_000))) for number in range(40)
    ]
    assert world.broker.wants_pause
    world.calls.release(WRITE)
    answers = [row_of(await world.world.passing(answer)) for answer in asked]
    accepted = [row.base_offset for row in answers if not row.error_code]
    refused = {ErrorCode(row.error_code) for row in answers if row.error_code}
    assert accepted == list(range(len(accepted)))
    assert refused == {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    } or refused == {ErrorCode.REQUEST_TIMED_OUT}
    again = row_of(await client.ask(produce_request(topic, sequenced(9, len(accepted)))))
    assert (again.error_code, again.base_offset) == (0, len(accepted))
    assert not world.broker.wants_pause


@scenario(in_broker_world)
async def test_a_partition_that_cannot_be_opened_fails_alone(world) -> None:
    topic = await world.topic(partitions=2)
    client = world.client()
    await client.ask(produce_request(topic, batch_of()))
    await world.restart()
    world.calls.fail(READ, Unavailable("no bucket"))
    response = await world.client().ask(produce_request(topic, batch_of(), batch_of()))
    assert codes(response) == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert rows_of(response)[0].error_message == "no bucket"


# -- strange requests --------------------------------------------------------------------------------------------


@scenario(in_broker_world)
async def test_nothing_to_produce(world) -> None:
    topic = await world.topic()
    client = world.client()
    assert (await client.ask(ProduceRequest(acks=-1))).topics == []
    assert rows_of(await client.ask(produce_request(topic))) == []
    assert await client.ask(ProduceRequest(acks=0)) is None


@scenario(in_broker_world)
async def test_a_partition_named_twice_is_appended_to_twice(world) -> None:
    topic = await world.topic()
    twice = [ProducePartition(index=0, records=sequenced(9, number)) for number in range(2)]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1_000,
        topics=[ProduceTopic(name="t", topic_id=topic.topic_id, partitions=twice)],
    )
    assert [row.base_offset for row in rows_of(await world.client().ask(request))] == [0, 1]
    request = produce_request(topic, sequenced(9, 2))
    request.topics.extend(produce_request(topic, sequenced(9, 3)).topics)
    assert [row.base_offset for row in rows_of(await world.client().ask(request))] == [2, 3]


@scenario(in_broker_world)
async def test_a_thousand_partitions(world) -> None:
    topic = await world.topic(partitions=1_000)
    client = world.client()
    for base in range(2):
        rows = rows_of(await client.ask(produce_request(topic, *[batch_of()] * 1_000)))
        assert [(row.index, row.base_offset) for row in rows] == [(index, base) for index in range(1_000)]


@scenario(in_broker_world)
async def test_a_frame_that_is_none_closes_the_connection(world) -> None:
    header = encode_request_header(RequestHeader(ProduceRequest.api_key, 9, 1, "c"))
    body = encode(produce_request(await world.topic(), batch_of()), 9)
    client = world.client()
    for cut in (1, 10, len(body) - 1):
        with pytest.raises(CloseConnection):
            world.broker.handle(client.connection, memoryview(bytearray(header + body[:cut])))


class Frame(bytearray):
    """Can be referred to weakly."""


@pytest.mark.parametrize("batch", [with_header(batch_of(), crc=1), sequenced(9, 7), batch_of(key=None)])
@scenario(in_broker_world)
async def test_what_is_refused_is_not_kept(world, batch) -> None:
    topic = await world.topic(cleanup_policy="compact")
    await world.client().ask(produce_request(topic, sequenced(9, 0)))
    request = produce_request(topic, batch)
    header = RequestHeader(ProduceRequest.api_key, 13, 1, None)
    frame = Frame(encode_request_header(header) + encode(request, 13))
    kept = weakref.ref(frame)
    gc.disable()
    try:
        answer = await world.broker.handle(world.client().connection, memoryview(frame))
        assert answer is not None
        del frame, answer
        await settled()
        assert kept() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("is_open", [True, False])
@scenario(in_broker_world)
async def test_a_small_batch_that_is_kept_does_not_keep_its_request(world, is_open) -> None:
    topic = await world.topic(partitions=2)
    if is_open:
        for index in range(2):
            await world.partition(topic, index)
    request = produce_request(topic, with_header(batch_of(value_bytes=10_000), crc=1), batch_of())
    header = RequestHeader(ProduceRequest.api_key, 13, 1, None)
    frame = Frame(encode_request_header(header) + encode(request, 13))
    kept = weakref.ref(frame)
    await world.broker.handle(world.client().connection, memoryview(frame))
    del frame
    await settled()
    gc.collect()
    assert kept() is None
    assert world.opened(topic, 1).cached_bytes(0) == len(batch_of())


def requests_in_memory() -> int:
    return sum(isinstance(each, ProduceUnderWay) for each in gc.get_objects())


@scenario(in_broker_world)
async def test_a_request_that_was_answered_is_not_kept(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    before = requests_in_memory()
    gc.disable()
    try:
        for _ in range(20):
            await world.client().ask(produce_request(topic, batch_of()))
        await settled()
        assert not world.broker._produce._under_way
        assert requests_in_memory() == before
    finally:
        gc.enable()


@scenario(in_broker_world)
async def test_what_was_produced_is_what_is_fetched(world) -> None:
    topic = await world.topic()
    client = world.client()
    sent = [
        batch_of(count, value_bytes=50, compression=codec)
        for count, codec in ((1, Codec.NONE), (3, Codec.ZSTD), (2, Codec.NONE))
    ]
    for batch in sent:
        await client.ask(produce_request(topic, bytes(batch)))
    row = row_of(await client.ask(fetch_request(topic, {0: 0})))
    received = bytes_of_records(row)
    for batch in sent:  # but for base offset and leader epoch
        assert received[8:12] == batch[8:12] and received[16 : len(batch)] == batch[16:]
        received = received[len(batch) :]
    assert received == b""


def test_a_fault_of_ours_is_told_as_such(monkeypatch):
    """An exception that nobody expected comes out of the call: the network closes this connection and logs it."""

    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(Partition, "append", broken)

    async def scenario(world):
        topic = await world.topic()
        with pytest.raises(ZeroDivisionError):
            await world.client().ask(produce_request(topic, batch_of()))

    in_broker_world(scenario)


@scenario(in_broker_world)
async def test_records_that_take_long_are_read_before_the_next_request_is_begun(world) -> None:
    """In a thread, for which the connection waits: a coroutine, where other batches are begun at the call."""
    topic = await world.topic(cleanup_policy="compact")
    await world.partition(topic)
    client = world.client()
    compressed = produce_request(topic, batch_of(3, compression=Codec.ZSTD))
    keyless = produce_request(topic, batch_of(3, compression=Codec.ZSTD, key=None))
    for request in (compressed, keyless):
        handled = client.begin(request, 9)
        assert isinstance(handled, Overtakable)
        await handled
    plain = client.begin(produce_request(topic, batch_of()), 9)
    assert isinstance(plain, asyncio.Future)
    await plain
    again = [row_of(await client.ask(request, 9)).base_offset for request in (compressed, keyless)]
    assert again == [4, -1]


@scenario(in_broker_world)
async def test_what_is_refused_as_a_whole_is_not_read(world) -> None:
    topic = await world.topic(cleanup_policy="compact")
    await world.partition(topic)
    bomb = with_header(batch_of(compression=Codec.ZSTD), record_count=900_000, last_offset_delta=899_999)
    row = row_of(await world.client().ask(produce_request(topic, bomb, acks=7), 9))
    assert row.error_code == ErrorCode.INVALID_REQUIRED_ACKS
