"""DescribeProducers: the producers that partitions know, and where their open transactions begin."""

from functools import partial

from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from siltstone.model.errors import SiltstoneError
from siltstone.object_formats.partition_snapshot import ProducerEntry
from siltstone.runtime.turns import side_by_side


async def handle_describe_producers(
    parts: BrokerParts, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """A partition that is named twice is described once: a description is a hundred times as long as a name."""
    named: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        named.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    topics = []
    for name, indexes in named.items():
        rows = await side_by_side(partial(_partition, parts, name), indexes)
        topics.append(TopicResponse(name=name, partitions=rows))
    return DescribeProducersResponse(topics=topics)


async def _partition(parts: BrokerParts, topic_name: str, index: int) -> PartitionResponse:
    topic = parts.topics.by_name(topic_name)
    if topic is None or not 0 <= index < topic.partition_count:
        return PartitionResponse(
            partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=None
        )
    try:
        partition = await parts.partitions.open(topic, index)
    except SiltstoneError as failure:
        return PartitionResponse(
            partition_index=index, error_code=error_code(failure), error_message=error_message(failure)
        )
    if not parts.cluster.serves:
        return PartitionResponse(
            partition_index=index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, error_message=None
        )
    return PartitionResponse(
        partition_index=index, active_producers=[_described(entry) for entry in partition.producers.entries()]
    )


def _described(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.batches[-1].last_sequence if entry.batches else -1,
        last_timestamp=entry.seen_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.open_from,
    )
