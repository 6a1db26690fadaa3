"""Requests and errors by API, as a broker counts them."""

import asyncio

import msgspec
import pytest

from siltstone.broker.request_measures import (
    ERROR_FIELDS,
    RequestMeasures,
    RequestStage,
    _row_of,
    error_name,
    error_paths,
)
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from siltstone.kafka_protocol.messages.metadata import MetadataResponse
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from siltstone.kafka_protocol.messages.produce import ProduceRequest
from support.broker.broker_world import READ, SMALL_TAIL, WRITE, in_broker_world
from support.engine.engine_world import settled
from support.kafka.kafka_requests import batch_of, fetch_request, produce_request, row_of
from support.scenarios import scenario


def test_every_error_code_of_an_answer_is_counted_wherever_it_stands():
    measures = RequestMeasures()
    rows = [OffsetCommitResponsePartition(partition_index=n, error_code=n % 2 * 3) for n in range(5)]
    measures.count_errors(
        8, OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=rows)])
    )
    measures.count_errors(12, HeartbeatResponse(error_code=27))
    measures.count_errors(12, HeartbeatResponse())
    measures.count_errors(20, DeleteTopicsResponse(responses=[DeletableTopicResult(error_code=3)]))
    assert measures.statistics().errors == {(8, 3): 2, (12, 27): 1, (20, 3): 1}


def test_the_paths_to_error_codes_are_found_below_lists():
    assert ("topics", "partitions", "error_code") in error_paths(MetadataResponse)
    found = {api_key: list(error_paths(CATALOGUE[api_key][1])) for api_key in ANNOUNCED}
    assert [ApiKey(api_key) for api_key, paths in found.items() if not paths] == []
    of_transactions = found[ApiKey.ADD_PARTITIONS_TO_TXN]
    assert (
        "results_by_topic_v3_and_below",
        "results_by_partition",
        "partition_error_code",
    ) in of_transactions


def test_every_field_with_an_error_is_counted_or_named() -> None:
    def fields_of(kind: type) -> set[str]:
        found = {field.name for field in msgspec.structs.fields(kind)}
        rows = (_row_of(field.type) for field in msgspec.structs.fields(kind))
        return found.union(*(fields_of(row) for row in rows if row is not None))

    named = set().union(*(fields_of(CATALOGUE[api_key][1]) for api_key in ANNOUNCED))
    errors = {name for name in named if name.endswith("error_code")}
    assert errors == ERROR_FIELDS | {"topic_config_error_code"}


def test_errors_have_kafkas_names():
    assert error_name(3) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error_name(9_999) == "9999"


@scenario(in_broker_world)
async def test_ob04_requests_are_counted_when_they_begin_and_timed_when_they_are_answered(world) -> None:
    topic = await world.topic()
    await world.client().ask(produce_request(topic, batch_of()))
    world.calls.hold(WRITE)
    client, produce = world.client(), produce_request(topic, batch_of())
    sent = [client.send(produce) for _ in range(3)]
    await settled()
    counts = world.parts.measures.statistics()
    assert (counts.begun[ApiKey.PRODUCE], counts.seconds[ApiKey.PRODUCE].count) == (4, 1)
    world.clock.advance_ms(700)
    world.calls.release(WRITE)
    await asyncio.gather(*sent)
    counts = world.parts.measures.statistics()
    assert counts.seconds[ApiKey.PRODUCE].counts[-5] == 3  # above half a second, up to one
    assert counts.seconds[ApiKey.PRODUCE].total == pytest.approx(2.1)
    assert counts.errors == {}


