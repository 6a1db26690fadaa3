"""CreatePartitions: adds partitions to existing topics. The new ones are empty; records with a key may from then on be
sent to another partition than before."""

from collections import Counter

from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.parts import BrokerParts
from siltstone.broker.quotas.throttling import Mutations
from siltstone.broker.request import RequestContext
from siltstone.broker.topics.creating import only_replica
from siltstone.broker.topics.names import (
    InternalTopic,
    InvalidPartitionCount,
    InvalidReplicaAssignment,
    UnknownTopic,
)
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from siltstone.metadata.commands import AddPartitions
from siltstone.metadata.decisions.table import decide
from siltstone.metadata.refusals import Refusal
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.runtime.turns import side_by_side

STRICT_VERSION = 3
"""From this version on clients know that a quota refuses new partitions (KIP-599)."""


async def handle_create_partitions(
    parts: BrokerParts, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    times_named = Counter(topic.name for topic in request.topics)
    is_strict = context.api_version >= STRICT_VERSION
    mutations = parts.throttling.mutations(context.connection, is_strict=is_strict)
    results = await side_by_side(
        lambda topic: _result(parts, topic, request.validate_only, mutations),
        (topic for topic in request.topics if times_named[topic.name] == 1),
    )
    repeated = InvalidRequest("Duplicate topic name.")
    results += [_refused(name, repeated) for name, times in times_named.items() if times > 1]
    return CreatePartitionsResponse(results=results)


async def _result(
    parts: BrokerParts, asked: CreatePartitionsTopic, validate_only: bool, mutations: Mutations
) -> CreatePartitionsTopicResult:
    try:
        topic = _growing(parts, asked)
        leaders = _leaders(parts, asked, asked.count - topic.partition_count)
        most = parts.settings.partitions_max
        command = AddPartitions(parts.node_id, parts.node_epoch, topic.id, asked.count, leaders, most)
        if not validate_only:
            mutations.charge(asked.count - topic.partition_count)
            await parts.metadata.execute(command)
        elif isinstance(answer := decide(parts.metadata.image, command, parts.clock.now_ms()), Refusal):
            raise answer
    except SiltstoneError as failure:
        return _refused(asked.name, failure)
    return CreatePartitionsTopicResult(name=topic.name)


def _growing(parts: BrokerParts, asked: CreatePartitionsTopic) -> Topic:
    """Returns the topic that is to get partitions. Raises UnknownTopic, InternalTopic, InvalidPartitionCount."""
    topic = parts.topics.by_name(asked.name)
    if topic is None:
        raise UnknownTopic(asked.name)
    if topic.is_internal:
        raise InternalTopic(topic.name)
    added = asked.count - topic.partition_count
    if added == 0:
        raise InvalidPartitionCount(f"Topic already has {asked.count} partition(s).")
    if added < 0:
        raise InvalidPartitionCount(
            f"The topic {topic.name} currently has {topic.partition_count} partition(s); {asked.count} would not be "
            "an increase."
        )
    return topic


def _leaders(parts: BrokerParts, asked: CreatePartitionsTopic, added: int) -> tuple[int, ...]:
    """Returns the leaders that are assigned to the added partitions. None for null, which leaves it to the metadata.
    Raises InvalidReplicaAssignment."""
    assignments = asked.assignments
    if assignments is None:
        return ()
    if len(assignments) != added:
        raise InvalidReplicaAssignment(
            f"Attempted to add {added} additional partition(s), but only {len(assignments)} assignment(s) were "
            "specified."
        )
    live_ids = parts.cluster.live_ids
    return tuple([only_replica(live_ids, assignment.broker_ids) for assignment in assignments])


def _refused(name: str, failure: SiltstoneError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=name, error_code=error_code(failure), error_message=error_message(failure)
    )
