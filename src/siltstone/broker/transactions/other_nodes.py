"""What a node asks of another one for transactions: a coordinator for the permission to append, and the leaders of
partitions for markers.

Both may be repeated: a partition is in a transaction once, and a marker that is there already is not appended again.
"""

import logging
from collections.abc import Collection

from siltstone.broker.peers import Peers, PeerUnreachable
from siltstone.broker.transactions.ports import MarkersAnswered
from siltstone.broker.transactions.rules.decision import MarkersToWrite
from siltstone.broker.transactions.rules.requests import (
    BUMPING_VERSION,
    AddToTransaction,
    JoinedTransaction,
)
from siltstone.broker.transactions.state_log.record import NONE, TopicPartition, by_topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from siltstone.kafka_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from siltstone.kafka_protocol.records.control import Outcome
from siltstone.model.serving_limits import TRANSACTION_PEER_WAIT_MS

log = logging.getLogger(__name__)

_KNOWS_NEWER = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


async def ask_for_permission(
    peers: Peers, node_id: int, transactional_id: str, add: AddToTransaction, *, adds: bool
) -> JoinedTransaction | ErrorCode:
    """Returns the transaction with the partitions that are in it, of those asked about; COORDINATOR_NOT_AVAILABLE if
    the node does not answer."""
    topics = [
        AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in by_topic(add.partitions).items()
    ]
    return await _asked(
        peers,
        node_id,
        AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=add.producer_id,
            producer_epoch=add.producer_epoch,
            verify_only=not adds,
            topics=topics,
            known_coordinator_epoch=add.coordinator_epoch,
        ),
    )


async def ask_for_open(
    peers: Peers, node_id: int, producer_id: int, partition: TopicPartition
) -> JoinedTransaction | ErrorCode:
    """Asks which transaction of the producer, open or with markers on their way, has the partition."""
    name, index = partition
    topic = AddPartitionsToTxnTopic(name=name, partitions=[index])
    return await _asked(
        peers,
        node_id,
        AddPartitionsToTxnTransaction(producer_id=producer_id, verify_only=True, topics=[topic]),
    )


async def _asked(
    peers: Peers, node_id: int, question: AddPartitionsToTxnTransaction
) -> JoinedTransaction | ErrorCode:
    try:
        answer = await peers.ask(
            node_id,
            AddPartitionsToTxnRequest(transactions=[question]),
            AddPartitionsToTxnResponse,
            TRANSACTION_PEER_WAIT_MS,
        )
    except PeerUnreachable as trouble:
        log.warning("the coordinator of a transaction could not be asked: %s", trouble)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if answer.error_code or len(answer.results_by_transaction) != 1:
        log.warning("node %d refuses a question about a transaction: %d", node_id, answer.error_code)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    (row,) = answer.results_by_transaction
    errors = {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in row.topic_results
        for each in topic.results_by_partition
    }
    added = frozenset(partition for partition, error in errors.items() if not error)
    refusals = [error for error in errors.values() if error]
    if row.transaction_number == NONE and refusals:
        return ErrorCode(refusals[0])
    return JoinedTransaction(row.transaction_number, added, row.coordinator_epoch)


async def ask_for_markers(
    peers: Peers,
    node_id: int,
    partitions: Collection[TopicPartition],
    markers: MarkersToWrite,
    coordinator_epoch: int,
) -> MarkersAnswered:
    """What failed is logged; the caller tries again."""
    marker = WritableTxnMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.outcome is Outcome.COMMIT,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=each)
            for name, each in by_topic(partitions).items()
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=BUMPING_VERSION if markers.raises_epoch else 0,
        transaction_number=markers.start_ms,
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    try:
        answer = await peers.ask(node_id, request, WriteTxnMarkersResponse, TRANSACTION_PEER_WAIT_MS)
    except PeerUnreachable as trouble:
        log.warning("markers of producer %d have to wait: %s", markers.producer_id, trouble)
        return MarkersAnswered()
    errors = {
        (topic.name, each.partition_index): each.error_code
        for row in answer.markers
        for topic in row.topics
        for each in topic.partitions
    }
    for (name, index), error in errors.items():
        if error:
            log.warning("the marker for %s-%d has to wait: node %d answers %d", name, index, node_id, error)
    written = frozenset(partition for partition, error in errors.items() if not error)
    return MarkersAnswered(written & frozenset(partitions), not _KNOWS_NEWER.isdisjoint(errors.values()))
