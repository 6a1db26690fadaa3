"""DescribeTopicPartitions: describes the partitions of topics, page by page.

Topics are ordered by name. The cursor of a page names the first partition that is not on it; the next page begins
there, even when that topic has been deleted in the meantime.
"""

from siltstone.broker.apis.topic_description import (
    LISTENER_NOT_FOUND_VERSION,
    leader_state,
    topic_operations,
)
from siltstone.broker.error_codes import error_code
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import Listener, RequestContext
from siltstone.broker.topics.names import INTERNAL_TOPICS, TopicDenied, UnknownTopic, why_illegal
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from siltstone.metadata.refusals import InvalidTopicName
from siltstone.model.acls import AclOperation
from siltstone.model.errors import InvalidRequest
from siltstone.runtime.turns import ITEMS_PER_TURN, let_others_run

PARTITIONS_PER_PAGE_MAX = 2_000
"""Kafka's max.request.partition.size.limit: a page has half a megabyte at most."""


async def handle_describe_topic_partitions(
    parts: BrokerParts, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    try:
        names = _names(parts, request)
    except InvalidRequest as refusal:
        code = error_code(refusal)
        refused = [
            DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=code) for topic in request.topics
        ]
        return DescribeTopicPartitionsResponse(topics=refused)
    return await _page(
        parts, context, names, bool(request.topics), request.cursor or Cursor(), _room(request)
    )


def _room(request: DescribeTopicPartitionsRequest) -> int:
    return max(1, min(PARTITIONS_PER_PAGE_MAX, request.response_partition_limit))


def _names(parts: BrokerParts, request: DescribeTopicPartitionsRequest) -> list[str]:
    """Returns the names to be described, from the cursor's topic on: those in the request, or all topics when it names
    none. Raises InvalidRequest."""
    cursor = request.cursor
    asked = {topic.name for topic in request.topics}
    if cursor is not None and asked and cursor.topic_name not in asked:
        raise InvalidRequest(
            f"the cursor's topic {cursor.topic_name[:300]!r} is not in the list of topics: add it, or begin without "
            "a cursor"
        )
    if cursor is not None and cursor.partition_index < 0:
        raise InvalidRequest(f"the cursor's partition is {cursor.partition_index}: it must be at least 0")
    names = sorted(asked) or [topic.name for topic in parts.topics.all()]
    return [name for name in names if cursor is None or name >= cursor.topic_name]


async def _page(
    parts: BrokerParts, context: RequestContext, names: list[str], are_named: bool, cursor: Cursor, room: int
) -> DescribeTopicPartitionsResponse:
    answers: list[DescribeTopicPartitionsResponseTopic] = []
    for number, name in enumerate(names, 1):
        if number % ITEMS_PER_TURN == 0:
            await let_others_run()
        start = cursor.partition_index if name == cursor.topic_name else 0
        if room == 0:
            return DescribeTopicPartitionsResponse(topics=answers, next_cursor=Cursor(topic_name=name))
        if not context.may_topic(AclOperation.DESCRIBE, name, is_named=are_named):
            if are_named:
                answers.append(_refused(name, TopicDenied()))
            continue
        topic = parts.topics.by_name(name)
        if topic is None:
            answers.append(
                _refused(name, InvalidTopicName(why) if (why := why_illegal(name)) else UnknownTopic(name))
            )
            continue
        end = min(topic.partition_count, start + room)
        answers.append(_described(parts, context, topic, start, end))
        if end < topic.partition_count:
            cursor = Cursor(topic_name=name, partition_index=end)
            return DescribeTopicPartitionsResponse(topics=answers, next_cursor=cursor)
        room -= max(0, end - start)
    return DescribeTopicPartitionsResponse(topics=answers)


def _refused(name: str, refusal: InvalidRequest) -> DescribeTopicPartitionsResponseTopic:
    is_internal = name in INTERNAL_TOPICS and not isinstance(refusal, TopicDenied)
    return DescribeTopicPartitionsResponseTopic(
        error_code=error_code(refusal), name=name, is_internal=is_internal
    )


def _described(
    parts: BrokerParts, context: RequestContext, topic: Topic, start: int, end: int
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            _partition(parts, context.connection.listener, topic, index) for index in range(start, end)
        ],
        topic_authorized_operations=topic_operations(context, topic.name),
    )


def _partition(
    parts: BrokerParts, listener: Listener, topic: Topic, index: int
) -> DescribeTopicPartitionsResponsePartition:
    state = leader_state(parts.cluster, topic, index, listener, LISTENER_NOT_FOUND_VERSION)
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        error_code=state.error,
        leader_id=state.leader_id,
        leader_epoch=parts.partitions.leader_epoch(topic, index),
        replica_nodes=[state.replica_id],
        isr_nodes=[state.replica_id],
        eligible_leader_replicas=[],
        last_known_elr=[],
    )
