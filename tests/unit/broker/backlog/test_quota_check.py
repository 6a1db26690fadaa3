"""Backlog quotas as producers and groups see them: R12, R13, and policy by policy."""

import logging

import pytest

from siltstone.broker.request import CloseConnection
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest
from siltstone.model.limits import PRODUCE_HOLD_MS_MAX
from support.broker.backlog_world import (
    QUOTA_MS,
    commit,
    committed,
    delete_group,
    pass_long,
    registered_topic,
    store,
    within_time,
)
from support.broker.broker_world import in_broker_world
from support.broker.transaction_clients import NONE, TransactionClient
from support.engine.engine_world import settled
from support.kafka.kafka_requests import batch_of, fetch_request, produce_request, row_of, rows_of, sequenced
from support.scenarios import scenario

KIB = 1024
HOLD, REFUSE, EVICT = "producer_request_hold", "producer_exception", "consumer_backlog_eviction"


async def over_quota(world, policy, *groups, quota=10 * KIB):
    """A topic with 130 % of it behind every group that is at its beginning, and already looked at."""
    topic = await registered_topic(
        world, *(groups or ("g",)), partitions=2, backlog_quota_bytes=str(quota), backlog_quota_policy=policy
    )
    record_bytes = len(batch_of(1, value_bytes=100))
    await store(world, topic, 13 * quota // 10 // record_bytes)
    return topic, record_bytes


def told(world):
    return {(each.topic, each.partition): each for each in world.broker.backlog.statistics().partitions}


@scenario(in_broker_world)
async def test_r12_producers_wait_within_one_period_and_go_on_within_one_period_and_nothing_is_lost(
    world,
) -> None:
    topic, _ = await over_quota(world, HOLD)
    stored = world.opened(topic).high_watermark
    await pass_long(world, QUOTA_MS)
    backlog = told(world)["t", 0]
    assert (backlog.group, backlog.state) == ("g", "hold")
    assert backlog.backlog_bytes > backlog.quota_bytes == 10 * KIB
    client = world.client()
    held = client.send(produce_request(topic, batch_of(3)))
    await settled()
    assert client.connection.requests_held and not held.done()
    assert world.broker.backlog.statistics().held_bytes > 0
    await world.pass_ms(PRODUCE_HOLD_MS_MAX)
    assert row_of(await held).error_code == ErrorCode.REQUEST_TIMED_OUT, "come again"
    assert not client.connection.requests_held
    assert world.opened(topic).high_watermark == stored, "it was not stored: it will be sent again"
    assert world.broker.backlog.statistics().held_bytes == 0

    await commit(world, "g", stored)
    await pass_long(world, QUOTA_MS)
    assert told(world)["t", 0].state == ""
    row = row_of(await client.ask(produce_request(topic, batch_of(3))))
    assert (row.error_code, row.base_offset) == (0, stored)


@scenario(in_broker_world)
async def test_r12_who_waits_when_the_group_catches_up_is_stored_and_answered(world) -> None:
    topic, _ = await over_quota(world, HOLD)
    stored = world.opened(topic).high_watermark
    await pass_long(world, 2 * QUOTA_MS - 3_000)
    held = [world.client().send(produce_request(topic, batch_of(1))) for _ in range(3)]
    await settled()
    assert not any(each.done() for each in held)
    await commit(world, "g", stored)
    await pass_long(world, 3_000)  # the next look, before anybody has waited for too long
    rows = [row_of(await each) for each in held]
    assert sorted(row.base_offset for row in rows) == [stored, stored + 1, stored + 2]


@scenario(in_broker_world)
async def test_what_is_not_held_of_a_request_is_stored_at_once(world) -> None:
    topic, _ = await over_quota(world, HOLD)
    await pass_long(world, QUOTA_MS)
    both = world.client().send(produce_request(topic, batch_of(1), batch_of(2)))
    await settled()
    assert world.opened(topic, 1).high_watermark == 2 and not both.done()
    await world.pass_ms(PRODUCE_HOLD_MS_MAX)
    assert [row.error_code for row in rows_of(await both)] == [ErrorCode.REQUEST_TIMED_OUT, 0]


@scenario(in_broker_world)
async def test_nobody_waits_longer_than_half_of_what_he_will_wait_for(world) -> None:
    topic, _ = await over_quota(world, HOLD)
    await pass_long(world, QUOTA_MS)
    held = world.client().send(produce_request(topic, batch_of(1), timeout_ms=1_000))
    await settled()
    await world.pass_ms(499)
    assert not held.done()
    await world.pass_ms(1)
    assert row_of(await held).error_code == ErrorCode.REQUEST_TIMED_OUT


@scenario(in_broker_world)
async def test_an_idempotent_producer_that_was_told_to_come_again_does_so_in_order(world) -> None:
    topic, _ = await over_quota(world, HOLD)
    stored = world.opened(topic).high_watermark
    await pass_long(world, QUOTA_MS)
    first = world.client().send(produce_request(topic, sequenced(9, 0)))
    await settled()
    await world.pass_ms(PRODUCE_HOLD_MS_MAX)
    assert row_of(await first).error_code == ErrorCode.REQUEST_TIMED_OUT
    await commit(world, "g", stored)
    await pass_long(world, QUOTA_MS)
    for sequence in (0, 1):
        row = row_of(await world.client().ask(produce_request(topic, sequenced(9, sequence))))
        assert (row.error_code, row.base_offset) == (0, stored + sequence)


@scenario(in_broker_world)
async def test_without_acknowledgements_the_connection_ends(world) -> None:
    topic, _ = await over_quota(world, HOLD)
    await pass_long(world, QUOTA_MS)
    held = world.client().send(produce_request(topic, batch_of(1), acks=0))
    await settled()
    await world.pass_ms(PRODUCE_HOLD_MS_MAX)
    with pytest.raises(CloseConnection, match="REQUEST_TIMED_OUT"):
        await held


@scenario(in_broker_world)
async def test_consumers_read_while_producers_wait(world) -> None:
    topic, _ = await over_quota(world, HOLD)
    await pass_long(world, QUOTA_MS)
    held = world.client().send(produce_request(topic, batch_of(1)))
    await settled()
    assert row_of(await world.client().ask(fetch_request(topic, {0: 0}))).records
    assert not held.done()
    await world.pass_ms(PRODUCE_HOLD_MS_MAX)
    await held


@scenario(in_broker_world)
async def test_a_broker_that_closes_answers_who_waits(world) -> None:
    topic, _ = await over_quota(world, HOLD)
    await pass_long(world, QUOTA_MS)
    held = world.client().send(produce_request(topic, batch_of(1)))
    await settled()
    world.broker.end_waits()
    await settled()
    assert row_of(held.result()).error_code == ErrorCode.REQUEST_TIMED_OUT


@scenario(in_broker_world)
async def test_refused_with_the_reason(world) -> None:
    topic, _ = await over_quota(world, REFUSE)
    stored = world.opened(topic).high_watermark
    await pass_long(world, QUOTA_MS)
    rows = rows_of(await world.client().ask(produce_request(topic, batch_of(1), batch_of(1))))
    assert [row.error_code for row in rows] == [ErrorCode.POLICY_VIOLATION, 0]
    assert "wait for group g, more than siltstone.backlog.quota.bytes (10240)" in rows[0].error_message
    assert told(world)["t", 0].state == "refuse"
    await commit(world, "g", stored)
    await pass_long(world, QUOTA_MS)
    assert row_of(await world.client().ask(produce_request(topic, batch_of(1)))).base_offset == stored


@scenario(in_broker_world)
async def test_r13_the_slowest_group_is_moved_forward_and_others_are_not(world) -> None:
    topic, record_bytes = await over_quota(world, EVICT, "slow", "quick")
    end = world.opened(topic).high_watermark
    await commit(world, "slow", 1)
    await commit(world, "quick", end - 2)
    await pass_long(world, QUOTA_MS)
    moved_to = await committed(world, "slow")
    left_bytes = (end - moved_to) * record_bytes
    assert 9 * KIB - record_bytes < left_bytes <= 9 * KIB
    assert await committed(world, "quick") == end - 2
    statistics = world.broker.backlog.statistics()
    assert statistics.records_skipped == {"slow": moved_to - 1} and statistics.records_expired == 0
    assert row_of(await world.client().ask(produce_request(topic, batch_of(1)))).error_code == 0
    await world.crash()
    assert await committed(world, "slow") >= moved_to, "it is as durable as a commit"


@scenario(in_broker_world)
async def test_r13_a_group_that_never_committed_is_moved_as_well(world) -> None:
    topic, record_bytes = await over_quota(world, EVICT)
    end = world.opened(topic).high_watermark
    await pass_long(world, QUOTA_MS)
    assert (end - await committed(world, "g")) * record_bytes <= 9 * KIB


@scenario(in_broker_world)
async def test_a_deleted_group_holds_nobody_up_and_is_not_made_again(world) -> None:
    topic, _ = await over_quota(world, HOLD)
    await commit(world, "g", 1)
    await pass_long(world, QUOTA_MS)
    assert told(world)["t", 0].state == "hold"
    assert await delete_group(world, "g") == 0
    await pass_long(world, QUOTA_MS)
    assert told(world) == {}
    assert row_of(await world.client().ask(produce_request(topic, batch_of(1)))).error_code == 0
    assert (await within_time(world, ListGroupsRequest(), 4)).groups == []


@scenario(in_broker_world)
async def test_of_partitions_that_are_not_open_objects_tell(world) -> None:
    topic, _ = await over_quota(world, HOLD)
    await world.restart()
    await pass_long(world, QUOTA_MS)
    assert world.parts.partitions.opened(topic.id, 0) is None, "a look opens nothing"
    assert told(world)["t", 0].state == "hold" and told(world)["t", 1].backlog_bytes == 0


@scenario(in_broker_world)
async def test_what_was_decided_stands_while_groups_cannot_be_asked(world) -> None:
    topic, _ = await over_quota(world, REFUSE)
    await pass_long(world, QUOTA_MS)
    world.parts.groups.end_waits()
    await pass_long(world, 2 * QUOTA_MS)
    row = row_of(await world.client().ask(produce_request(topic, batch_of(1))))
    assert row.error_code == ErrorCode.POLICY_VIOLATION


def test_operators_are_told_once_when_records_are_refused_and_once_when_they_are_taken_again(caplog):
    async def scenario(world):
        topic, _ = await over_quota(world, REFUSE)
        with caplog.at_level(logging.INFO, "siltstone.broker.backlog"):
            for _ in range(3):
                await pass_long(world, QUOTA_MS)
            assert messages() == [
                "t-0 takes no records (refuse): 12.9 KiB wait for group g, the quota is 10.0 KiB"
            ]
            await commit(world, "g", world.opened(topic).high_watermark)
            for _ in range(2):
                await pass_long(world, QUOTA_MS)
            assert messages()[1:] == ["t-0 takes records again: group g has caught up"]

    def messages():
        return [record.getMessage() for record in caplog.records if "takes" in record.getMessage()]

    in_broker_world(scenario)


@scenario(in_broker_world)
async def test_tp56_a_group_is_moved_up_to_an_open_transaction_and_not_past_it(world) -> None:
    topic = await registered_topic(
        world, "g", partitions=2, backlog_quota_bytes=str(10 * KIB), backlog_quota_policy=EVICT
    )
    record_bytes = len(batch_of(1, value_bytes=100))
    await store(world, topic, 5)
    client = TransactionClient(world)
    assert await client.init(timeout_ms=15 * 60_000) is NONE
    await client.send(topic, 0)
    await store(world, topic, 20 * KIB // record_bytes)
    await pass_long(world, QUOTA_MS)
    assert await committed(world, "g") == 5, "what follows may be committed later"
    assert await client.end() is NONE
    await pass_long(world, QUOTA_MS)
    assert await committed(world, "g") > 5
