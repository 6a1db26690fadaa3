import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from support.broker.broker_world import in_broker_world
from support.scenarios import scenario

PREFERRED, UNCLEAN = 0, 1


def asking(*topics: tuple[str, list[int]], kind: int = PREFERRED) -> ElectLeadersRequest:
    named = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in topics]
    return ElectLeadersRequest(election_type=kind, topic_partitions=named)


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
@scenario(in_broker_world)
async def test_no_partition_needs_an_election_as_long_as_it_exists(world, version, kind) -> None:
    await world.topic(partitions=2)
    request = asking(("t", [1, 2]), ("nowhere", [0]), kind=kind if version else PREFERRED)
    answer = await world.client().ask(request, version)
    assert answer.error_code == 0
    rows = [
        (each.topic, row.partition_id, row.error_code)
        for each in answer.replica_election_results
        for row in each.partition_result
    ]
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert rows == [("t", 1, ErrorCode.ELECTION_NOT_NEEDED), ("t", 2, missing), ("nowhere", 0, missing)]


@scenario(in_broker_world)
async def test_of_all_partitions_those_are_told_whose_leader_changed(world) -> None:
    await world.topic()
    answer = await world.client().ask(ElectLeadersRequest(topic_partitions=None))
    assert (answer.error_code, answer.replica_election_results) == (0, [])


@scenario(in_broker_world)
async def test_an_election_that_is_none(world) -> None:
    answer = await world.client().ask(asking(("t", [0]), kind=7))
    assert (answer.error_code, answer.replica_election_results) == (ErrorCode.INVALID_REQUEST, [])
