"""ListPartitionReassignments: the partitions that have a target, with the present leader and the target as replicas."""

from collections.abc import Iterable, Iterator

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from siltstone.metadata.entities import NO_NODE
from siltstone.runtime.turns import ITEMS_PER_TURN, let_others_run

Wanted = tuple[Topic, Iterable[int]]


async def handle_list_partition_reassignments(
    parts: BrokerParts, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The newest image is read first, because tools list to learn whether a move has ended that they asked another
    broker for."""
    await parts.cluster.refreshed()
    topics = []
    for number, (topic, indexes) in enumerate(_wanted(parts, request), 1):
        if number % ITEMS_PER_TURN == 0:
            await let_others_run()
        if rows := [row for index in indexes if (row := _row(topic, index)) is not None]:
            topics.append(OngoingTopicReassignment(name=topic.name, partitions=rows))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _wanted(parts: BrokerParts, request: ListPartitionReassignmentsRequest) -> Iterator[Wanted]:
    if request.topics is None:
        yield from ((topic, range(topic.partition_count)) for topic in parts.topics.all())
        return
    for asked in request.topics:
        known = parts.topics.by_name(asked.name)
        if known is not None:
            yield known, [index for index in asked.partition_indexes if 0 <= index < known.partition_count]


def _row(topic: Topic, index: int) -> OngoingPartitionReassignment | None:
    partition = topic.metadata.partitions[index]
    if partition.target == NO_NODE:
        return None
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=[partition.leader, partition.target],
        adding_replicas=[partition.target],
        removing_replicas=[partition.leader],
    )
