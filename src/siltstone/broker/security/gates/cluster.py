"""The gates of requests that need a right on the cluster, and are refused as a whole."""

from collections.abc import Callable
from typing import Any

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.broker.security.gates.gate import (
    CLUSTER_DENIED,
    DENIED_TEXT,
    Gate,
    Handle,
    may_on_cluster,
)
from siltstone.kafka_protocol.messages import create_acls, delete_acls, elect_leaders, write_txn_markers
from siltstone.kafka_protocol.messages import list_partition_reassignments as list_moves
from siltstone.kafka_protocol.messages.alter_client_quotas import (
    AlterClientQuotasResponse,
    QuotaAlteration,
    QuotaAlterationResult,
    QuotaAlterationResultEntity,
)
from siltstone.kafka_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from siltstone.kafka_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from siltstone.kafka_protocol.messages.describe_acls import DescribeAclsResponse
from siltstone.kafka_protocol.messages.describe_client_quotas import DescribeClientQuotasResponse
from siltstone.kafka_protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from siltstone.kafka_protocol.messages.describe_quorum import DescribeQuorumResponse
from siltstone.kafka_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from siltstone.kafka_protocol.messages.list_config_resources import ListConfigResourcesResponse
from siltstone.kafka_protocol.messages.unregister_broker import UnregisterBrokerResponse
from siltstone.kafka_protocol.notation import Message
from siltstone.model.acls import AclOperation

TEXT = DENIED_TEXT[CLUSTER_DENIED]
ROW: dict[str, Any] = {"error_code": CLUSTER_DENIED, "error_message": TEXT}


def on_cluster(operation: AclOperation, refusal: Callable[[Any], Message]) -> Gate:
    """Returns the gate of an API that needs the operation on the cluster; ``refusal`` makes the answer of a request
    that is denied."""

    async def gate(parts: BrokerParts, context: RequestContext, request: Any, handle: Handle) -> Any:
        return await handle(request) if may_on_cluster(context, operation) else refusal(request)

    return gate


def _no_election(request: elect_leaders.ElectLeadersRequest) -> Message:
    return elect_leaders.ElectLeadersResponse(
        error_code=CLUSTER_DENIED,
        replica_election_results=[
            elect_leaders.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    elect_leaders.PartitionResult(partition_id=index, **ROW) for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _no_reassignment(request: AlterPartitionReassignmentsRequest) -> Message:
    return AlterPartitionReassignmentsResponse(
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(partition_index=each.partition_index, **ROW)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        **ROW,
    )


def _no_markers(request: write_txn_markers.WriteTxnMarkersRequest) -> Message:
    return write_txn_markers.WriteTxnMarkersResponse(
        markers=[
            write_txn_markers.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    write_txn_markers.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            write_txn_markers.WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=CLUSTER_DENIED
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


elect = on_cluster(AclOperation.ALTER, _no_election)
reassign = on_cluster(AclOperation.ALTER, _no_reassignment)
list_reassignments = on_cluster(
    AclOperation.DESCRIBE, lambda _: list_moves.ListPartitionReassignmentsResponse(**ROW)
)
unregister_broker = on_cluster(AclOperation.ALTER, lambda _: UnregisterBrokerResponse(**ROW))
describe_quorum = on_cluster(AclOperation.DESCRIBE, lambda _: DescribeQuorumResponse(**ROW))
describe_log_dirs = on_cluster(
    AclOperation.DESCRIBE, lambda _: DescribeLogDirsResponse(error_code=CLUSTER_DENIED)
)
list_config_resources = on_cluster(
    AclOperation.DESCRIBE_CONFIGS, lambda _: ListConfigResourcesResponse(error_code=CLUSTER_DENIED)
)
describe_client_quotas = on_cluster(
    AclOperation.DESCRIBE_CONFIGS, lambda _: DescribeClientQuotasResponse(entries=None, **ROW)
)


def altered_entity(entry: QuotaAlteration) -> list[QuotaAlterationResultEntity]:
    """Returns the entity as the answer repeats it."""
    return [
        QuotaAlterationResultEntity(entity_type=each.entity_type, entity_name=each.entity_name)
        for each in entry.entity
    ]


alter_client_quotas = on_cluster(
    AclOperation.ALTER_CONFIGS,
    lambda request: AlterClientQuotasResponse(
        entries=[QuotaAlterationResult(entity=altered_entity(each), **ROW) for each in request.entries]
    ),
)
describe_scram_credentials = on_cluster(
    AclOperation.DESCRIBE,
    lambda request: DescribeUserScramCredentialsResponse(
        results=[DescribeUserScramCredentialsResult(user=user.name, **ROW) for user in request.users or ()],
        **ROW,
    ),
)
alter_scram_credentials = on_cluster(
    AclOperation.ALTER,
    lambda request: AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, **ROW)
            for user in dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
        ]
    ),
)
describe_acls = on_cluster(AclOperation.DESCRIBE, lambda _: DescribeAclsResponse(**ROW))
make_acls = on_cluster(
    AclOperation.ALTER,
    lambda request: create_acls.CreateAclsResponse(
        results=[create_acls.AclCreationResult(**ROW) for _ in request.creations]
    ),
)
remove_acls = on_cluster(
    AclOperation.ALTER,
    lambda request: delete_acls.DeleteAclsResponse(
        filter_results=[delete_acls.DeleteAclsFilterResult(**ROW) for _ in request.filters]
    ),
)


async def write_markers(
    parts: BrokerParts,
    context: RequestContext,
    request: write_txn_markers.WriteTxnMarkersRequest,
    handle: Handle,
) -> Any:
    """Tools that end a transaction which hangs need the right to alter the cluster, brokers that to act for it."""
    if may_on_cluster(context, AclOperation.ALTER, is_named=False):
        return await handle(request)
    return (
        await handle(request)
        if may_on_cluster(context, AclOperation.CLUSTER_ACTION)
        else _no_markers(request)
    )
