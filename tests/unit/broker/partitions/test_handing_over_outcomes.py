"""Moves between brokers while the bucket refuses, an outcome is unknown, or the target is fenced.

M.. are the rows of the page of scenarios.
"""

import asyncio

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from siltstone.kafka_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from siltstone.kafka_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from siltstone.metadata.commands import DeleteTopic, FenceNode, GiveUpPartitions, MovePartitions, ResumeNode
from siltstone.metadata.entities import NO_NODE, StreamState
from siltstone.metadata.refusals import NotLeader
from siltstone.model.limits import HAND_OVER_MS_MAX
from siltstone.object_store.port import StoreTransient
from siltstone.stream_engine.errors import StreamHandleClosed, StreamHeld
from support.broker.broker_cluster import BrokerCluster, ServingNode, in_broker_cluster
from support.broker.broker_world import WRITE
from support.engine.engine_world import settled
from support.kafka.kafka_requests import batch_of, fetch_request, produce_request, row_of, sequenced
from support.scenarios import scenario

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


async def produced(cluster: BrokerCluster, node_id: int, topic, batch):
    return row_of(await cluster.nodes[node_id].client().ask(produce_request(topic, batch)))


def end_of(topic) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])])


def image_of(cluster: BrokerCluster, node_id: int):
    return cluster.nodes[node_id].node.metadata.image


def hold_entries_from_the_hand_over_on(node: ServingNode) -> None:
    """What is uploaded before needs the metadata log, so its entries are held only from the command on."""
    execute = node.node.metadata.execute

    async def holding(command):
        if isinstance(command, GiveUpPartitions):
            node.log.is_holding = True
        return await execute(command)

    node.node.metadata.execute = holding


@scenario(in_broker_cluster)
async def test_m10_while_the_bucket_refuses_the_old_leader_serves_on(cluster) -> None:
    topic = await cluster.topic()
    await produced(cluster, 0, topic, batch_of())
    put = cluster.store.put

    def refused(*_, **__):
        raise StoreTransient("out of reach")

    cluster.store.put = cluster.store.put_if_absent = refused
    await cluster.move(topic, 1)
    for offset in range(1, 20):
        sent = cluster.nodes[0].client().send(produce_request(topic, batch_of()))
        await cluster.passes(1_000)
        assert sent.done(), "never longer than the time a hand-over may hold"
        assert row_of(sent.result()).base_offset == offset
    assert (cluster.partition(topic).leader, cluster.partition(topic).target) == (0, 1)
    cluster.store.put = put
    del cluster.store.put_if_absent
    await cluster.until(lambda: cluster.partition(topic).leader == 1, 400_000)
    assert (await produced(cluster, 1, topic, batch_of())).base_offset == 20


@pytest.mark.parametrize("lands", [False, True])
@scenario(in_broker_cluster)
async def test_m11_while_the_outcome_is_unknown_nothing_is_appended(cluster, lands) -> None:
    """The entry is under way for half a minute; then it arrives, or never does."""
    topic = await cluster.topic()
    await produced(cluster, 0, topic, batch_of(3))
    old = cluster.nodes[0]
    partition = old.parts.partitions.opened(topic.id, 0)
    await cluster.nodes[1].node.metadata.execute(MovePartitions(((topic.id, 0, 1),)))
    hold_entries_from_the_hand_over_on(old)
    await cluster.until(lambda: old.log.under_way)
    for _ in range(10):
        refused = old.client().send(produce_request(topic, batch_of()))
        await cluster.passes(3_000)
        assert row_of(refused.result()).error_code == NOT_LEADER
        assert partition.next_offset == 3
        assert old.parts.partitions.opened(topic.id, 0) is partition
    if lands:
        assert old.log.land() == 1
    del old.node.metadata.execute
    old.log.is_holding = False
    await cluster.until(lambda: cluster.partition(topic).leader == 1)
    assert old.log.land() == 0, "an entry that is late finds its version taken"
    await cluster.until(lambda: old.parts.partitions.opened(topic.id, 0) is None)
    assert (await produced(cluster, 1, topic, batch_of())).base_offset == 3
    assert (await produced(cluster, 0, topic, batch_of())).error_code == NOT_LEADER