@scenario(in_broker_world, engine=SMALL_TAIL)
async def test_ob04_errors_of_produce_fetch_and_others_are_counted_by_name(world) -> None:
    topic = await world.topic()
    client = world.client()
    row = row_of(await client.ask(produce_request(topic, b"no batch", acks=-1)))
    assert row.error_code != 0
    answer = await client.ask(fetch_request(topic, {0: 1_000}))
    assert row_of(answer).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    await client.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    errors = world.parts.measures.statistics().errors
    assert errors[ApiKey.PRODUCE, row.error_code] == 1
    assert errors[ApiKey.FETCH, ErrorCode.OFFSET_OUT_OF_RANGE] == 1
    assert sum(n for (api_key, _), n in errors.items() if api_key == ApiKey.HEARTBEAT) == 1


def seconds_of(world, stage: RequestStage) -> tuple[int, float]:
    counts = world.parts.measures.statistics().stages[stage]
    return counts.count, counts.total


@scenario(in_broker_world)
async def test_the_wait_of_a_fetch_is_a_stage_by_itself(world) -> None:
    topic = await world.topic()
    await world.client().ask(produce_request(topic, batch_of()))
    await world.client().ask(fetch_request(topic, {0: 0}))  # finds enough at once
    assert seconds_of(world, RequestStage.FETCH_WAIT) == (0, 0.0)
    waiting = world.client().send(fetch_request(topic, {0: 1}, wait_ms=400))
    await settled()
    await world.pass_ms(400)
    await waiting
    assert seconds_of(world, RequestStage.FETCH_WAIT) == (1, 0.4)
    assert (
        seconds_of(world, RequestStage.FETCH_READ) == seconds_of(world, RequestStage.FETCH_ENCODE) == (2, 0.0)
    )
    assert world.parts.measures.statistics().seconds[ApiKey.FETCH].total == 0.4


@scenario(in_broker_world, engine=SMALL_TAIL)
async def test_a_fetch_reads_from_objects_in_the_stage_read(world) -> None:
    topic = await world.topic()
    await world.client().ask(produce_request(topic, batch_of()))
    await world.restart()  # from now on it is in an object only
    topic = world.parts.topics.by_name(topic.name)
    await world.partition(topic)
    world.calls.hold(READ)
    reading = world.client().send(fetch_request(topic, {0: 0}))
    await settled()
    world.clock.advance_ms(70)
    world.calls.release(READ)
    await reading
    assert seconds_of(world, RequestStage.FETCH_READ) == (1, 0.07)
    assert seconds_of(world, RequestStage.FETCH_WAIT) == (0, 0.0)


@scenario(in_broker_world)
async def test_a_produce_waits_for_the_log_in_the_stage_durable(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    world.calls.hold(WRITE)
    writing = world.client().send(produce_request(topic, batch_of()))
    await settled()
    world.clock.advance_ms(30)
    world.calls.release(WRITE)
    await writing
    assert seconds_of(world, RequestStage.PRODUCE_APPEND) == (1, 0.0)
    assert seconds_of(world, RequestStage.PRODUCE_DURABLE) == (1, 0.03)
    assert world.parts.measures.statistics().seconds[ApiKey.PRODUCE].total == 0.03


@scenario(in_broker_world, engine=SMALL_TAIL)
async def test_a_produce_opens_its_partition_in_the_stage_append(world) -> None:
    topic = await world.topic()
    await world.client().ask(produce_request(topic, batch_of()))
    await world.restart()
    topic = world.parts.topics.by_name(topic.name)
    world.calls.hold(READ)  # of the partition's snapshot
    writing = world.client().send(produce_request(topic, batch_of()))
    await settled()
    world.clock.advance_ms(50)
    world.calls.release(READ)
    await writing
    assert seconds_of(world, RequestStage.PRODUCE_APPEND) == (1, 0.05)
    assert seconds_of(world, RequestStage.PRODUCE_DURABLE) == (1, 0.0)


@scenario(in_broker_world)
async def test_a_produce_without_an_answer_is_timed_too(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    request: ProduceRequest = produce_request(topic, batch_of(), acks=0)
    assert await world.client().ask(request) is None
    assert world.parts.measures.statistics().seconds[ApiKey.PRODUCE].count == 1
