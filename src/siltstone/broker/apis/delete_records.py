"""DeleteRecords: deletes the records before an offset (item 37). The log start offset never moves back."""

from functools import partial

from siltstone.broker.error_codes import error_code
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from siltstone.model.errors import SiltstoneError
from siltstone.runtime.turns import side_by_side

UP_TO_HIGH_WATERMARK = -1
NO_OFFSET = -1


async def handle_delete_records(
    parts: BrokerParts, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    topics = []
    for topic in request.topics:
        rows = await side_by_side(partial(_partition, parts, topic.name), topic.partitions)
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=rows))
    return DeleteRecordsResponse(topics=topics)


async def _partition(
    parts: BrokerParts, topic_name: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    topic = parts.topics.by_name(topic_name)
    if topic is None or not 0 <= asked.partition_index < topic.partition_count:
        return _refused(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.is_internal:
        return _refused(asked, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if "delete" not in topic.config.cleanup_policy:
        return _refused(asked, ErrorCode.POLICY_VIOLATION)
    try:
        partition = await parts.partitions.open(topic, asked.partition_index)
        offset = partition.high_watermark if asked.offset == UP_TO_HIGH_WATERMARK else asked.offset
        if not 0 <= offset <= partition.high_watermark:
            return _refused(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
        parts.cluster.check_serves()
        partition.check_not_held()
        await parts.partitions.trim(partition, offset)
    except SiltstoneError as failure:
        return _refused(asked, error_code(failure))
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=partition.log_start_offset
    )


def _refused(asked: DeleteRecordsPartition, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=NO_OFFSET, error_code=error
    )