@scenario(in_broker_cluster)
async def test_m23_a_partition_that_came_back_while_the_outcome_was_unknown_is_opened_anew(cluster) -> None:
    """The streams were closed by the hand-over. A node that served on would acknowledge records which its next start
    leaves out, as it recovers the records of open streams only (seed 988665047 of the simulated clusters)."""
    topic = await cluster.topic()
    await produced(cluster, 0, topic, batch_of(3))
    old, target = cluster.nodes
    partition = old.parts.partitions.opened(topic.id, 0)
    hold_entries_from_the_hand_over_on(old)
    await target.node.metadata.execute(MovePartitions(((topic.id, 0, 1),)))
    await cluster.until(lambda: old.log.under_way)
    assert old.log.land() == 1
    await target.node.metadata.execute(MovePartitions(((topic.id, 0, 0),)))
    await cluster.until(lambda: cluster.partition(topic).leader == 0)
    del old.node.metadata.execute
    old.log.is_holding = False
    await cluster.until(lambda: old.parts.partitions.opened(topic.id, 0) is not partition)
    assert (await produced(cluster, 0, topic, batch_of())).base_offset == 3
    stream = image_of(cluster, 0).streams[partition.streams.data.stream_id]
    assert (stream.state, stream.epoch) == (StreamState.OPENED, partition.streams.data.epoch + 1)


@scenario(in_broker_cluster)
async def test_m24_the_old_leader_tells_no_end_while_the_outcome_is_unknown(cluster) -> None:
    """The new leader had appended, and the old one told where its own records ended (seed 688069509401 of the simulated
    clusters)."""
    topic = await cluster.topic()
    await produced(cluster, 0, topic, batch_of(3))
    old = cluster.nodes[0]
    hold_entries_from_the_hand_over_on(old)
    waiting = old.client().send(fetch_request(topic, {0: 3}, wait_ms=60_000, min_bytes=1))
    await cluster.nodes[1].node.metadata.execute(MovePartitions(((topic.id, 0, 1),)))
    await cluster.until(lambda: old.log.under_way)
    old.log.is_unreadable = True
    assert old.log.land() == 1
    await cluster.nodes[1].node.metadata.refresh()
    assert (await produced(cluster, 1, topic, batch_of(2))).base_offset == 3
    late = old.client().send(end_of(topic))
    await cluster.passes(HAND_OVER_MS_MAX)
    assert row_of(late.result()).error_code == NOT_LEADER
    empty = await old.client().ask(fetch_request(topic, {0: 3}, wait_ms=0))
    assert row_of(empty).error_code == NOT_LEADER
    row = row_of(await old.client().ask(fetch_request(topic, {0: 0}, wait_ms=0)))
    assert (row.error_code, bool(row.records)) == (0, True), "its records are right all the same"
    asked = old.client().send(end_of(topic))
    old.log.is_holding = old.log.is_unreadable = False
    await cluster.until(lambda: asked.done() and waiting.done())
    assert [row_of(each.result()).error_code for each in (asked, waiting)] == [NOT_LEADER] * 2
    assert row_of(await cluster.nodes[1].client().ask(end_of(topic))).offset == 5


@scenario(in_broker_cluster)
async def test_m24_a_hand_over_that_did_not_happen_lets_the_end_be_told(cluster) -> None:
    topic = await cluster.topic()
    await produced(cluster, 0, topic, batch_of(3))
    old = cluster.nodes[0]
    execute, may_go_on = old.node.metadata.execute, asyncio.Event()

    async def waiting(command):
        if isinstance(command, GiveUpPartitions):
            await may_go_on.wait()
        return await execute(command)

    old.node.metadata.execute = waiting
    partition = old.parts.partitions.opened(topic.id, 0)
    await cluster.move(topic, 1)
    await cluster.until(lambda: not partition.knows_its_end)
    asked = old.client().send(end_of(topic))
    await settled()
    assert not asked.done()
    await cluster.nodes[1].node.metadata.execute(MovePartitions(((topic.id, 0, NO_NODE),)))
    may_go_on.set()
    await cluster.until(asked.done)
    assert (row_of(asked.result()).error_code, row_of(asked.result()).offset) == (0, 3)


@scenario(in_broker_cluster)
async def test_m12_a_cancelled_move_is_served_on_and_one_that_ended_cannot_be_cancelled(cluster) -> None:
    topic = await cluster.topic()
    await produced(cluster, 0, topic, batch_of())
    cluster.nodes[0].calls.hold(WRITE)
    under_way = cluster.nodes[0].client().send(produce_request(topic, batch_of()))
    await cluster.move(topic, 1)
    await cluster.nodes[1].node.metadata.execute(MovePartitions(((topic.id, 0, NO_NODE),)))
    cluster.nodes[0].calls.release(WRITE)
    await cluster.passes(3_000)
    assert row_of(await under_way).base_offset == 1
    assert (await produced(cluster, 0, topic, batch_of())).base_offset == 2
    assert (cluster.partition(topic).leader, cluster.partition(topic).target) == (0, NO_NODE)
    row = ReassignablePartition(partition_index=0, replicas=None)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[row])])
    answer = await cluster.nodes[1].client().ask(request)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@scenario(in_broker_cluster, 3)
