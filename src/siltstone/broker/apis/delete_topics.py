"""Handles DeleteTopics: by name, or, from version 6 on, by name or id."""

import logging
from collections import Counter

import msgspec

from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.parts import BrokerParts
from siltstone.broker.quotas.throttling import Mutations
from siltstone.broker.request import RequestContext
from siltstone.broker.topics.names import OFFSETS_TOPIC, InternalTopic, UnknownTopic, UnknownTopicId
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from siltstone.kafka_protocol.notation import NO_UUID
from siltstone.metadata.refusals import TopicNotExist
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.runtime.turns import side_by_side

log = logging.getLogger(__name__)

STRICT_VERSION = 5
"""From this version on clients know that a quota refuses a deletion (KIP-599)."""


class _Named(msgspec.Struct, frozen=True):
    """A topic as the request names it: by name, or by id with ``name`` None."""

    name: str | None
    topic_id: bytes


async def handle_delete_topics(
    parts: BrokerParts, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    named = Counter(_Named(name, NO_UUID) for name in request.topic_names)
    named.update(_Named(topic.name, topic.topic_id) for topic in request.topics)
    twice = _named_twice(parts, named)
    is_strict = context.api_version >= STRICT_VERSION
    mutations = parts.throttling.mutations(context.connection, is_strict=is_strict)
    return DeleteTopicsResponse(
        responses=await side_by_side(lambda one: _result(parts, one, one in twice, mutations), named)
    )


def _named_twice(parts: BrokerParts, named: Counter[_Named]) -> set[_Named]:
    """Returns the topics that are named twice: in the same way, or once by name and once by id. They are not
    deleted."""
    times_found = Counter(topic.id for one in named if (topic := _topic_of(parts, one)) is not None)
    return {
        one
        for one, times in named.items()
        if times > 1 or ((topic := _topic_of(parts, one)) is not None and times_found[topic.id] > 1)
    }


def _topic_of(parts: BrokerParts, named: _Named) -> Topic | None:
    return parts.topics.by_id(named.topic_id) if named.name is None else parts.topics.by_name(named.name)


async def _result(
    parts: BrokerParts, named: _Named, is_named_twice: bool, mutations: Mutations
) -> DeletableTopicResult:
    try:
        topic = _deletable(parts, named, is_named_twice)
        mutations.charge(topic.partition_count)
        await _delete(parts, topic, named)
    except SiltstoneError as failure:
        return DeletableTopicResult(
            name=named.name,
            topic_id=named.topic_id,
            error_code=error_code(failure),
            error_message=error_message(failure),
        )
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)


def _deletable(parts: BrokerParts, named: _Named, is_named_twice: bool) -> Topic:
    """Returns the topic, if it may be deleted. Raises InvalidRequest, UnknownTopic, UnknownTopicId, InternalTopic."""
    if named.name is None and named.topic_id == NO_UUID:
        raise InvalidRequest("Neither topic name nor id were specified.")
    if named.name is not None and named.topic_id != NO_UUID:
        raise InvalidRequest("You may not specify both topic name and topic id.")
    if is_named_twice:
        raise InvalidRequest("Duplicate topic name or id.")
    topic = _topic_of(parts, named)
    if topic is None:
        raise _unknown(named)
    if topic.is_internal:
        raise InternalTopic(topic.name)
    return topic


async def _delete(parts: BrokerParts, topic: Topic, named: _Named) -> None:
    try:
        await parts.partitions.delete_topic(topic)
    except TopicNotExist as gone:  # another request has deleted it first
        raise _unknown(named) from gone
    log.info("topic %s was deleted", topic.name)
    await _forget_offsets(parts, topic.name)


async def _forget_offsets(parts: BrokerParts, name: str) -> None:
    """Deletes the offsets that groups have committed for the topic, so that they do not apply to a new topic of the
    same name. Without an offsets topic there is nothing to delete, and asking the groups would create one."""
    if parts.topics.by_name(OFFSETS_TOPIC) is None:
        return
    try:
        await parts.groups.forget_topic(name)
    except SiltstoneError as trouble:  # the request has succeeded: the topic is deleted
        log.warning("topic %s was deleted; offsets committed for it may remain: %s", name, trouble)


def _unknown(named: _Named) -> UnknownTopic | UnknownTopicId:
    return UnknownTopicId(named.topic_id) if named.name is None else UnknownTopic(named.name)
