"""From a frame to its handler, and back."""

import asyncio
import inspect
import logging

import pytest

from siltstone.broker.apis.table import APIS
from siltstone.broker.request import CloseConnection
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.headers import RequestHeader, decode_response_header, encode_request_header
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.messages.describe_groups import DescribeGroupsRequest
from siltstone.kafka_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.kafka_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from siltstone.kafka_protocol.notation import Message
from support.broker.broker_world import NODE_ID, SMALL_TAIL, WRITE, in_broker_world
from support.engine.engine_world import settled
from support.kafka.kafka_requests import batch_of, fetch_request, produce_request, row_of
from support.scenarios import scenario


def frame(key: int, version: int, body: bytes = b"") -> memoryview:
    """With a plain header, whatever the version."""
    header = key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + b"\0\0\0\7" + b"\0\1c"
    return memoryview(bytearray(header + body))


def test_whatever_is_announced_is_answered():
    logins = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
    assert {ApiKey.PRODUCE, ApiKey.FETCH} | logins | APIS.keys() == ANNOUNCED.keys()
    assert all(api.request.api_key == key for key, api in APIS.items())


@pytest.mark.parametrize("key", ANNOUNCED)
@scenario(in_broker_world)
async def test_item_55_an_empty_request_of_each_version_is_answered_and_nobody_throttled(world, key) -> None:
    """As far as an empty one makes sense; nothing breaks, and the answer can be read."""
    low, high = ANNOUNCED[key]
    request, response = CATALOGUE[key]
    for version in range(max(low, request.versions[0]), high + 1):
        client = world.client()
        handled = client.begin(request(), version)
        if key is ApiKey.PRODUCE:  # acks=0
            assert await handled is None
            continue
        answer = await handled if inspect.isawaitable(handled) else handled
        correlation_id, body = decode_response_header(key, version, b"".join(answer)[4:])
        assert correlation_id == 1
        read = decode(response, version, body)
        assert isinstance(read, Message)
        assert getattr(read, "throttle_time_ms", 0) == 0


@pytest.mark.parametrize("version", [5, 6, 99, 32767, -1])
@pytest.mark.parametrize("body", [b"\0" * 9, b"\0", b"\0\x0craw-client\x041.0\0", b"\0" + b"\xff" * 40])
@scenario(in_broker_world)
async def test_items_1_and_2_an_unknown_version_of_api_versions_is_answered_in_version_0(
    world, version, body
) -> None:
    answer = world.broker.handle(world.client().connection, frame(ApiKey.API_VERSIONS, version, body))
    raw = b"".join(answer)
    assert int.from_bytes(raw[:4], "big") == len(raw) - 4
    assert raw[4:8] == b"\0\0\0\7"
    response = decode(ApiVersionsResponse, 0, raw[8:])
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    (row,) = response.api_keys
    assert (row.api_key, row.min_version, row.max_version) == (18, 0, 4)


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.PRODUCE, 0),
        (ApiKey.PRODUCE, 2),
        (ApiKey.PRODUCE, 14),
        (ApiKey.FETCH, 3),
        (ApiKey.FETCH, 19),
        (ApiKey.METADATA, 14),
        (ApiKey.METADATA, -1),
        (ApiKey.OFFSET_DELETE, 1),
        (ApiKey.LIST_OFFSETS, 0),
        (ApiKey.OFFSET_FETCH, 0),
        *((key, 0) for key in (4, 71, 76, 999, -1, 32_767)),
    ],
)
@scenario(in_broker_world)
async def test_item_6_what_is_not_announced_closes_the_connection(world, key, version) -> None:
    with pytest.raises(CloseConnection):
        world.broker.handle(world.client().connection, frame(key % 2**16, version, b"\0" * 20))


@pytest.mark.parametrize("raw", [b"", b"\0", b"\0\3\0\0\0\0\0\1", b"\0\3\0\0\0\0\0\1\0\5ab"])
@scenario(in_broker_world)
async def test_a_frame_without_a_whole_header_closes_the_connection(world, raw) -> None:
    with pytest.raises(CloseConnection):
        world.broker.handle(world.client().connection, memoryview(bytearray(raw)))


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.FETCH])
@scenario(in_broker_world)
async def test_a_body_that_is_none_closes_the_connection(world, key) -> None:
    handled = world.broker.handle(world.client().connection, frame(key, 4, b"\x7f\xff\xff\xff"))
    with pytest.raises(CloseConnection):
        await handled


@scenario(in_broker_world)
async def test_items_3_and_5_trailing_bytes_and_no_client_id(world) -> None:
    request = MetadataRequest(topics=[])
    header = encode_request_header(RequestHeader(ApiKey.METADATA, 12, 3, None))
    raw = memoryview(bytearray(header + encode(request, 12) + b"trailing"))
    answer = await world.broker.handle(world.client().connection, raw)
    correlation_id, body = decode_response_header(ApiKey.METADATA, 12, b"".join(answer)[4:])
    response = decode(CATALOGUE[ApiKey.METADATA][1], 12, body)
    assert (correlation_id, response.cluster_id) == (3, world.parts.cluster_id)