async def test_m14_many_partitions_leave_by_one_command_of_their_leader(cluster) -> None:
    topic = await cluster.topic(leaders=(0,) * 60)
    await cluster.nodes[0].client().ask(produce_request(topic, *(batch_of() for _ in range(60))))
    metadata, given_up = cluster.nodes[0].node.metadata, []
    execute = metadata.execute

    async def counted(command):
        if isinstance(command, GiveUpPartitions):
            given_up.append(len(command.partitions))
        return await execute(command)

    metadata.execute = counted
    moves = tuple((topic.id, index, 1 + index % 2) for index in range(60))
    await cluster.nodes[1].node.metadata.execute(MovePartitions(moves))
    await cluster.until(lambda: all(cluster.partition(topic, each).leader for each in range(60)))
    assert given_up == [60]
    for node_id in (1, 2):
        answer = await cluster.nodes[node_id].client().ask(produce_request(topic, *[batch_of()] * 3))
        codes = [row.error_code for row in answer.topics[0].partitions]
        assert codes == [0 if 1 + index % 2 == node_id else NOT_LEADER for index in range(3)]


@scenario(in_broker_cluster)
async def test_m16_the_old_leader_with_its_old_handles_can_neither_append_nor_open(cluster) -> None:
    topic = await cluster.topic()
    await produced(cluster, 0, topic, batch_of())
    old = cluster.nodes[0]
    streams = old.parts.partitions.opened(topic.id, 0).streams
    await cluster.move(topic, 1)
    await cluster.until(lambda: cluster.partition(topic).leader == 1)
    with pytest.raises(StreamHandleClosed):
        old.node.engine.append(streams.data, b"late", 1)
    partition = cluster.partition(topic)
    with pytest.raises(NotLeader):
        await old.node.engine.open_partition(
            topic.id, 0, (partition.data_stream_id, partition.meta_stream_id)
        )


@scenario(in_broker_cluster)
async def test_m19_a_move_that_is_cancelled_while_it_is_given_up_is_refused_and_served_on(cluster) -> None:
    topic = await cluster.topic()
    await produced(cluster, 0, topic, batch_of())
    old, other = cluster.nodes
    execute = old.node.metadata.execute

    async def cancelled_before(command):
        if type(command).__name__ == "GiveUpPartitions":
            await other.node.metadata.execute(MovePartitions(((topic.id, 0, NO_NODE),)))
        return await execute(command)

    old.node.metadata.execute = cancelled_before
    await cluster.move(topic, 1)
    await cluster.passes(3_000)
    assert cluster.partition(topic).leader == 0
    assert (await produced(cluster, 0, topic, batch_of())).base_offset == 1


@scenario(in_broker_cluster)
async def test_m20_a_topic_deleted_meanwhile_does_not_hold_up_the_others(cluster) -> None:
    topics = [await cluster.topic(f"t{number}") for number in range(3)]
    for topic in topics:
        await produced(cluster, 0, topic, batch_of())
    old, other = cluster.nodes
    execute = old.node.metadata.execute

    async def deleted_before(command):
        if type(command).__name__ == "GiveUpPartitions" and topics[1].id in other.node.metadata.image.topics:
            await other.node.metadata.execute(DeleteTopic(1, 1, topics[1].id))
        return await execute(command)

    old.node.metadata.execute = deleted_before
    targets = tuple((topic.id, 0, 1) for topic in topics)
    await other.node.metadata.execute(MovePartitions(targets))
    await cluster.until(lambda: cluster.partition(topics[0]).leader == 1)
    assert cluster.partition(topics[2]).leader == 1
    assert all(old.parts.partitions.opened(topic.id, 0) is None for topic in topics)


@scenario(in_broker_cluster)
async def test_m21_after_the_last_snapshot_nothing_is_appended(cluster) -> None:
    topic = await cluster.topic()
    await produced(cluster, 0, topic, sequenced(5, 0, 4))
    partition = cluster.nodes[0].parts.partitions.opened(topic.id, 0)
    partition.hold()
    partition.hold_snapshots()
    asked = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
    answer = await cluster.nodes[0].client().ask(DeleteRecordsRequest(topics=[asked]))
    assert answer.topics[0].partitions[0].error_code == NOT_LEADER
    with pytest.raises(StreamHeld):
        await partition.write_snapshot()
    partition.release()
    await partition.write_snapshot()


