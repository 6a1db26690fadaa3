"""Share groups as members see them: each step is a request to a broker on a real engine (scenarios SH)."""

import asyncio

import pytest

from siltstone.broker.deliveries.progress import ShareProgress
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.stream_engine.errors import EngineOverloaded
from support.broker.broker_world import in_broker_world
from support.broker.transaction_clients import started
from support.engine.engine_world import settled
from support.groups.share_client import (
    ACCEPT,
    GAP,
    LOCK_MS,
    REJECT,
    RELEASE,
    RENEW,
    SHARES,
    ShareClient,
    code_of,
    progress_of,
    ranges_of,
    send,
    shared_topic,
)
from support.kafka.kafka_requests import produce_request, timed_batch
from support.scenarios import scenario

INVALID_STATE, INVALID_REQUEST = ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST


@scenario(in_broker_world)
async def test_sh1_two_members_get_different_records(world) -> None:
    topic = await shared_topic(world)
    for _ in range(2):
        await send(world, topic, 5)
    one, other = ShareClient(world, topic, "a"), ShareClient(world, topic, "b")
    assert await one.fetch(max_records=5) == [(0, 4, 1)]
    assert await other.fetch() == [(5, 9, 1)]
    assert await other.fetch() == []
    assert [bytes(each.records[0])[:8] for each in one.told.topics[0].partitions] == [bytes(8)]


@scenario(in_broker_world)
async def test_sh2_what_all_accept_is_done_with(world) -> None:
    topic = await shared_topic(world, records=10)
    member = ShareClient(world, topic)
    assert await member.fetch() == [(0, 9, 1)]
    assert await member.acknowledge((0, 9, [ACCEPT])) == 0
    assert progress_of(world, topic) == ShareProgress(10)
    await world.crash()
    await world.partition(topic)
    assert progress_of(world, topic) == ShareProgress(10)


@scenario(in_broker_world)
async def test_sh3_a_released_record_comes_again(world) -> None:
    topic = await shared_topic(world, records=10)
    member = ShareClient(world, topic)
    await member.fetch()
    types = [ACCEPT] * 3 + [RELEASE] + [ACCEPT, REJECT, GAP] * 2
    assert await member.fetch((0, 9, types)) == [(3, 3, 2)]
    assert code_of(member.told) == (0, 0)
    assert progress_of(world, topic).start_offset == 3
    assert await member.acknowledge((3, 3, [ACCEPT])) == 0
    assert progress_of(world, topic) == ShareProgress(10)


@scenario(in_broker_world)
async def test_sh4_a_lock_ends_and_its_deliveries_count(world) -> None:
    topic = await shared_topic(world, records=3)
    assert await ShareClient(world, topic, "a").fetch() == [(0, 2, 1)]
    other = ShareClient(world, topic, "b")
    assert await other.fetch() == []
    await world.pass_ms(LOCK_MS + 1)
    assert await other.fetch() == [(0, 2, 2)]


@scenario(in_broker_world)
async def test_sh4_a_member_that_waits_gets_what_a_lock_frees(world) -> None:
    topic = await shared_topic(world, records=3)
    await ShareClient(world, topic, "a").fetch()
    other = ShareClient(world, topic, "b")
    waiting = asyncio.ensure_future(other.fetch(max_wait_ms=LOCK_MS * 2))
    await world.pass_ms(LOCK_MS - 1)
    assert not waiting.done()
    await world.pass_ms(2)
    assert await waiting == [(0, 2, 2)]


@scenario(in_broker_world)
async def test_sh5_a_record_is_given_up_at_the_limit_of_deliveries(world) -> None:
    topic = await shared_topic(world, records=2, delivery_count_limit="2")
    member = ShareClient(world, topic)
    assert await member.fetch() == [(0, 1, 1)]
    assert await member.fetch((0, 1, [RELEASE])) == [(0, 1, 2)]
    assert await member.fetch((0, 1, [RELEASE])) == []
    assert progress_of(world, topic) == ShareProgress(2)


@scenario(in_broker_world)
async def test_sh6_another_members_records_and_records_twice_are_refused(world) -> None:
    topic = await shared_topic(world, records=4)
    one, other = ShareClient(world, topic, "a"), ShareClient(world, topic, "b")
    await one.fetch()
    await other.fetch()
    assert await other.acknowledge((0, 3, [ACCEPT])) == INVALID_STATE
    assert await one.acknowledge((1, 1, [ACCEPT])) == 0
    assert await one.acknowledge((0, 0, [ACCEPT]), (1, 1, [ACCEPT])) == INVALID_STATE
    assert progress_of(world, topic).start_offset == 0
    assert await one.acknowledge((2, 9, [ACCEPT])) == INVALID_REQUEST
    assert await one.acknowledge((0, 0, [ACCEPT])) == 0
    assert await other.acknowledge((0, 1, [RELEASE])) == 0
    assert progress_of(world, topic).start_offset == 2


