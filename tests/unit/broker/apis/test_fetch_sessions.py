"""Fetch sessions (item 34), and strange Fetch requests."""

import inspect

import pytest

from siltstone.broker.request import CloseConnection
from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.headers import RequestHeader, encode_request_header
from siltstone.kafka_protocol.messages.fetch import FetchPartition, FetchRequest
from support.broker.broker_world import in_broker_world
from support.broker.fetch_tests import SESSIONS, VERSIONS, filled
from support.broker.partition_state import trim_in_metadata
from support.engine.engine_world import settled
from support.kafka.kafka_requests import (
    batch_of,
    batches_in,
    fetch_request,
    produce_request,
    row_of,
    rows_of,
)
from support.scenarios import scenario

"""Since these versions there are such things in a request."""


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
