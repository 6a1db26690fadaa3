"""Transactions: lists and describes them, ends one by its transactional id, and finds the ones that hang.

A transaction hangs when a partition has records of it, and no coordinator knows that it is open there: nobody will
write its marker, and readers of committed records stop before its first record [Kafka: KIP-664]. Its end is written
into the partition by hand (``abort_hanging``).
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from siltstone.kafka_client.cluster import Cluster, CoordinatorKind, TopicPartition
from siltstone.kafka_client.failures import TransactionUnknown, refuse_error
from siltstone.kafka_client.offsets import by_topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from siltstone.kafka_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from siltstone.kafka_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from siltstone.kafka_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from siltstone.model.errors import did_you_mean

NONE = -1
_UNDER_WAY = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})
"""States in which the coordinator still has an end to write into the transaction's partitions."""


class TransactionSummary(msgspec.Struct, frozen=True):
    """The newest transaction of a transactional id. ``start_ms`` is in ms since 1970, NONE while none is open;
    ``partitions`` are the ones that it has written to and that have no marker yet."""

    transactional_id: str
    state: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: tuple[TopicPartition, ...]

    @property
    def is_open(self) -> bool:
        return self.state in _UNDER_WAY


class HangingTransaction(msgspec.Struct, frozen=True):
    """An open transaction of a partition that no coordinator knows. ``last_ms``: the time of its newest record."""

    partition: TopicPartition
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_ms: int


def transactional_ids(cluster: Cluster) -> list[str]:
    """Returns all transactional ids, sorted. Raises KafkaRefusal, KafkaNotReady."""
    return sorted(cluster.patiently(lambda: _listed(cluster)))


def all_transactions(cluster: Cluster) -> list[TransactionSummary]:
    """Returns the newest transaction of each transactional id, sorted by id. Raises KafkaRefusal, KafkaNotReady."""
    return cluster.patiently(lambda: _described(cluster, sorted(_listed(cluster))))


def find_transaction(cluster: Cluster, transactional_id: str) -> TransactionSummary:
    """Raises TransactionUnknown, KafkaRefusal, KafkaNotReady."""
    known = cluster.patiently(lambda: _listed(cluster))
    if transactional_id not in known:
        hint = did_you_mean(transactional_id, sorted(known), "siltstone transactions lists them")
        raise TransactionUnknown(f"there is no transactional id {transactional_id}: {hint}")
    (found,) = cluster.patiently(lambda: _described(cluster, [transactional_id])) or (None,)
    if found is None:
        raise TransactionUnknown(f"there is no transactional id {transactional_id} any more: it has expired")
    return found


def abort_transaction(cluster: Cluster, transaction: TransactionSummary) -> None:
    """Ends the transaction of a transactional id and fences its producer, as the next producer with this id would.
    Returns when its end is written. Raises KafkaRefusal, KafkaNotReady."""
    request = InitProducerIdRequest(
        transactional_id=transaction.transactional_id, transaction_timeout_ms=transaction.timeout_ms
    )

    def attempt() -> None:
        (node_id,) = cluster.coordinators_of([transaction.transactional_id], CoordinatorKind.TRANSACTION)
        answer = cluster.broker(node_id).call(request, InitProducerIdResponse)
        refuse_error(answer.error_code, f"transactional id {transaction.transactional_id}")

    cluster.patiently(attempt)


def hanging_transactions(
    cluster: Cluster, partitions: Iterable[TopicPartition], older_than_ms: int
) -> list[HangingTransaction]:
    """Returns the transactions that hang in the partitions and whose newest record is from before ``older_than_ms``, in
    ms since 1970. Raises KafkaRefusal, KafkaNotReady."""
    wanted = list(partitions)
    opened = cluster.patiently(lambda: _opened(cluster, wanted))
    old = [each for each in opened if each.last_ms < older_than_ms]
    if not old:
        return []
    # The coordinators are asked last: a transaction that began meanwhile is open there, and does not hang.
    known = {
        (each.producer_id, partition)
        for each in all_transactions(cluster)
        if each.is_open
        for partition in each.partitions
    }
    return [each for each in old if (each.producer_id, each.partition) not in known]


def abort_hanging(cluster: Cluster, hanging: HangingTransaction) -> None:
    """Writes the end of a transaction into its partition. Raises KafkaRefusal, KafkaNotReady."""
    topic = WritableTxnMarkerTopic(
        name=hanging.partition.topic, partition_indexes=[hanging.partition.partition]
    )
    marker = WritableTxnMarker(
        producer_id=hanging.producer_id,
        producer_epoch=hanging.producer_epoch,
        coordinator_epoch=hanging.coordinator_epoch,
        topics=[topic],
    )

    def attempt() -> None:
        leader = cluster.broker(cluster.leader_of(hanging.partition))
        answer = leader.call(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
        for each in (row for of in answer.markers for topic in of.topics for row in topic.partitions):
            refuse_error(each.error_code, f"partition {hanging.partition}")

    cluster.patiently(attempt)


def _listed(cluster: Cluster) -> Mapping[str, str]:
    """Transactional id → state. Every broker is asked, because each lists only the ids that it coordinates."""
    cluster.learn([])
    states: dict[str, str] = {}
    for node_id in cluster.broker_ids:
        answer = cluster.broker(node_id).call(ListTransactionsRequest(), ListTransactionsResponse)
        refuse_error(answer.error_code, f"the transactions of broker {node_id}")
        states |= {each.transactional_id: each.transaction_state for each in answer.transaction_states}
    return states


def _described(cluster: Cluster, ids: Sequence[str]) -> list[TransactionSummary]:
    """Ids that have expired since they were listed are left out."""
    found: dict[str, TransactionSummary] = {}
    for node_id, theirs in cluster.coordinators_of(ids, CoordinatorKind.TRANSACTION).items():
        request = DescribeTransactionsRequest(transactional_ids=theirs)
        answer = cluster.broker(node_id).call(request, DescribeTransactionsResponse)
        for each in answer.transaction_states:
            if each.error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                refuse_error(each.error_code, f"transactional id {each.transactional_id}")
                found[each.transactional_id] = _summary(each, node_id)
    return [found[each] for each in ids if each in found]


def _summary(described: TransactionState, coordinator: int) -> TransactionSummary:
    return TransactionSummary(
        described.transactional_id,
        described.transaction_state,
        coordinator,
        described.producer_id,
        described.producer_epoch,
        described.transaction_timeout_ms,
        described.transaction_start_time_ms,
        tuple(TopicPartition(each.topic, number) for each in described.topics for number in each.partitions),
    )


def _opened(cluster: Cluster, partitions: Sequence[TopicPartition]) -> list[HangingTransaction]:
    """Returns all transactions that are open in the partitions, whether or not they hang."""
    found: list[HangingTransaction] = []
    for node_id, theirs in cluster.by_leader(partitions).items():
        topics = [
            TopicRequest(name=name, partition_indexes=list(numbers))
            for name, numbers in by_topic(theirs).items()
        ]
        answer = cluster.broker(node_id).call(
            DescribeProducersRequest(topics=topics), DescribeProducersResponse
        )
        for topic in answer.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                refuse_error(row.error_code, f"partition {partition}", row.error_message)
                found += [
                    HangingTransaction(
                        partition, each.current_txn_start_offset, each.producer_id, each.producer_epoch,
                        each.coordinator_epoch, each.last_timestamp,
                    )
                    for each in row.active_producers
                    if each.current_txn_start_offset != NONE
                ]  # fmt: skip
    return sorted(found, key=lambda each: (each.partition, each.start_offset))