@scenario(in_broker_world)
async def test_sh7_sessions(world) -> None:
    topic = await shared_topic(world, records=2)
    member, other = ShareClient(world, topic), ShareClient(world, topic, "b")
    await member.fetch()
    await member.fetch(share_session_epoch=7)
    assert member.told.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    await other.fetch(share_session_epoch=1)
    assert other.told.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert await member.acknowledge(epoch=0) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    await other.fetch((0, 1, [ACCEPT]))
    assert other.told.error_code == INVALID_REQUEST
    await member.fetch(share_session_epoch=-1)
    assert member.told.error_code == 0
    assert await other.fetch() == [(0, 1, 2)]


@scenario(in_broker_world)
async def test_sh7_a_session_ends_with_its_connection(world) -> None:
    topic = await shared_topic(world, records=2)
    member, other = ShareClient(world, topic), ShareClient(world, topic, "b")
    await member.fetch()
    world.broker.connection_closed(member.client.connection)
    assert await other.fetch() == [(0, 1, 2)]
    assert len(world.parts.shares.sessions) == 1


@scenario(in_broker_world)
async def test_sh7_too_many_sessions(world) -> None:
    topic = await shared_topic(world)
    world.parts.shares.sessions._sessions_max = 1
    await ShareClient(world, topic, "a").fetch()
    member = ShareClient(world, topic, "b")
    await member.fetch()
    assert member.told.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


@scenario(in_broker_world)
async def test_sh9_a_refused_append_changes_nothing(world, monkeypatch) -> None:
    topic = await shared_topic(world, records=2)
    member = ShareClient(world, topic)
    await member.fetch()
    before = progress_of(world, topic)

    def refuse(*_):
        raise EngineOverloaded("no room")

    with monkeypatch.context() as broken:
        broken.setattr(world.parts.engine, "append", refuse)
        assert await member.acknowledge((0, 1, [RELEASE])) == ErrorCode.REQUEST_TIMED_OUT
        assert progress_of(world, topic) is before
        await world.pass_ms(LOCK_MS + 1)
        assert progress_of(world, topic) is before
    await world.pass_ms(1_000)
    assert await member.fetch() == [(0, 1, 2)]


@scenario(in_broker_world)
async def test_sh10_locks_end_with_the_broker_and_counts_stay(world) -> None:
    topic = await shared_topic(world, records=6)
    member = ShareClient(world, topic)
    await member.fetch()
    await member.fetch((0, 1, [ACCEPT]), (2, 3, [RELEASE]))
    assert ranges_of(member.told) == [(2, 3, 2)]
    await world.crash()
    again = ShareClient(world, topic)
    assert await again.fetch() == [(2, 3, 2), (4, 5, 1)]


@scenario(in_broker_world)
async def test_sh17_a_snapshot_holds_what_the_changes_said(world) -> None:
    topic = await shared_topic(world, records=6)
    member = ShareClient(world, topic)
    await member.fetch()
    await member.fetch((1, 1, [ACCEPT]), (3, 4, [RELEASE]))
    await world.opened(topic).write_snapshot()
    await member.acknowledge((0, 0, [REJECT]))
    expected = [(2, 2, 1), (3, 4, 2), (5, 5, 1)]
    for life in (world.crash, world.restart):
        await life()
        again = ShareClient(world, topic)
        assert await again.fetch() == expected


@pytest.mark.parametrize(("reset", "start"), [("latest", 4), ("earliest", 0), ("by_duration:PT1H", 2)])
@scenario(in_broker_world)
async def test_sh11_where_a_group_begins(world, reset, start) -> None:
    topic = await shared_topic(world, auto_offset_reset=reset)
    await send(world, topic, 2)
    await world.pass_ms(2 * 3_600_000)
    await send_now(world, topic, 2)
    await ShareClient(world, topic).fetch()
    assert progress_of(world, topic).start_offset == start
    await send(world, topic, 2)
    await world.crash()  # the beginning is found once
    await world.partition(topic)
    assert progress_of(world, topic).start_offset == start


async def send_now(world, topic, records) -> None:
    now_ms = world.clock.now_ms()
    await world.client().ask(produce_request(topic, timed_batch(*[now_ms] * records)))


