"""The gates of requests that name topics or resources with configurations: what is denied is answered row by row."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from siltstone.broker.error_codes import error_code
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.broker.security.gates.gate import (
    DENIED,
    DENIED_TEXT,
    TOPIC_DENIED,
    Gate,
    Handle,
    may_on_cluster,
    parted,
    topic_name,
)
from siltstone.broker.topics.names import UnknownTopic
from siltstone.kafka_protocol.messages import delete_records, describe_producers, list_offsets
from siltstone.kafka_protocol.messages import offset_for_leader_epoch as epochs
from siltstone.kafka_protocol.messages.alter_configs import AlterConfigsResourceResponse
from siltstone.kafka_protocol.messages.create_partitions import CreatePartitionsTopicResult
from siltstone.kafka_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from siltstone.kafka_protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from siltstone.kafka_protocol.messages.describe_configs import DescribeConfigsResult
from siltstone.kafka_protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResponse,
)
from siltstone.model.acls import CLUSTER_NAME, AclOperation, AclResourceType

TEXT = DENIED_TEXT[TOPIC_DENIED]


def by_topic(
    operation: AclOperation,
    denied_row: Callable[[Any], Any],
    *,
    name_of: Callable[[Any], str] = lambda topic: topic.name,
    answered: str = "topics",
) -> Gate:
    """Returns the gate of an API that needs the operation on each topic that it names. ``answered`` is the field of
    the response that has their rows."""

    async def gate(parts: BrokerParts, context: RequestContext, request: Any, handle: Handle) -> Any:
        allowed, denied = await parted(
            lambda topic: context.may(operation, AclResourceType.TOPIC, name_of(topic)), request.topics
        )
        response = await handle(replace(request, topics=allowed) if denied else request)
        if not denied:
            return response
        return replace(response, **{answered: [*getattr(response, answered), *map(denied_row, denied)]})

    return gate


list_topic_offsets = by_topic(
    AclOperation.DESCRIBE,
    lambda topic: list_offsets.ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            list_offsets.ListOffsetsPartitionResponse(
                partition_index=each.partition_index, error_code=TOPIC_DENIED
            )
            for each in topic.partitions
        ],
    ),
)
_leader_epochs_of_topics = by_topic(
    AclOperation.DESCRIBE,
    lambda topic: epochs.OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[
            epochs.EpochEndOffset(partition=each.partition, error_code=TOPIC_DENIED)
            for each in topic.partitions
        ],
    ),
    name_of=lambda topic: topic.topic,
)


async def leader_epochs(
    parts: BrokerParts, context: RequestContext, request: epochs.OffsetForLeaderEpochRequest, handle: Handle
) -> Any:
    """Brokers of Kafka ask this, too, who need no right on the topics."""
    if may_on_cluster(context, AclOperation.CLUSTER_ACTION, is_named=False):
        return await handle(request)
    return await _leader_epochs_of_topics(parts, context, request, handle)


add_partitions = by_topic(
    AclOperation.ALTER,
    lambda topic: CreatePartitionsTopicResult(name=topic.name, error_code=TOPIC_DENIED, error_message=TEXT),
    answered="results",
)
remove_records = by_topic(
    AclOperation.DELETE,
    lambda topic: delete_records.DeleteRecordsTopicResult(
        name=topic.name,
        partitions=[
            delete_records.DeleteRecordsPartitionResult(
                partition_index=each.partition_index, low_watermark=-1, error_code=TOPIC_DENIED
            )
            for each in topic.partitions
        ],
    ),
)
list_producers = by_topic(
    AclOperation.READ,
    lambda topic: describe_producers.TopicResponse(
        name=topic.name,
        partitions=[
            describe_producers.PartitionResponse(
                partition_index=index, error_code=TOPIC_DENIED, error_message=TEXT
            )
            for index in topic.partition_indexes
        ],
    ),
)


async def create_topics(
    parts: BrokerParts, context: RequestContext, request: CreateTopicsRequest, handle: Handle
) -> CreateTopicsResponse:
    """A topic may be created by who may create all, or this one. The configuration of a new topic is shown to who may
    describe configurations."""

    def may_create(topic: CreatableTopic) -> bool:
        return creates_all or context.may(AclOperation.CREATE, AclResourceType.TOPIC, topic.name)

    creates_all = may_on_cluster(context, AclOperation.CREATE, is_named=False)
    allowed, denied = await parted(may_create, request.topics)
    response = await handle(replace(request, topics=allowed))
    rows = [
        row
        if row.error_code
        or context.may(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, row.name, is_named=False)
        else replace(
            row, topic_config_error_code=TOPIC_DENIED, num_partitions=-1, replication_factor=-1, configs=[]
        )
        for row in response.topics
    ]
    rows += [
        CreatableTopicResult(name=topic.name, error_code=TOPIC_DENIED, error_message=TEXT) for topic in denied
    ]
    return CreateTopicsResponse(topics=rows)


async def delete_topics(
    parts: BrokerParts, context: RequestContext, request: DeleteTopicsRequest, handle: Handle
) -> DeleteTopicsResponse:
    """A topic that is named by its id, and that the client may not describe, keeps its name to itself. One that the
    client might describe, if there were one, is said to be missing."""

    def may_delete(name: str | None) -> bool:
        return name is None or deletes_all or context.may(AclOperation.DELETE, AclResourceType.TOPIC, name)

    def denied_row(topic: DeleteTopicState) -> DeletableTopicResult:
        found = topic_name(parts, topic.name, topic.topic_id) or ""
        is_seen = context.may(AclOperation.DESCRIBE, AclResourceType.TOPIC, found, is_named=False)
        if topic.name is not None and is_seen and parts.topics.by_name(topic.name) is None:
            missing = UnknownTopic(topic.name)
            return DeletableTopicResult(
                name=topic.name, error_code=error_code(missing), error_message=str(missing)
            )
        name = topic.name or (found if is_seen else None)
        return DeletableTopicResult(
            name=name, topic_id=topic.topic_id, error_code=TOPIC_DENIED, error_message=TEXT
        )

    deletes_all = may_on_cluster(context, AclOperation.DELETE, is_named=False)
    names, denied_names = await parted(may_delete, request.topic_names)
    topics, denied = await parted(
        lambda topic: may_delete(topic_name(parts, topic.name, topic.topic_id)), request.topics
    )
    response = await handle(replace(request, topic_names=names, topics=topics))
    rows = [denied_row(topic) for topic in (*map(_by_name, denied_names), *denied)]
    return DeleteTopicsResponse(responses=[*response.responses, *rows])


def _by_name(name: str) -> DeleteTopicState:
    return DeleteTopicState(name=name)


# -- configurations --------------------------------------------------------------------------------------

_TOPIC, _GROUP = 2, 32
"""Kafka's numbers of resources with configurations; all others need a right on the cluster."""


