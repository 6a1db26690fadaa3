"""WriteTxnMarkers: has the ends of transactions written to partitions. A coordinator of another node sends it, and the
tool that ends a transaction which hangs.

A tool names no transaction: what the producer has open in the partition is ended, whatever it is.
"""

from collections.abc import Mapping
from functools import partial

from siltstone.broker.error_codes import error_code
from siltstone.broker.partitions.transaction_state import TransactionEnding
from siltstone.broker.transactions.apis.producing import rows_by_topic
from siltstone.broker.transactions.ports import MarkerSink
from siltstone.broker.transactions.rules.requests import BUMPING_VERSION
from siltstone.broker.transactions.state_log.record import TopicPartition
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
    markers: MarkerSink, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """A partition is answered when its marker is durable."""
    rows = []
    for marker in request.markers:
        ending = _ending(marker)
        asked = [(topic.name, topic.partition_indexes) for topic in marker.topics]
        named = list(dict.fromkeys((name, index) for name, indexes in asked for index in indexes))

        async def write(partition: TopicPartition, ending: TransactionEnding = ending) -> ErrorCode:
            return await _written(markers, partition, ending)

        errors = dict(zip(named, await side_by_side(write, named), strict=True))
        topics = rows_by_topic(asked, partial(_row, errors), _topic_row)
        rows.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
    return WriteTxnMarkersResponse(markers=rows)


def _row(
    errors: Mapping[TopicPartition, ErrorCode], name: str, index: int
) -> WritableTxnMarkerPartitionResult:
    return WritableTxnMarkerPartitionResult(partition_index=index, error_code=errors[name, index])


def _topic_row(name: str, rows: list[WritableTxnMarkerPartitionResult]) -> WritableTxnMarkerTopicResult:
    return WritableTxnMarkerTopicResult(name=name, partitions=rows)


def _ending(marker: WritableTxnMarker) -> TransactionEnding:
    outcome = Outcome.COMMIT if marker.transaction_result else Outcome.ABORT
    return TransactionEnding(
        marker.producer_id,
        marker.producer_epoch,
        TransactionMarker(outcome, marker.coordinator_epoch),
        raises_epoch=marker.transaction_version >= BUMPING_VERSION,
        number=None if marker.transaction_number < 0 else marker.transaction_number,
    )


async def _written(markers: MarkerSink, partition: TopicPartition, ending: TransactionEnding) -> ErrorCode:
    try:
        await markers.end(partition, ending)
    except SiltstoneError as failure:
        return error_code(failure)
    return ErrorCode.NONE
