"""WriteTxnMarkers: has the ends of transactions written to partitions. A coordinator of another node sends it, and the
tool that ends a transaction which hangs.

A tool names no transaction: what the producer has open in the partition is ended, whatever it is.
"""

import asyncio

from siltstone.broker.error_codes import error_code
from siltstone.broker.partitions.partitions import Partitions
from siltstone.broker.partitions.transaction_state import TransactionEnding
from siltstone.broker.topics.registry import Topics
from siltstone.broker.transactions.rules.requests import BUMPING_VERSION
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from siltstone.kafka_protocol.records.control import Outcome, TransactionMarker
from siltstone.model.errors import SiltstoneError
from siltstone.runtime.turns import side_by_side


async def handle_write_txn_markers(
    topics: Topics, partitions: Partitions, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """A partition is answered when its marker is durable."""
    rows = []
    for marker in request.markers:
        ending = _ending(marker)
        named = [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]

        async def write(named_partition: tuple[str, int], ending: TransactionEnding = ending) -> ErrorCode:
            return await _written(topics, partitions, *named_partition, ending)

        errors = dict(zip(named, await side_by_side(write, named), strict=True))
        of_topics = [
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=errors[topic.name, index]
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ]
        rows.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=of_topics))
    return WriteTxnMarkersResponse(markers=rows)


def _ending(marker: WritableTxnMarker) -> TransactionEnding:
    outcome = Outcome.COMMIT if marker.transaction_result else Outcome.ABORT
    return TransactionEnding(
        marker.producer_id,
        marker.producer_epoch,
        TransactionMarker(outcome, marker.coordinator_epoch),
        raises_epoch=marker.transaction_version >= BUMPING_VERSION,
    )


async def _written(
    topics: Topics, partitions: Partitions, name: str, index: int, ending: TransactionEnding
) -> ErrorCode:
    topic = topics.by_name(name)
    if topic is None or not 0 <= index < topic.partition_count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        partition = await partitions.open(topic, index)
        durable = partition.append_marker(ending)
        if durable is None:
            await partition.wait_until_durable()
        else:
            await asyncio.shield(durable)
    except SiltstoneError as failure:
        return error_code(failure)
    return ErrorCode.NONE
