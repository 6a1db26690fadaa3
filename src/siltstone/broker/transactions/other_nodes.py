"""What a node asks of another one for transactions: a coordinator for the permission to append, and the leaders of
partitions for markers.

Both may be repeated: a partition is in a transaction once, and a marker that is there already is not appended again.

Markers on their way to one node are limited by their bytes and their number; others wait for their turn. So a node that
is slow takes no more memory, and the questions of its own markers always find room on the connection.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

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
from siltstone.model.serving_limits import (
    MARKER_BYTES_UNDER_WAY_MAX,
    MARKER_REQUESTS_UNDER_WAY_MAX,
    TRANSACTION_PEER_WAIT_MS,
)

log = logging.getLogger(__name__)

_KNOWS_NEWER = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})

_MARKER_BYTES, _PARTITION_BYTES = 100, 8


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


class MarkersUnderWay:
    """The markers that are on their way to one node."""

    def __init__(
        self,
        bytes_max: int = MARKER_BYTES_UNDER_WAY_MAX,
        requests_max: int = MARKER_REQUESTS_UNDER_WAY_MAX,
    ) -> None:
        self._bytes_max, self._requests_max = bytes_max, requests_max
        self._bytes = self._requests = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def place(self, byte_count: int) -> AsyncIterator[None]:
        """Waits for room, in the order of the calls. A request that is larger than the limit goes alone."""
        if self._waiting or not self._has_room(byte_count):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((byte_count, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.cancelled():
                    self._waiting.remove((byte_count, turn))
                else:
                    self._leave(byte_count)
                raise
        else:
            self._enter(byte_count)
        try:
            yield
        finally:
            self._leave(byte_count)

    def _has_room(self, byte_count: int) -> bool:
        fits = self._bytes + byte_count <= self._bytes_max and self._requests < self._requests_max
        return fits or not self._requests

    def _enter(self, byte_count: int) -> None:
        self._bytes += byte_count
        self._requests += 1

    def _leave(self, byte_count: int) -> None:
        self._bytes -= byte_count
        self._requests -= 1
        while self._waiting and self._has_room(self._waiting[0][0]):
            next_bytes, turn = self._waiting.popleft()
            self._enter(next_bytes)
            turn.set_result(None)


def bytes_of_markers(partitions: Collection[TopicPartition]) -> int:
    """Returns about how much memory a request for these markers takes."""
    return _MARKER_BYTES + sum(_PARTITION_BYTES + len(name) for name, _ in partitions)


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
