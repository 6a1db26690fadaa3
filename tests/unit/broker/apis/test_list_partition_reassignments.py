import pytest

from siltstone.kafka_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from support.broker.broker_world import in_broker_world


@pytest.mark.parametrize(
    "topics", [None, [], [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 9])]]
)
def test_nothing_ever_moves(topics):
    async def scenario(world):
        await world.topic()
        answer = await world.client().ask(ListPartitionReassignmentsRequest(topics=topics))
        assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])

    in_broker_world(scenario)
