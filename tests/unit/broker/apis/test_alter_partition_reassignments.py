"""AlterPartitionReassignments, ListPartitionReassignments and UnregisterBroker between two brokers."""

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from siltstone.kafka_protocol.messages.elect_leaders import ElectLeadersRequest
from siltstone.kafka_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from siltstone.kafka_protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from siltstone.kafka_protocol.messages.unregister_broker import UnregisterBrokerRequest
from siltstone.metadata.commands import FenceNode
from support.broker.broker_cluster import in_broker_cluster
from support.broker.broker_world import WRITE
from support.kafka.kafka_requests import batch_of, produce_request
from support.scenarios import scenario

BROKER = 4


def moving(topic_name, index, replicas):
    row = ReassignablePartition(partition_index=index, replicas=replicas)
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic_name, partitions=[row])])


@pytest.mark.parametrize(
    ("topic_name", "index", "replicas", "code"),
    [
        ("nosuch", 0, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 9, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [0, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [7], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("t", 0, [0], ErrorCode.NONE),
    ],
)
@scenario(in_broker_cluster)
async def test_what_a_reassignment_may_ask_for(cluster, topic_name, index, replicas, code) -> None:
    await cluster.topic()
    answer = await cluster.nodes[1].client().ask(moving(topic_name, index, replicas))
    assert answer.responses[0].partitions[0].error_code == code


@scenario(in_broker_cluster)
async def test_a_move_is_listed_until_it_has_ended_or_is_cancelled(cluster) -> None:
    topic = await cluster.topic()
    old, other = cluster.nodes
    await old.client().ask(produce_request(topic, batch_of()))
    old.calls.hold(WRITE)
    under_way = old.client().send(produce_request(topic, batch_of()))
    await other.client().ask(moving("t", 0, [1]))
    for node in cluster.nodes:
        cluster.clock.advance_ms(30)
        (listed,) = (await node.client().ask(ListPartitionReassignmentsRequest())).topics
        row = listed.partitions[0]
        assert (row.replicas, row.adding_replicas, row.removing_replicas) == ([0, 1], [1], [0])
    cancelled = await other.client().ask(moving("t", 0, None))
    assert cancelled.responses[0].partitions[0].error_code == 0
    old.calls.release(WRITE)
    await under_way
    cluster.clock.advance_ms(30)
    assert (await old.client().ask(ListPartitionReassignmentsRequest())).topics == []
    assert cluster.partition(topic).leader == 0


@scenario(in_broker_cluster)
async def test_n17_a_broker_is_unregistered_when_it_is_gone_and_leads_nothing(cluster) -> None:
    await cluster.topic(leaders=(1,))
    asked = cluster.nodes[0].client()
    for broker_id, code in ((9, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, ErrorCode.INVALID_REQUEST)):
        answer = await asked.ask(UnregisterBrokerRequest(broker_id=broker_id))
        assert (answer.error_code, bool(answer.error_message)) == (code, True)
    await cluster.nodes[0].node.metadata.execute(FenceNode(1, 1))
    answer = await asked.ask(UnregisterBrokerRequest(broker_id=1))
    assert "leads 1 partitions" in answer.error_message


@scenario(in_broker_cluster)
async def test_no_leader_is_elected_in_place_of_one_that_is_gone(cluster) -> None:
    await cluster.topic(leaders=(0, 1))
    ask = cluster.nodes[0].client().ask
    assert (await ask(ElectLeadersRequest(topic_partitions=None))).replica_election_results == []
    await cluster.nodes[0].node.metadata.execute(FenceNode(1, 1))
    for kind, code in (
        (0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ):
        request = ElectLeadersRequest(election_type=kind, topic_partitions=None)
        (result,) = (await ask(request)).replica_election_results
        assert [(row.partition_id, row.error_code) for row in result.partition_result] == [(1, code)]


@scenario(in_broker_cluster)
async def test_the_throttles_of_kafka_s_tool_are_accepted_for_every_broker(cluster) -> None:
    configs = [
        AlterableConfig(name=name, config_operation=operation, value=value)
        for name, operation, value in (
            ("leader.replication.throttled.rate", 0, "1000"),
            ("follower.replication.throttled.rate", 1, None),
        )
    ]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (row,) = (await cluster.nodes[0].client().ask(request)).responses
    assert row.error_code == 0