def _guarded(resource: Any) -> tuple[AclResourceType, str]:
    if resource.resource_type == _TOPIC:
        return AclResourceType.TOPIC, resource.resource_name
    if resource.resource_type == _GROUP:
        return AclResourceType.GROUP, resource.resource_name
    return AclResourceType.CLUSTER, CLUSTER_NAME


def of_configs(operation: AclOperation, row: Callable[..., Any], answered: str) -> Gate:
    """Returns the gate of an API about configurations; ``row`` makes the row of a resource."""

    def denied_row(resource: Any) -> Any:
        code = DENIED[_guarded(resource)[0]]
        return row(
            error_code=code,
            error_message=DENIED_TEXT[code],
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    async def gate(parts: BrokerParts, context: RequestContext, request: Any, handle: Handle) -> Any:
        allowed, denied = await parted(
            lambda resource: context.may(operation, *_guarded(resource)), request.resources
        )
        response = await handle(replace(request, resources=allowed))
        return replace(response, **{answered: [*getattr(response, answered), *map(denied_row, denied)]})

    return gate


describe_configs = of_configs(AclOperation.DESCRIBE_CONFIGS, DescribeConfigsResult, "results")
alter_configs = of_configs(AclOperation.ALTER_CONFIGS, AlterConfigsResourceResponse, "responses")
incremental_alter_configs = of_configs(AclOperation.ALTER_CONFIGS, IncrementalResponse, "responses")
