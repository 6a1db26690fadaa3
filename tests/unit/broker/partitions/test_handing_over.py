"""Moves between brokers. M.. are the rows of the page of scenarios."""

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from siltstone.model.limits import HAND_OVER_MS_MAX, HELD_PRODUCE_BYTES_MAX
from support.broker.broker_cluster import BrokerCluster, in_broker_cluster
from support.broker.broker_world import WRITE
from support.engine.engine_world import settled
from support.kafka.kafka_requests import batch_of, fetch_request, produce_request, row_of, sequenced
from support.scenarios import scenario

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


async def produced(cluster: BrokerCluster, node_id: int, topic, batch):
    return row_of(await cluster.nodes[node_id].client().ask(produce_request(topic, batch)))


@scenario(in_broker_cluster)
async def test_m01_the_target_goes_on_under_the_next_epoch_and_m02_knows_the_producers(cluster) -> None:
    topic = await cluster.topic()
    first = await produced(cluster, 0, topic, sequenced(5, 0, 3))
    await cluster.move(topic, 1)
    await cluster.until(lambda: cluster.partition(topic).leader == 1)
    again = await produced(cluster, 1, topic, sequenced(5, 0, 3))
    assert (again.error_code, again.base_offset) == (0, first.base_offset)
    assert not cluster.nodes[1].parts.partitions.opened(topic.id, 0).needs_snapshot, "no batch was read again"
    following = await produced(cluster, 1, topic, sequenced(5, 3))
    assert (following.error_code, following.base_offset) == (0, 3)
    opened = cluster.nodes[1].parts.partitions.opened(topic.id, 0)
    assert (opened.leader_epoch, opened.next_offset) == (1, 4)


@scenario(in_broker_cluster)
async def test_a_partition_comes_back_and_is_read_across_both_moves(cluster) -> None:
    topic = await cluster.topic()
    for turn in range(4):
        assert (await produced(cluster, turn % 2, topic, batch_of(2))).base_offset == 2 * turn
        await cluster.move(topic, 1 - turn % 2)
        await cluster.until(lambda turn=turn: cluster.partition(topic).leader == 1 - turn % 2)
    answer = await cluster.nodes[0].client().ask(fetch_request(topic, {0: 0}))
    assert row_of(answer).high_watermark == 8
    opened = cluster.nodes[0].parts.partitions.opened(topic.id, 0)
    read = [batch for offset in (0, 2, 4, 6) for batch in await opened.read(offset, 1)]
    assert [batch.base_offset for batch in read] == [0, 2, 4, 6]


@scenario(in_broker_cluster)
async def test_m04_a_held_produce_is_answered_with_the_new_leader_and_nothing_was_appended(cluster) -> None:
    topic = await cluster.topic()
    await produced(cluster, 0, topic, batch_of())
    old = cluster.nodes[0]
    partition = old.parts.partitions.opened(topic.id, 0)
    partition.hold()
    waiting = old.client().send(produce_request(topic, batch_of()))
    await settled()
    assert not waiting.done()
    await cluster.move(topic, 1)
    await cluster.until(waiting.done)
    answer = waiting.result()
    row = row_of(answer)
    assert (row.error_code, row.current_leader.leader_id, row.current_leader.leader_epoch) == (
        NOT_LEADER,
        1,
        1,
    )
    (endpoint,) = answer.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (1, "node-1.example", 9092)
    assert (await produced(cluster, 1, topic, batch_of())).base_offset == 1


@scenario(in_broker_cluster)
async def test_m03_of_five_batches_in_flight_the_lost_one_makes_none_out_of_order(cluster) -> None:
    """The first one is stored before the partition is held, the second never arrives, the others wait."""
    topic = await cluster.topic()
    assert (await produced(cluster, 0, topic, sequenced(7, 0))).base_offset == 0
    old = cluster.nodes[0]
    old.parts.partitions.opened(topic.id, 0).hold()
    waiting = [old.client().send(produce_request(topic, sequenced(7, number))) for number in (2, 3, 4)]
    await settled()
    await cluster.move(topic, 1)
    for each in waiting:
        await cluster.until(each.done)
    assert [row_of(each.result()).error_code for each in waiting] == [NOT_LEADER] * 3
    again = [await produced(cluster, 1, topic, sequenced(7, number)) for number in (0, 1, 2, 3, 4)]
    assert [(row.error_code, row.base_offset) for row in again] == [(0, number) for number in range(5)]


@pytest.mark.parametrize("bytes_held", [0, HELD_PRODUCE_BYTES_MAX])
@scenario(in_broker_cluster)
async def test_what_waits_for_a_hand_over_has_limits_in_time_and_bytes(cluster, bytes_held) -> None:
    topic = await cluster.topic()
    await produced(cluster, 0, topic, batch_of())
    node = cluster.nodes[0]
    partition = node.parts.partitions.opened(topic.id, 0)
    partition.hold()
    node.broker._produce._held_bytes = bytes_held
    waiting = node.client().send(produce_request(topic, batch_of()))
    await settled()
    assert waiting.done() == bool(bytes_held)
    cluster.clock.advance_ms(HAND_OVER_MS_MAX)
    row = row_of(await waiting)
    assert (row.error_code, row.current_leader.leader_id) == (NOT_LEADER, -1), "no other one leads it"
    assert node.broker._produce._held_bytes == bytes_held
    partition.release()
    assert (await produced(cluster, 0, topic, batch_of())).base_offset == 1


@scenario(in_broker_cluster)
async def test_m05_a_produce_without_hints_is_refused_alike(cluster) -> None:
    topic = await cluster.topic(leaders=(1,))
    answer = await cluster.nodes[0].client().ask(produce_request(topic, batch_of()), 9)
    assert row_of(answer).error_code == NOT_LEADER


@scenario(in_broker_cluster)
async def test_m06_a_waiting_fetch_is_woken_and_the_old_epoch_has_its_end(cluster) -> None:
    topic = await cluster.topic()
    await produced(cluster, 0, topic, batch_of(5))
    waiting = cluster.nodes[0].client().send(fetch_request(topic, {0: 5}, wait_ms=60_000, min_bytes=1))
    await settled()
    await cluster.move(topic, 1)
    await cluster.until(waiting.done)
    row = row_of(waiting.result())
    assert (row.error_code, row.current_leader.leader_id) == (NOT_LEADER, 1)
    await produced(cluster, 1, topic, batch_of())
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=1, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])])
    found = (await cluster.nodes[1].client().ask(request)).topics[0].partitions[0]
    assert (found.leader_epoch, found.end_offset) == (0, 5)


@scenario(in_broker_cluster)
async def test_appends_under_way_are_answered_before_the_partition_leaves(cluster) -> None:
    topic = await cluster.topic()
    await produced(cluster, 0, topic, batch_of())
    old = cluster.nodes[0]
    old.calls.hold(WRITE)
    under_way = old.client().send(produce_request(topic, batch_of()))
    await cluster.move(topic, 1)
    await cluster.passes(1_000)
    assert cluster.partition(topic).leader == 0
    old.calls.release(WRITE)
    await cluster.until(lambda: cluster.partition(topic).leader == 1)
    assert row_of(await under_way).base_offset == 1
    assert (await produced(cluster, 1, topic, batch_of())).base_offset == 2
