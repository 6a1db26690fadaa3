"""One transaction of a transactional id. ``delivery`` sends its batches; an offset of a group is committed with them.

The id's earlier transaction ends before this one begins: a commit that was under way is completed, anything else is
aborted, and its producer is fenced. So from then on the outcome of the earlier one does not change any more. Every
request is repeated through outages, and doing so changes nothing [Kafka: KIP-890].
"""

from collections.abc import Callable
from typing import TypeVar

from siltstone.kafka_client.cluster import Cluster, CoordinatorKind, TopicPartition
from siltstone.kafka_client.connection import Connection
from siltstone.kafka_client.failures import KafkaNotReady, refuse_error
from siltstone.kafka_client.patience import Patience
from siltstone.kafka_client.producing.delivery import DELIVERY_TIME_LIMIT_MS
from siltstone.kafka_client.producing.producer import ProducerIdentity
from siltstone.kafka_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from siltstone.kafka_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from siltstone.kafka_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from siltstone.model.errors import Unavailable

T = TypeVar("T")


class ProducerTransaction:
    """The next transaction of ``transactional_id``. Raises KafkaRefusal, Unavailable."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self._cluster = cluster
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self.identity = _through_outages(cluster, self._begun)

    def _begun(self) -> ProducerIdentity:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
        )
        answer = self._coordinator().call(request, InitProducerIdResponse)
        refuse_error(answer.error_code, f"transactional id {self.transactional_id}")
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    def commit_offset(self, group_id: str, partition: TopicPartition, offset: int, metadata: str) -> None:
        """Makes an offset of a group without members a part of the transaction. Raises KafkaRefusal, Unavailable."""
        row = TxnOffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=offset, committed_metadata=metadata
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=partition.topic, partitions=[row])],
        )

        def attempt() -> None:
            answer = _coordinator_of_group(self._cluster, group_id).call(request, TxnOffsetCommitResponse)
            for topic in answer.topics:
                for each in topic.partitions:
                    refuse_error(each.error_code, f"group {group_id}")

        _through_outages(self._cluster, attempt)

    def commit(self) -> None:
        """Commits the transaction. After KafkaRefusal or Unavailable it may be committed or not."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=True,
        )

        def attempt() -> None:
            answer = self._coordinator().call(request, EndTxnResponse)
            refuse_error(answer.error_code, f"transactional id {self.transactional_id}")

        _through_outages(self._cluster, attempt)

    def _coordinator(self) -> Connection:
        (node_id,) = self._cluster.coordinators_of([self.transactional_id], CoordinatorKind.TRANSACTION)
        return self._cluster.broker(node_id)


def committed_note(cluster: Cluster, group_id: str, partition: TopicPartition) -> str | None:
    """Returns the text that a group has committed with its offset of the partition, None if it has no offset there.
    Waits for the transaction that is about to change the offset. Raises KafkaRefusal, Unavailable."""
    topics = [OffsetFetchRequestTopics(name=partition.topic, partition_indexes=[partition.partition])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)], require_stable=True
    )

    def attempt() -> str | None:
        answer = _coordinator_of_group(cluster, group_id).call_in(
            NAMED_TOPICS_VERSION, request, OffsetFetchResponse
        )
        (group,) = answer.groups
        refuse_error(group.error_code, f"group {group_id}")
        for topic in group.topics:
            for row in topic.partitions:
                refuse_error(row.error_code, f"group {group_id}, {partition}")
                return row.metadata or "" if row.committed_offset >= 0 else None
        return None

    return _through_outages(cluster, attempt)


NAMED_TOPICS_VERSION = 9
"""The last version of OffsetFetch that names topics by their names."""


def _coordinator_of_group(cluster: Cluster, group_id: str) -> Connection:
    (node_id,) = cluster.coordinators_of([group_id])
    return cluster.broker(node_id)


def _through_outages(cluster: Cluster, attempt: Callable[[], T]) -> T:
    """Repeats ``attempt`` for as long as batches are sent again: a broker has restarted by then."""
    patience = Patience(cluster.clock, cluster.rng, DELIVERY_TIME_LIMIT_MS)
    while True:
        try:
            return attempt()
        except Unavailable as trouble:
            if not isinstance(trouble, KafkaNotReady):
                cluster.reconnect()
            patience.wait_after(trouble)