@scenario(in_broker_world)
async def test_a_fault_of_a_handler_comes_out_of_what_is_awaited(world, monkeypatch) -> None:
    monkeypatch.setattr(type(world.parts.topics), "all", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await world.client().ask(MetadataRequest(topics=None))
    monkeypatch.undo()  # the end of the broker looks at topics as well


@scenario(in_broker_world, engine=SMALL_TAIL)
async def test_the_network_is_told_when_the_store_takes_no_more(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    assert not world.broker.wants_pause
    world.calls.hold(WRITE)
    client = world.client()
    asked = []
    while not world.broker.wants_pause:
        asked.append(client.send(produce_request(topic, batch_of(value_bytes=2_000))))
    world.calls.release(WRITE)
    for answer in asked:
        await world.world.passing(answer)
    assert not world.broker.wants_pause


@scenario(in_broker_world)
async def test_the_cluster_has_one_id_for_all_its_lives(world) -> None:
    first = world.parts.cluster_id
    assert len(first) == 22
    await world.restart()
    assert world.parts.cluster_id == first
    await world.crash()
    assert world.parts.cluster_id == first
    assert world.parts.node_id == NODE_ID


@scenario(in_broker_world)
async def test_offsets_of_groups_are_there_in_the_next_life(world) -> None:
    await world.topic()
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=42)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics)
    committed = await world.client().ask(request, 8)
    assert committed.topics[0].partitions[0].error_code == 0
    await world.crash()
    asked = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    )
    await settled(200)  # loading begins with the start, without being asked
    assert world.parts.partitions.statistics().open == world.settings.offsets_topic_num_partitions
    fetched = await world.client().ask(asked, 7)
    assert fetched.topics[0].partitions[0].committed_offset == 42


@scenario(in_broker_world)
async def test_closing_waits_for_no_client(world, caplog) -> None:
    topic = await world.topic()
    await world.partition(topic)
    world.broker.connection_closed(world.client().connection)
    world.calls.hold(WRITE)
    asked = world.client().send(produce_request(topic, batch_of()))
    await settled()
    closing = asyncio.ensure_future(world.broker.close())
    await settled()
    world.calls.release(WRITE)
    await closing
    await asked
    with caplog.at_level(logging.ERROR):
        await world.broker.close()
    assert caplog.records == []


@scenario(in_broker_world)
async def test_api_versions_is_asked_in_every_version(world) -> None:
    for version in range(5):
        request = ApiVersionsRequest(client_software_name="c", client_software_version="1")
        response = await world.client().ask(request, version)
        assert {row.api_key for row in response.api_keys} == set(ANNOUNCED)


@scenario(in_broker_world)
async def test_after_closing_nothing_of_the_broker_runs_any_more(world) -> None:
    await world.topic()
    await world.client().ask(OffsetFetchRequest(group_id="g", topics=[]), 7)
    await world.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await world.start()


@scenario(in_broker_world)
async def test_the_host_of_a_client_is_told_to_those_who_describe_its_group(world) -> None:
    waiting = joining(world)
    await settled(200)
    (group,) = (await world.client().ask(DescribeGroupsRequest(groups=["g"]), 5)).groups
    assert [(member.client_host, member.client_id) for member in group.members] == [
        ("/client.example", "a client")
    ]
    waiting.cancel()


def joining(world) -> "asyncio.Task":
    """A member that waits for the initial delay of its group."""
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return world.client().send(join, 3)


@pytest.mark.parametrize("ended_by", ["end_waits", "close"])
@scenario(in_broker_world)
async def test_who_waits_is_answered_when_the_broker_ends(world, ended_by) -> None:
    topic = await world.topic()
    await world.partition(topic)
    join = joining(world)
    fetch = world.client().send(fetch_request(topic, {0: 0}, wait_ms=60_000))
    await settled(200)
    assert not join.done() and not fetch.done()
    if ended_by == "end_waits":
        world.broker.end_waits()
        await settled()
        assert (await fetch).error_code == ErrorCode.NONE
    else:
        await world.broker.close()
        await settled()
        fetch.cancel()
    assert join.done() and join.result().error_code == ErrorCode.NOT_COORDINATOR


@scenario(in_broker_world)
async def test_a_produce_request_is_answered_after_its_time_limit(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    world.calls.hold(WRITE)
    asked = world.client().send(produce_request(topic, batch_of(), timeout_ms=1_500))
    await world.pass_ms(1_000)
    assert not asked.done()
    await world.pass_ms(1_000)
    assert row_of(asked.result()).error_code == ErrorCode.REQUEST_TIMED_OUT
    world.calls.release(WRITE)
