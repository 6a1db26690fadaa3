"""OffsetForLeaderEpoch: the offset at which a leader epoch of a partition ended (items 19 and 20)."""

from functools import partial

from siltstone.broker.fetching.wanted import leader_epoch_error, opening_error
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from siltstone.model.errors import SiltstoneError
from siltstone.runtime.turns import side_by_side


async def handle_offset_for_leader_epoch(
    parts: BrokerParts, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    topics = []
    for topic in request.topics:
        rows = await side_by_side(partial(_partition, parts, topic.topic), topic.partitions)
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=rows))
    return OffsetForLeaderEpochResponse(topics=topics)


async def _partition(parts: BrokerParts, topic_name: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    topic = parts.topics.by_name(topic_name)
    if topic is None or not 0 <= asked.partition < topic.partition_count:
        return EpochEndOffset(partition=asked.partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        partition = await parts.partitions.open(topic, asked.partition)
    except SiltstoneError as failure:
        known_epoch = parts.partitions.leader_epoch(topic, asked.partition)
        error = opening_error(failure, known_epoch, asked.current_leader_epoch)
        return EpochEndOffset(partition=asked.partition, error_code=error)
    if not parts.cluster.serves:
        return EpochEndOffset(partition=asked.partition, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    error = leader_epoch_error(partition.leader_epoch, asked.current_leader_epoch)
    if error is not ErrorCode.NONE:
        return EpochEndOffset(partition=asked.partition, error_code=error)
    end = partition.epoch_end(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset)
