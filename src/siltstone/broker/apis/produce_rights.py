"""Which topic a Produce names, and whether the client may write it. Read next: ``produce``.

A topic is denied by its name before it is looked up. By its id it is looked up first: an id that no topic has is
unknown, for every client.
"""

from siltstone.broker.request import RequestContext
from siltstone.broker.topics.registry import Topic, Topics
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.produce import ProduceRequest, ProduceTopic
from siltstone.model.acls import AclOperation, AclResourceType

TOPIC_ID_VERSION = 13
"""From this version on topics are named by id only."""


def denied_id(context: RequestContext, request: ProduceRequest) -> ErrorCode:
    """Returns the refusal of a producer that may not use its transactional id; NONE if it may."""
    name = request.transactional_id
    if name is None or context.may(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, name):
        return ErrorCode.NONE
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def named_topic(
    topics: Topics, context: RequestContext, asked: ProduceTopic, denied: ErrorCode
) -> tuple[Topic | None, ErrorCode]:
    """Returns the topic that the request names, and why nothing may be appended to it. A topic that the client may not
    write is none. ``denied``: why the whole request is refused, or NONE."""
    by_id = context.api_version >= TOPIC_ID_VERSION
    topic = topics.by_id(asked.topic_id) if by_id else topics.by_name(asked.name)
    name = topic.name if topic is not None else None if by_id else asked.name
    if denied is ErrorCode.NONE and name is not None and not context.may_topic(AclOperation.WRITE, name):
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return (topic if denied is ErrorCode.NONE else None), denied