@scenario(in_broker_cluster)
async def test_m22_a_node_that_is_fenced_before_it_gives_up_serves_on_when_it_has_resumed(cluster) -> None:
    topic = await cluster.topic()
    await produced(cluster, 0, topic, batch_of())
    old, other = cluster.nodes
    life = image_of(cluster, 0).nodes[0]
    execute, fences = old.node.metadata.execute, iter([FenceNode(0, life.node_epoch)])

    async def fenced_before(command):
        if type(command).__name__ == "GiveUpPartitions" and (fence := next(fences, None)):
            await other.node.metadata.execute(fence)
        return await execute(command)

    old.node.metadata.execute = fenced_before
    await cluster.move(topic, 1)
    await cluster.passes(500)
    assert cluster.partition(topic).leader == 0
    await other.node.metadata.execute(ResumeNode(0, life.node_epoch, life.incarnation))
    await cluster.until(lambda: cluster.partition(topic).leader == 1)
    assert (await produced(cluster, 1, topic, batch_of())).base_offset == 1


@scenario(in_broker_cluster)
async def test_a_partition_waits_for_a_target_that_is_fenced_and_leaves_when_it_has_resumed(
    cluster, caplog
) -> None:
    topic = await cluster.topic()
    await produced(cluster, 0, topic, batch_of())
    life = image_of(cluster, 1).nodes[1]
    for command in (MovePartitions(((topic.id, 0, 1),)), FenceNode(1, life.node_epoch)):
        await cluster.nodes[1].node.metadata.execute(command)
    await cluster.known()
    await cluster.passes(3_000)
    assert (cluster.partition(topic).leader, cluster.partition(topic).target) == (0, 1)
    assert (await produced(cluster, 0, topic, batch_of())).base_offset == 1
    assert "not handed over" not in caplog.text, "nothing was tried"
    await cluster.nodes[1].node.metadata.execute(ResumeNode(1, life.node_epoch, life.incarnation))
    await cluster.passes(3_000)
    assert cluster.partition(topic).leader == 1
    assert (await produced(cluster, 1, topic, batch_of())).base_offset == 2


@scenario(in_broker_cluster)
async def test_a_partition_is_not_opened_for_a_client_while_it_is_given_up(cluster, caplog) -> None:
    topic = await cluster.topic()
    old = cluster.nodes[0]
    execute, asked = old.node.metadata.execute, []

    async def asked_before(command):
        if type(command).__name__ == "GiveUpPartitions":
            asked.append(old.client().send(produce_request(topic, batch_of())))
            await settled()
        return await execute(command)

    old.node.metadata.execute = asked_before
    await cluster.move(topic, 1)
    await cluster.until(lambda: cluster.partition(topic).leader == 1)
    assert [row_of(await each).error_code for each in asked] == [NOT_LEADER]
    assert (await produced(cluster, 1, topic, batch_of())).base_offset == 0
    assert image_of(cluster, 1).streams[0].epoch == 0, "the old leader never opened it"


@scenario(in_broker_cluster)
async def test_a_partition_that_was_never_opened_moves_as_well(cluster) -> None:
    topic = await cluster.topic()
    await cluster.move(topic, 1)
    await cluster.until(lambda: cluster.partition(topic).leader == 1)
    assert (await produced(cluster, 1, topic, batch_of())).base_offset == 0


@scenario(in_broker_cluster)
async def test_a_partition_whose_log_was_carried_over_a_start_is_opened_before_it_leaves(cluster) -> None:
    """Its end in the metadata is not its end: what the log holds was acknowledged."""
    topic = await cluster.topic()
    await produced(cluster, 0, topic, batch_of(7))
    old = cluster.nodes[0]
    put, if_absent = cluster.store.put, cluster.store.put_if_absent

    def refused(*_, **__):
        raise StoreTransient("out of reach")

    cluster.store.put = cluster.store.put_if_absent = refused
    old.world.crash(old.calls)
    old.calls = type(old.calls)()
    await old.world.passing(old.start())
    assert image_of(cluster, 0).streams[0].state is StreamState.OPENED
    assert old.parts.partitions.opened(topic.id, 0) is None
    cluster.store.put, cluster.store.put_if_absent = put, if_absent
    await cluster.move(topic, 1)
    await cluster.until(lambda: cluster.partition(topic).leader == 1, 400_000)
    assert (await produced(cluster, 1, topic, batch_of())).base_offset == 7
