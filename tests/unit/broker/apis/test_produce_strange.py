"""Strange Produce requests, and how long their memory is kept."""

import asyncio
import gc
import weakref

import pytest

from siltstone.broker.apis.produce_under_way import ProduceUnderWay
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.request import CloseConnection, Overtakable
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.kafka_protocol.codec import encode
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.headers import RequestHeader, encode_request_header
from siltstone.kafka_protocol.messages.produce import (
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from support.broker.broker_world import in_broker_world
from support.engine.engine_world import settled
from support.kafka.kafka_batches import bytes_of_records, with_header
from support.kafka.kafka_requests import (
    batch_of,
    fetch_request,
    produce_request,
    row_of,
    rows_of,
    sequenced,
)
from support.scenarios import scenario


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
