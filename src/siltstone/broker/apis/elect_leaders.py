"""ElectLeaders: no election is needed while the leader of a partition lives, and none helps when it does not: its
write-ahead log may hold the only copy of acknowledged records, so no other node is elected in its place."""

from functools import partial

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from siltstone.runtime.turns import in_turns, let_others_run

PREFERRED, UNCLEAN = 0, 1
REFUSALS = {
    PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


async def handle_elect_leaders(
    parts: BrokerParts, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """A request for all partitions is answered with the partitions that need a leader and get none."""
    if request.election_type not in REFUSALS:
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    everything = request.topic_partitions is None
    named = (
        [(topic.name, range(topic.partition_count)) for topic in parts.topics.all()]
        if request.topic_partitions is None
        else [(asked.topic, asked.partitions) for asked in request.topic_partitions]
    )
    results = []
    for name, indexes in named:
        row_of = partial(_result, parts, parts.topics.by_name(name), REFUSALS[request.election_type])
        rows = await in_turns(row_of, indexes)
        if everything:
            rows = [row for row in rows if row.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        if rows or not everything:
            results.append(ReplicaElectionResult(topic=name, partition_result=rows))
        await let_others_run()
    return ElectLeadersResponse(replica_election_results=results)


def _result(parts: BrokerParts, topic: Topic | None, refusal: ErrorCode, index: int) -> PartitionResult:
    """Makes the row of a partition, without a text: a request may name a hundred thousand partitions, and clients have
    texts for all codes."""
    if topic is None or not 0 <= index < topic.partition_count:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        is_led = parts.cluster.is_led(topic.metadata.partitions[index])
        code = ErrorCode.ELECTION_NOT_NEEDED if is_led else refusal
    return PartitionResult(partition_id=index, error_code=code, error_message=None)