@scenario(in_broker_world)
async def test_sh12_aborted_records_are_passed_over(world) -> None:
    topic = await shared_topic(world, isolation_level="read_committed")
    client = await started(world, 2)
    member = ShareClient(world, topic)
    await client.send(topic, 0, count=2)
    assert await member.fetch() == []
    await client.end(commits=False)
    assert await member.fetch() == []
    assert progress_of(world, topic) == ShareProgress(3)
    await client.send(topic, 0, count=2)
    await client.end()
    assert await member.fetch() == [(3, 4, 1)]


@scenario(in_broker_world)
async def test_sh13_the_log_starts_later(world) -> None:
    topic = await shared_topic(world, records=4)
    await send(world, topic, 4)
    member = ShareClient(world, topic)
    assert await member.fetch(max_records=4) == [(0, 3, 1)]
    await world.parts.partitions.trim(world.opened(topic), 4)
    assert await member.fetch() == [(4, 7, 1)]
    assert progress_of(world, topic).start_offset == 4


@scenario(in_broker_world)
async def test_sh14_nothing_new_while_too_many_are_in_flight(world) -> None:
    topic = await shared_topic(world, records=150, partition_max_record_locks="100")
    member = ShareClient(world, topic)
    assert await member.fetch() == [(0, 99, 1)]
    assert await member.fetch() == []
    assert await member.fetch((0, 49, [ACCEPT])) == [(100, 149, 1)]
    assert await member.fetch((60, 60, [RELEASE])) == [(60, 60, 2)]


@scenario(in_broker_world)
async def test_sh16_a_lock_is_renewed(world) -> None:
    topic = await shared_topic(world, records=2)
    member, other = ShareClient(world, topic), ShareClient(world, topic, "b")
    await member.fetch()
    await world.pass_ms(25_000)
    assert await member.acknowledge((0, 0, [RENEW])) == 0
    await world.pass_ms(6_000)
    assert await other.fetch() == [(1, 1, 2)]
    assert await member.acknowledge((0, 0, [ACCEPT])) == 0


@scenario(in_broker_world)
async def test_a_strict_member_gets_no_more_than_it_wants(world) -> None:
    topic = await shared_topic(world, records=10)
    member = ShareClient(world, topic)
    assert await member.fetch(max_records=3, share_acquire_mode=1) == [(0, 2, 1)]
    assert await member.fetch(max_records=3) == [(3, 9, 1)]


@scenario(in_broker_world)
async def test_a_member_that_wants_no_byte_gets_none(world) -> None:
    topic = await shared_topic(world, records=10)
    member = ShareClient(world, topic)
    assert await member.fetch(max_bytes=0) == []
    assert await member.fetch(max_bytes=1) == [(0, 9, 1)]


@scenario(in_broker_world)
async def test_a_member_that_waits_is_woken_by_a_record(world) -> None:
    topic = await shared_topic(world)
    member = ShareClient(world, topic)
    waiting = asyncio.ensure_future(member.fetch(max_wait_ms=1_000))
    await settled()
    assert not waiting.done()
    await send(world, topic, 1)
    assert await waiting == [(0, 0, 1)]


@pytest.mark.parametrize(
    "batch", [(0, 1, [5]), (0, 1, [-1]), (1, 0, [1]), (0, 1, [1, 1, 1]), (0, 1, []), (-1, 1, [1])]
)
@scenario(in_broker_world)
async def test_acknowledgements_that_are_wrong_by_themselves(world, batch) -> None:
    topic = await shared_topic(world, records=2)
    member = ShareClient(world, topic)
    await member.fetch()
    assert await member.acknowledge(batch) == INVALID_REQUEST
    assert await member.acknowledge((1, 1, [1]), (0, 0, [1])) == INVALID_REQUEST


@scenario(in_broker_world)
async def test_partitions_and_topics_that_do_not_exist(world) -> None:
    topic = await shared_topic(world, records=2)
    member = ShareClient(world, topic)
    await world.parts.partitions.delete_topic(topic)
    await member.fetch()
    assert code_of(member.told) == (ErrorCode.UNKNOWN_TOPIC_ID, 0)
    assert await member.acknowledge((0, 0, [1])) == ErrorCode.UNKNOWN_TOPIC_ID


@scenario(in_broker_world)
async def test_many_changes_become_a_snapshot(world) -> None:
    topic = await shared_topic(world, records=600)
    member = ShareClient(world, topic)
    await member.fetch()
    for offset in range(510):
        assert await member.acknowledge((offset, offset, [ACCEPT])) == 0
    await settled()
    meta = world.opened(topic).streams.meta
    assert meta.next_offset - meta.start_offset < 100
    assert world.opened(topic).shares.get(SHARES).progress.start_offset == 510
