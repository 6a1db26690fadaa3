"""The gates of transactions, with handlers that note what is handed on to them."""

import asyncio
from typing import Any

from siltstone.broker.request import ConnectionContext, Listener, RequestContext
from siltstone.broker.security.gates import cluster, transactions
from siltstone.broker.security.gates.gate import Gate
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages import add_partitions_to_txn as adding
from siltstone.kafka_protocol.messages import describe_transactions, list_transactions, txn_offset_commit
from siltstone.kafka_protocol.messages import write_txn_markers as marking
from siltstone.kafka_protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from siltstone.kafka_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from siltstone.kafka_protocol.notation import Message
from siltstone.model.acls import CLUSTER_NAME, AclOperation, AclResourceType
from support.security.rights import NamedRights

TXN, TOPIC, GROUP = AclResourceType.TRANSACTIONAL_ID, AclResourceType.TOPIC, AclResourceType.GROUP
WRITES_X = (AclOperation.WRITE, TXN, "x")


def _passed(
    gate: Gate,
    request: Message,
    answer: Message,
    *allowed: tuple[AclOperation, AclResourceType, str],
    version: int = 3,
) -> tuple[Any, Any]:
    """Returns what reached the handler, None if nothing did, and what the client gets."""
    handed: list[Any] = []

    async def handle(part: Any) -> Any:
        handed.append(part)
        return answer

    connection = ConnectionContext(1, "10.0.0.1", Listener("PLAINTEXT", "h", 9092))
    context = RequestContext(connection, type(request).api_key, version, 1, "c", 0.0, NamedRights(allowed))
    answered = asyncio.run(gate(None, context, request, handle))  # type: ignore[arg-type, func-returns-value]
    return (handed[0] if handed else None), answered


def _rows(answer: adding.AddPartitionsToTxnResponse) -> dict[str, int]:
    return {
        row.name: row.results_by_partition[0].partition_error_code
        for row in answer.results_by_topic_v3_and_below
    }


def test_ac01_partitions_are_added_all_or_none() -> None:
    request = adding.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_topics=[
            adding.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("a", "b")
        ],
    )
    answer = adding.AddPartitionsToTxnResponse()
    gate = transactions.add_partitions
    handed, told = _passed(gate, request, answer)
    assert (handed, _rows(told)) == (None, {"a": 53, "b": 53})
    handed, told = _passed(gate, request, answer, WRITES_X, (AclOperation.WRITE, TOPIC, "a"))
    assert (handed, _rows(told)) == (None, {"a": ErrorCode.OPERATION_NOT_ATTEMPTED, "b": 29})
    both = [(AclOperation.WRITE, TOPIC, name) for name in ("a", "b")]
    assert _passed(gate, request, answer, WRITES_X, *both) == (request, answer)
    handed, told = _passed(gate, request, answer, WRITES_X, *both, version=4)
    assert (handed, told.error_code) == (None, 31), "version 4 is for brokers"


def test_ac01_offsets_need_the_transactional_id_the_group_and_the_topic() -> None:
    reads_g = (AclOperation.READ, GROUP, "g")
    request = AddOffsetsToTxnRequest(transactional_id="x", group_id="g")
    answer = AddOffsetsToTxnResponse()
    assert _passed(transactions.add_offsets, request, answer)[1].error_code == 53
    assert _passed(transactions.add_offsets, request, answer, WRITES_X)[1].error_code == 30
    assert _passed(transactions.add_offsets, request, answer, WRITES_X, reads_g) == (request, answer)

    row = txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=0)
    topics = [
        txn_offset_commit.TxnOffsetCommitRequestTopic(name=name, partitions=[row]) for name in ("a", "b")
    ]
    commit = txn_offset_commit.TxnOffsetCommitRequest(transactional_id="x", group_id="g", topics=topics)
    empty = txn_offset_commit.TxnOffsetCommitResponse()

    def codes(*allowed: tuple[AclOperation, AclResourceType, str]) -> tuple[list[str] | None, dict[str, int]]:
        handed, told = _passed(transactions.commit_offsets, commit, empty, *allowed)
        names = None if handed is None else [topic.name for topic in handed.topics]
        return names, {topic.name: topic.partitions[0].error_code for topic in told.topics}

    assert codes() == (None, {"a": 53, "b": 53})
    assert codes(WRITES_X) == (None, {"a": 30, "b": 30})
    assert codes(WRITES_X, reads_g) == (None, {"a": 29, "b": 29})
    assert codes(WRITES_X, reads_g, (AclOperation.READ, TOPIC, "a")) == (["a"], {"b": 29})


def test_ac01_an_end_needs_the_transactional_id_and_a_marker_the_cluster() -> None:
    request = EndTxnRequest(transactional_id="x")
    assert _passed(transactions.end_transaction, request, EndTxnResponse())[1].error_code == 53
    assert _passed(transactions.end_transaction, request, EndTxnResponse(), WRITES_X)[0] == request
    topic = marking.WritableTxnMarkerTopic(name="a", partition_indexes=[0])
    markers = marking.WriteTxnMarkersRequest(
        markers=[marking.WritableTxnMarker(producer_id=7, topics=[topic])]
    )
    handed, told = _passed(cluster.write_markers, markers, marking.WriteTxnMarkersResponse(), version=1)
    assert (handed, told.markers[0].topics[0].partitions[0].error_code) == (None, 31)
    for operation in (AclOperation.ALTER, AclOperation.CLUSTER_ACTION):
        right = (operation, AclResourceType.CLUSTER, CLUSTER_NAME)
        answer = marking.WriteTxnMarkersResponse()
        assert _passed(cluster.write_markers, markers, answer, right, version=1) == (markers, answer)


def test_ac10_transactions_are_described_and_listed_as_far_as_they_may_be_seen() -> None:
    request = describe_transactions.DescribeTransactionsRequest(transactional_ids=["x", "y"])
    topics = [describe_transactions.TopicData(topic=name) for name in ("a", "b")]
    state = describe_transactions.TransactionState(transactional_id="x", topics=topics)
    answer = describe_transactions.DescribeTransactionsResponse(transaction_states=[state])
    sees = (AclOperation.DESCRIBE, TXN, "x"), (AclOperation.DESCRIBE, TOPIC, "a")
    handed, told = _passed(transactions.describe, request, answer, *sees, version=0)
    assert handed.transactional_ids == ["x"]
    rows = {row.transactional_id: (row.error_code, row.topics) for row in told.transaction_states}
    assert rows == {"x": (0, topics[:1]), "y": (53, [])}

    states = [list_transactions.TransactionState(transactional_id=name) for name in ("x", "y")]
    listed = list_transactions.ListTransactionsResponse(transaction_states=states)
    told = _passed(
        transactions.list_transactions, list_transactions.ListTransactionsRequest(), listed, *sees
    )[1]
    assert told.transaction_states == states[:1]
