import pytest

from siltstone.kafka_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from support.broker.broker_world import in_broker_world
from support.scenarios import scenario


@pytest.mark.parametrize(
    "topics", [None, [], [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 9])]]
)
@scenario(in_broker_world)
async def test_nothing_ever_moves(world, topics) -> None:
    await world.topic()
    answer = await world.client().ask(ListPartitionReassignmentsRequest(topics=topics))
    assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])
