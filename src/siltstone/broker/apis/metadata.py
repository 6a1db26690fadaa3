"""Metadata: describes the brokers, at the addresses of the client's listener, the topics and their leaders.

Clients begin with this request and repeat it. Its semantics: items 12 to 18 of docs/scenarios.md.
"""

from collections.abc import Sequence

from siltstone.broker.apis.topic_description import (
    NOT_ASKED,
    cluster_operations,
    topic_operations,
    written_topic,
)
from siltstone.broker.error_codes import error_code
from siltstone.broker.parts import BrokerParts
from siltstone.broker.quotas.throttling import MutationsThrottled
from siltstone.broker.request import EncodedBody, RequestContext
from siltstone.broker.topics.names import (
    INTERNAL_TOPICS,
    TopicDenied,
    UnknownTopic,
    UnknownTopicId,
    why_illegal,
)
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from siltstone.kafka_protocol.metadata_fragments import encode_topic, encode_with_topics
from siltstone.kafka_protocol.notation import NO_UUID
from siltstone.metadata.refusals import InvalidTopicName
from siltstone.model.acls import CLUSTER_NAME, AclOperation, AclResourceType
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.runtime.turns import in_turns, one_by_one

IDS_VERSION = 12
"""From this version on a request may name a topic by its id, and a response may leave out the name."""


async def handle_metadata(
    parts: BrokerParts, context: RequestContext, request: MetadataRequest
) -> EncodedBody:
    listener = context.connection.listener
    everything = request.include_cluster_authorized_operations
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
            for each in parts.cluster.brokers(listener)
        ],
        cluster_id=parts.cluster_id,
        controller_id=parts.cluster.controller_id,
        cluster_authorized_operations=cluster_operations(context) if everything else NOT_ASKED,
    )
    topics = await _topics(parts, context, request)
    return EncodedBody(encode_with_topics(response, topics, context.api_version))


async def _topics(parts: BrokerParts, context: RequestContext, request: MetadataRequest) -> list[bytes]:
    """Returns the topics of the response, each encoded. A null list asks for all topics, as does an empty one in
    version 0 (item 12); topics that the client may not describe are left out."""
    listener, api_version = context.connection.listener, context.api_version

    def written(topic: Topic) -> bytes:
        shows = request.include_topic_authorized_operations
        operations = topic_operations(context, topic.name) if shows else NOT_ASKED
        return written_topic(parts, topic, listener, api_version, operations)

    if request.topics is None or (api_version == 0 and not request.topics):
        return await in_turns(written, await seen_topics(parts, context))
    creates = request.allow_auto_topic_creation and parts.creation.is_automatic

    async def answer(asked: tuple[str | None, bytes]) -> bytes:
        try:
            topic = await _found(parts, context, *asked, creates)
        except SiltstoneError as failure:
            return encode_topic(_refused(failure, *asked, api_version), api_version)
        return written(topic)

    return await one_by_one(answer, dict.fromkeys((asked.name, asked.topic_id) for asked in request.topics))


async def seen_topics(parts: BrokerParts, context: RequestContext) -> Sequence[Topic]:
    """Returns the topics that the client may describe, sorted by name."""
    everything = parts.topics.all()
    if context.rights.is_open:
        return everything
    seen = await in_turns(
        lambda topic: context.may_topic(AclOperation.DESCRIBE, topic.name, is_named=False), everything
    )
    return [topic for topic, is_seen in zip(everything, seen, strict=True) if is_seen]


async def _found(
    parts: BrokerParts, context: RequestContext, name: str | None, topic_id: bytes, creates: bool
) -> Topic:
    """Returns the topic. If there is none and the request allows it, one is created, and the answer is still error 3:
    Kafka's broker answers before its controller has made the topic, and clients count on asking twice. Raises
    UnknownTopicId, UnknownTopic, InvalidTopicName, InvalidRequest, Unavailable, and TopicDenied before a topic is
    looked up that the client may not describe."""
    if topic_id != NO_UUID or name is None:
        return _found_by_id(parts, context, topic_id)
    if not context.may_topic(AclOperation.DESCRIBE, name):
        raise TopicDenied
    topic = parts.topics.by_name(name)
    if topic is not None:
        return topic
    if why := why_illegal(name):
        raise InvalidTopicName(why)
    if creates:
        _check_may_create(context, name)
        _charge_creation(parts, context, name)
        await parts.creation.create_if_missing(name)
    raise UnknownTopic(name)


def _charge_creation(parts: BrokerParts, context: RequestContext, name: str) -> None:
    """Raises UnknownTopic if a quota refuses the topic for now; the client asks again anyway."""
    mutations = parts.throttling.mutations(context.connection, is_strict=True)
    try:
        mutations.charge(parts.settings.num_partitions)
    except MutationsThrottled:
        raise UnknownTopic(name) from None


def _check_may_create(context: RequestContext, name: str) -> None:
    """Raises TopicDenied unless the client may create the topic, or all."""
    if not context.may(AclOperation.CREATE, AclResourceType.CLUSTER, CLUSTER_NAME, is_named=False) and not (
        context.may_topic(AclOperation.CREATE, name)
    ):
        raise TopicDenied


def _found_by_id(parts: BrokerParts, context: RequestContext, topic_id: bytes) -> Topic:
    if context.api_version < IDS_VERSION:
        raise InvalidRequest(
            f"Metadata finds topics by id from version {IDS_VERSION} on: name the topic, or send a newer version"
        )
    topic = parts.topics.by_id(topic_id)
    if topic is None:
        raise UnknownTopicId(topic_id)
    if not context.may_topic(AclOperation.DESCRIBE, topic.name):
        raise TopicDenied
    return topic


def _refused(
    failure: SiltstoneError, name: str | None, topic_id: bytes, api_version: int
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error_code(failure),
        name="" if name is None and api_version < IDS_VERSION else name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS and not isinstance(failure, TopicDenied),
    )
