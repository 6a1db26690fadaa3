"""The gates of requests about transactions, and of InitProducerId: they need a right on the transactional id."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.broker.security.gates.gate import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    TOPIC_DENIED,
    TRANSACTIONAL_ID_DENIED,
    Handle,
    may_on_cluster,
    parted,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages import add_partitions_to_txn as adding
from siltstone.kafka_protocol.messages import describe_transactions, txn_offset_commit
from siltstone.kafka_protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from siltstone.kafka_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from siltstone.kafka_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from siltstone.model.acls import AclOperation, AclResourceType

SEVERAL_SINCE = 4
"""From this version on AddPartitionsToTxn is for brokers, and names several transactions."""

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


def _may_write(context: RequestContext, transactional_id: str) -> bool:
    return context.may(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id)


async def init_producer_id(
    parts: BrokerParts, context: RequestContext, request: InitProducerIdRequest, handle: Handle
) -> Any:
    """An idempotent producer needs a topic that it may write, or a right on the cluster (KIP-679)."""
    if request.transactional_id is not None:
        refusal = None if _may_write(context, request.transactional_id) else TRANSACTIONAL_ID_DENIED
    elif may_on_cluster(context, AclOperation.IDEMPOTENT_WRITE, is_named=False):
        refusal = None
    else:
        refusal = None if context.may_on_some(AclOperation.WRITE, AclResourceType.TOPIC) else CLUSTER_DENIED
    if refusal is None:
        return await handle(request)
    return InitProducerIdResponse(
        error_code=refusal, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


async def add_partitions(
    parts: BrokerParts, context: RequestContext, request: adding.AddPartitionsToTxnRequest, handle: Handle
) -> Any:
    """As in Kafka nothing is added if one topic is denied."""
    if context.api_version >= SEVERAL_SINCE:
        if may_on_cluster(context, AclOperation.CLUSTER_ACTION):
            return await handle(request)
        return adding.AddPartitionsToTxnResponse(error_code=CLUSTER_DENIED)
    topics = request.v3_and_below_topics
    if not _may_write(context, request.v3_and_below_transactional_id):
        rows = [_not_added(topic, TRANSACTIONAL_ID_DENIED) for topic in topics]
        return adding.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)
    allowed, denied = await parted(
        lambda topic: context.may(AclOperation.WRITE, AclResourceType.TOPIC, topic.name), topics
    )
    if not denied:
        return await handle(request)
    rows = [_not_added(topic, TOPIC_DENIED) for topic in denied]
    rows += [_not_added(topic, ErrorCode.OPERATION_NOT_ATTEMPTED) for topic in allowed]
    return adding.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)


def _not_added(
    topic: adding.AddPartitionsToTxnTopic, code: ErrorCode
) -> adding.AddPartitionsToTxnTopicResult:
    return adding.AddPartitionsToTxnTopicResult(
        name=topic.name,
        results_by_partition=[
            adding.AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
            for index in topic.partitions
        ],
    )


async def add_offsets(
    parts: BrokerParts, context: RequestContext, request: AddOffsetsToTxnRequest, handle: Handle
) -> Any:
    if not _may_write(context, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=TRANSACTIONAL_ID_DENIED)
    if not context.may(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=GROUP_DENIED)
    return await handle(request)


async def end_transaction(
    parts: BrokerParts, context: RequestContext, request: EndTxnRequest, handle: Handle
) -> Any:
    if _may_write(context, request.transactional_id):
        return await handle(request)
    return EndTxnResponse(error_code=TRANSACTIONAL_ID_DENIED)


async def commit_offsets(
    parts: BrokerParts,
    context: RequestContext,
    request: txn_offset_commit.TxnOffsetCommitRequest,
    handle: Handle,
) -> Any:
    if not _may_write(context, request.transactional_id):
        return _not_committed(request.topics, TRANSACTIONAL_ID_DENIED)
    if not context.may(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        return _not_committed(request.topics, GROUP_DENIED)
    allowed, denied = await parted(
        lambda topic: context.may(AclOperation.READ, AclResourceType.TOPIC, topic.name), request.topics
    )
    if denied and not allowed:
        return _not_committed(denied, TOPIC_DENIED)
    response = await handle(replace(request, topics=allowed) if denied else request)
    rows = _not_committed(denied, TOPIC_DENIED).topics
    return replace(response, topics=[*response.topics, *rows])


def _not_committed(
    topics: Iterable[txn_offset_commit.TxnOffsetCommitRequestTopic], code: ErrorCode
) -> txn_offset_commit.TxnOffsetCommitResponse:
    return txn_offset_commit.TxnOffsetCommitResponse(
        topics=[
            txn_offset_commit.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    txn_offset_commit.TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=code
                    )
                    for each in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


async def describe(
    parts: BrokerParts,
    context: RequestContext,
    request: describe_transactions.DescribeTransactionsRequest,
    handle: Handle,
) -> Any:
    """Topics of a transaction that the client may not describe are left out."""
    allowed, denied = await parted(
        lambda each: context.may(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, each),
        request.transactional_ids,
    )
    response = await handle(replace(request, transactional_ids=allowed))
    rows = [
        replace(
            row,
            topics=[
                topic
                for topic in row.topics
                if context.may(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.topic, is_named=False)
            ],
        )
        for row in response.transaction_states
    ]
    rows += [
        describe_transactions.TransactionState(transactional_id=each, error_code=TRANSACTIONAL_ID_DENIED)
        for each in denied
    ]
    return replace(response, transaction_states=rows)


async def list_transactions(
    parts: BrokerParts, context: RequestContext, request: ListTransactionsRequest, handle: Handle
) -> Any:
    response = await handle(request)
    assert isinstance(response, ListTransactionsResponse)
    seen, _ = await parted(
        lambda row: context.may(
            AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, row.transactional_id, is_named=False
        ),
        response.transaction_states,
    )
    return replace(response, transaction_states=seen)
