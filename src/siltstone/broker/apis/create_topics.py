"""CreateTopics: each topic has a result of its own; one that is refused does not affect the others (item 21).

The topics of one request are created at the same time, so that their commands share an append of the metadata log.
"""

from collections import Counter

from siltstone.broker.apis.config_entries import topic_entries
from siltstone.broker.apis.topic_description import REPLICATION_FACTOR
from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.parts import BrokerParts
from siltstone.broker.quotas.throttling import Mutations
from siltstone.broker.request import RequestContext
from siltstone.broker.topics.creating import BROKER_DEFAULT, NewTopic, only_replica
from siltstone.broker.topics.names import InvalidReplicaAssignment, TooManyPartitionsAtOnce
from siltstone.kafka_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from siltstone.kafka_protocol.notation import NO_UUID
from siltstone.metadata.entities import TopicMetadata
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.model.limits import PARTITIONS_PER_COMMAND_MAX
from siltstone.runtime.turns import side_by_side
from siltstone.topic_configs.values import InvalidTopicConfig

STRICT_VERSION = 6
"""From this version on clients know that a quota refuses a topic (KIP-599)."""


async def handle_create_topics(
    parts: BrokerParts, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    times_named = Counter(topic.name for topic in request.topics)
    refusal = _refusal_of_all(parts, request)
    is_strict = context.api_version >= STRICT_VERSION
    mutations = parts.throttling.mutations(context.connection, is_strict=is_strict)
    results = await side_by_side(
        lambda topic: _result(parts, topic, request.validate_only, refusal, mutations),
        (topic for topic in request.topics if times_named[topic.name] == 1),
    )
    repeated = InvalidRequest("Duplicate topic name.")
    results += [_refused(name, repeated) for name, times in times_named.items() if times > 1]
    return CreateTopicsResponse(topics=results)


def _refusal_of_all(parts: BrokerParts, request: CreateTopicsRequest) -> SiltstoneError | None:
    """Returns the refusal of a request that asks for too many partitions in all. Kafka bounds what a request creates,
    too."""
    partitions = sum(_partitions_asked(parts, topic) for topic in request.topics)
    if partitions <= PARTITIONS_PER_COMMAND_MAX:
        return None
    return TooManyPartitionsAtOnce(
        f"{partitions} partitions in one request: ask for at most {PARTITIONS_PER_COMMAND_MAX} at a time"
    )


def _partitions_asked(parts: BrokerParts, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return parts.settings.num_partitions if topic.num_partitions == BROKER_DEFAULT else topic.num_partitions


async def _result(
    parts: BrokerParts,
    topic: CreatableTopic,
    validate_only: bool,
    refusal: SiltstoneError | None,
    mutations: Mutations,
) -> CreatableTopicResult:
    try:
        if refusal is not None:
            raise refusal
        wanted = _wanted(parts, topic)
        if validate_only:
            return _created(parts, parts.creation.validate(wanted), topic_id=NO_UUID)
        if mutations.are_limited:
            mutations.charge(len(parts.creation.validate(wanted).partitions))
        created = await parts.creation.create(wanted)
        return _created(parts, created.metadata, created.topic_id)
    except SiltstoneError as failure:
        return _refused(topic.name, failure)


def _wanted(parts: BrokerParts, topic: CreatableTopic) -> NewTopic:
    """Returns the topic to be created. Raises InvalidTopicConfig, InvalidRequest, InvalidReplicaAssignment."""
    if nulls := [config.name for config in topic.configs if config.value is None]:
        raise InvalidTopicConfig(f"Null value not supported for topic configs: {','.join(nulls)}")
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    if not topic.assignments:
        return NewTopic(
            name=topic.name,
            partition_count=topic.num_partitions,
            replication_factor=topic.replication_factor,
            configs=configs,
        )
    leaders = _assigned(parts, topic)
    return NewTopic(
        name=topic.name,
        partition_count=len(topic.assignments),
        replication_factor=REPLICATION_FACTOR,
        configs=configs,
        leaders=leaders,
    )


def _assigned(parts: BrokerParts, topic: CreatableTopic) -> tuple[int, ...]:
    """Returns the leader of each partition, its only replica. Raises InvalidRequest, InvalidReplicaAssignment."""
    for asked, what in (
        (topic.replication_factor, "replication factor"),
        (topic.num_partitions, "numPartitions"),
    ):
        if asked != BROKER_DEFAULT:
            raise InvalidRequest(
                f"A manual partition assignment was specified, but {what} was not set to -1."
            )
    indexes = [assignment.partition_index for assignment in topic.assignments]
    if sorted(indexes) != list(range(len(indexes))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    by_index = sorted(topic.assignments, key=lambda assignment: assignment.partition_index)
    live_ids = parts.cluster.live_ids
    return tuple([only_replica(live_ids, assignment.broker_ids) for assignment in by_index])


def _created(parts: BrokerParts, metadata: TopicMetadata, topic_id: bytes) -> CreatableTopicResult:
    entries = topic_entries(metadata.configs, parts.topics.defaults)
    return CreatableTopicResult(
        name=metadata.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(metadata.partitions),
        replication_factor=REPLICATION_FACTOR,
        configs=[
            CreatableTopicConfigs(name=entry.row.name, value=entry.value, config_source=entry.source)
            for entry in entries
        ],
    )


def _refused(name: str, failure: SiltstoneError) -> CreatableTopicResult:
    """Returns the row of a refused topic. As in Kafka, its list of configurations is empty, not null."""
    return CreatableTopicResult(
        name=name, error_code=error_code(failure), error_message=error_message(failure)
    )
