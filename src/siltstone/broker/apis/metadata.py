"""Metadata: describes the brokers, at the addresses of the client's listener, the topics and their leaders.

Clients begin with this request and repeat it. Its semantics: items 12 to 18 of docs/scenarios.md.
"""

from siltstone.broker.apis.topic_description import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
    written_topic,
)
from siltstone.broker.error_codes import error_code
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import EncodedBody, Listener, RequestContext
from siltstone.broker.topics.names import INTERNAL_TOPICS, UnknownTopic, UnknownTopicId, why_illegal
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
        cluster_authorized_operations=CLUSTER_OPERATIONS if everything else NOT_ASKED,
    )
    topics = await _topics(parts, listener, context.api_version, request)
    return EncodedBody(encode_with_topics(response, topics, context.api_version))


async def _topics(
    parts: BrokerParts, listener: Listener, api_version: int, request: MetadataRequest
) -> list[bytes]:
    """Returns the topics of the response, each encoded. A null list asks for all topics, as does an empty one in
    version 0 (item 12)."""
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    if request.topics is None or (api_version == 0 and not request.topics):
        everything = parts.topics.all()
        return await in_turns(
            lambda topic: written_topic(parts, topic, listener, api_version, operations), everything
        )
    creates = request.allow_auto_topic_creation and parts.creation.is_automatic

    async def answer(asked: tuple[str | None, bytes]) -> bytes:
        try:
            topic = await _found(parts, api_version, *asked, creates)
        except SiltstoneError as failure:
            return encode_topic(_refused(failure, *asked, api_version), api_version)
        return written_topic(parts, topic, listener, api_version, operations)

    return await one_by_one(answer, dict.fromkeys((asked.name, asked.topic_id) for asked in request.topics))


async def _found(
    parts: BrokerParts, api_version: int, name: str | None, topic_id: bytes, creates: bool
) -> Topic:
    """Returns the topic. If there is none and the request allows it, one is created, and the answer is still error 3:
    Kafka's broker answers before its controller has made the topic, and clients count on asking twice. Raises
    UnknownTopicId, UnknownTopic, InvalidTopicName, InvalidRequest, Unavailable."""
    if topic_id != NO_UUID or name is None:
        return _found_by_id(parts, api_version, topic_id)
    topic = parts.topics.by_name(name)
    if topic is not None:
        return topic
    if why := why_illegal(name):
        raise InvalidTopicName(why)
    if creates:
        await parts.creation.create_if_missing(name)
    raise UnknownTopic(name)


def _found_by_id(parts: BrokerParts, api_version: int, topic_id: bytes) -> Topic:
    if api_version < IDS_VERSION:
        raise InvalidRequest(
            f"Metadata finds topics by id from version {IDS_VERSION} on: name the topic, or send a newer version"
        )
    topic = parts.topics.by_id(topic_id)
    if topic is None:
        raise UnknownTopicId(topic_id)
    return topic


def _refused(
    failure: SiltstoneError, name: str | None, topic_id: bytes, api_version: int
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error_code(failure),
        name="" if name is None and api_version < IDS_VERSION else name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
    )
