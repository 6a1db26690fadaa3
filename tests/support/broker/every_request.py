"""Makes one request of every API in every version that is spoken. Each changes little and is answered."""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from siltstone.kafka_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from siltstone.kafka_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    QuotaAlteration,
    QuotaAlterationEntity,
)
from siltstone.kafka_protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from siltstone.kafka_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from siltstone.kafka_protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from siltstone.kafka_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest
from siltstone.kafka_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from siltstone.kafka_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from siltstone.kafka_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from siltstone.kafka_protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from siltstone.kafka_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from siltstone.kafka_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.kafka_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from siltstone.kafka_protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from siltstone.kafka_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from siltstone.kafka_protocol.messages.describe_acls import DescribeAclsRequest
from siltstone.kafka_protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from siltstone.kafka_protocol.messages.describe_cluster import DescribeClusterRequest
from siltstone.kafka_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from siltstone.kafka_protocol.messages.describe_groups import DescribeGroupsRequest
from siltstone.kafka_protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from siltstone.kafka_protocol.messages.describe_producers import DescribeProducersRequest
from siltstone.kafka_protocol.messages.describe_producers import TopicRequest as ProducersTopic
from siltstone.kafka_protocol.messages.describe_quorum import (
    AskedPartition,
    AskedTopic,
    DescribeQuorumRequest,
)
from siltstone.kafka_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from siltstone.kafka_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from siltstone.kafka_protocol.messages.describe_transactions import DescribeTransactionsRequest
from siltstone.kafka_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from siltstone.kafka_protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from siltstone.kafka_protocol.messages.end_txn import EndTxnRequest
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest
from siltstone.kafka_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
)
from siltstone.kafka_protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest
from siltstone.kafka_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from siltstone.kafka_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from siltstone.kafka_protocol.messages.list_config_resources import ListConfigResourcesRequest
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest
from siltstone.kafka_protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from siltstone.kafka_protocol.messages.list_transactions import ListTransactionsRequest
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.kafka_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from siltstone.kafka_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from siltstone.kafka_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest
from siltstone.kafka_protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from siltstone.kafka_protocol.messages.share_fetch import ShareFetchRequest
from siltstone.kafka_protocol.messages.share_group_describe import ShareGroupDescribeRequest
from siltstone.kafka_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from siltstone.kafka_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from siltstone.kafka_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from siltstone.kafka_protocol.messages.unregister_broker import UnregisterBrokerRequest
from siltstone.kafka_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from siltstone.kafka_protocol.notation import Message
from support.groups.consumer_bytes import subscription
from support.groups.raw_group import offset_fetch_request
from support.kafka.raw_calls import (
    RawTopic,
    batch_of,
    fetch_request,
    list_offsets_request,
    metadata_request,
    produce_request,
)

TOPIC_RESOURCE = 2
PRODUCE_SINCE = 3
"""Announced from 0 on, spoken from here on."""

STRANGER = "stranger"
"""The id of a member that no group has."""


class Asked(msgspec.Struct, frozen=True):
    """``group_id``: that of a group without members, or of none."""

    topic: RawTopic
    group_id: str
    version: int


def spoken_versions() -> Iterator[tuple[ApiKey, int]]:
    for key, (lowest, highest) in ANNOUNCED.items():
        for version in range(PRODUCE_SINCE if key is ApiKey.PRODUCE else lowest, highest + 1):
            yield key, version


def plain_requests(topic: RawTopic, group_id: str = "nobody") -> Iterator[tuple[Message, int]]:
    """Returns requests in all of ``spoken_versions``."""
    for key, version in spoken_versions():
        yield plain_request(key, version, topic, group_id), version


def plain_request(key: ApiKey, version: int, topic: RawTopic, group_id: str = "nobody") -> Message:
    return _REQUESTS[key](Asked(topic, group_id, version))


# -- data ------------------------------------------------------------------------------------------------


def _offset_commit(asked: Asked) -> Message:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(name=asked.topic.name, topic_id=asked.topic.id, partitions=[row])
    return OffsetCommitRequest(group_id=asked.group_id, topics=[topic])


def _offset_for_leader_epoch(asked: Asked) -> Message:
    row = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    return OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=asked.topic.name, partitions=[row])]
    )


def _delete_records(asked: Asked) -> Message:
    row = DeleteRecordsPartition(partition_index=0, offset=0)
    topic = DeleteRecordsTopic(name=asked.topic.name, partitions=[row])
    return DeleteRecordsRequest(topics=[topic], timeout_ms=1_000)


# -- groups ----------------------------------------------------------------------------------------------


def _join_group(asked: Asked) -> Message:
    protocol = JoinGroupRequestProtocol(name="range", metadata=subscription(asked.topic.name))
    return JoinGroupRequest(
        group_id=asked.group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=1_000,
        member_id=STRANGER,
        protocol_type="consumer",
        protocols=[protocol],
    )


def _sync_group(asked: Asked) -> Message:
    return SyncGroupRequest(
        group_id=asked.group_id,
        generation_id=1,
        member_id=STRANGER,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=STRANGER, assignment=b"a")],
    )


def _leave_group(asked: Asked) -> Message:
    leaving = [MemberIdentity(member_id=STRANGER)]
    return LeaveGroupRequest(group_id=asked.group_id, member_id=STRANGER, members=leaving)


def _offset_delete(asked: Asked) -> Message:
    row = OffsetDeleteRequestPartition(partition_index=0)
    topic = OffsetDeleteRequestTopic(name=asked.topic.name, partitions=[row])
    return OffsetDeleteRequest(group_id=asked.group_id, topics=[topic])


# -- transactions ----------------------------------------------------------------------------------------


def _add_partitions_to_txn(asked: Asked) -> Message:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=STRANGER,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=asked.topic.name, partitions=[0])],
    )


def _txn_offset_commit(asked: Asked) -> Message:
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = TxnOffsetCommitRequestTopic(name=asked.topic.name, partitions=[row])
    return TxnOffsetCommitRequest(transactional_id=STRANGER, group_id=asked.group_id, topics=[topic])


def _write_txn_markers(asked: Asked) -> Message:
    topic = WritableTxnMarkerTopic(name=f"{asked.topic.name}-missing", partition_indexes=[0])
    return WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=1, topics=[topic])])


# -- topics and configurations ---------------------------------------------------------------------------


def _create_topics(asked: Asked) -> Message:
    topic = CreatableTopic(name=f"{asked.topic.name}-new", num_partitions=2, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], validate_only=True)


def _delete_topics(asked: Asked) -> Message:
    missing = f"{asked.topic.name}-missing"
    return DeleteTopicsRequest(
        topic_names=[missing], topics=[DeleteTopicState(name=missing)], timeout_ms=1_000
    )


def _create_partitions(asked: Asked) -> Message:
    topic = CreatePartitionsTopic(name=asked.topic.name, count=100, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=1_000, validate_only=True)


def _describe_configs(asked: Asked) -> Message:
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=asked.topic.name, configuration_keys=None
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)


def _alter_configs(asked: Asked) -> Message:
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=asked.topic.name)
    return AlterConfigsRequest(resources=[resource], validate_only=True)


def _incremental_alter_configs(asked: Asked) -> Message:
    config = AlterableConfig(name="retention.ms", config_operation=0, value="1000000")
    resource = IncrementalResource(
        resource_type=TOPIC_RESOURCE, resource_name=asked.topic.name, configs=[config]
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


_REQUESTS: Mapping[ApiKey, Callable[[Asked], Message]] = {
    ApiKey.PRODUCE: lambda asked: produce_request(asked.topic, {0: batch_of()}),
    ApiKey.FETCH: lambda asked: fetch_request(asked.topic, {0: 0}, bytes_max=1),
    ApiKey.LIST_OFFSETS: lambda asked: list_offsets_request(asked.topic, {0: -2}),
    ApiKey.METADATA: lambda asked: metadata_request(asked.topic.name),
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: lambda asked: offset_fetch_request(asked.group_id, asked.topic, [0], asked.version),
    ApiKey.FIND_COORDINATOR: lambda asked: FindCoordinatorRequest(
        key=asked.group_id, coordinator_keys=[asked.group_id]
    ),
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.HEARTBEAT: lambda asked: HeartbeatRequest(
        group_id=asked.group_id, generation_id=1, member_id=STRANGER
    ),
    ApiKey.LEAVE_GROUP: _leave_group,
    ApiKey.SYNC_GROUP: _sync_group,
    ApiKey.DESCRIBE_GROUPS: lambda asked: DescribeGroupsRequest(groups=[asked.group_id]),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda asked: ConsumerGroupHeartbeatRequest(
        group_id=f"{asked.group_id}-of-kip-848", member_id=STRANGER, member_epoch=1
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda asked: ConsumerGroupDescribeRequest(group_ids=[asked.group_id]),
    ApiKey.SHARE_GROUP_HEARTBEAT: lambda asked: ShareGroupHeartbeatRequest(
        group_id=f"{asked.group_id}-of-shares", member_id=STRANGER, member_epoch=1
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: lambda asked: ShareGroupDescribeRequest(group_ids=[asked.group_id]),
    ApiKey.SHARE_FETCH: lambda asked: ShareFetchRequest(
        group_id=asked.group_id, member_id=STRANGER, share_session_epoch=1
    ),
    ApiKey.SHARE_ACKNOWLEDGE: lambda asked: ShareAcknowledgeRequest(
        group_id=asked.group_id, member_id=STRANGER, share_session_epoch=1
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: lambda asked: DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=asked.group_id, topics=None)]
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: lambda asked: AlterShareGroupOffsetsRequest(group_id=asked.group_id),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: lambda asked: DeleteShareGroupOffsetsRequest(group_id=asked.group_id),
    ApiKey.LIST_GROUPS: lambda asked: ListGroupsRequest(),
    ApiKey.API_VERSIONS: lambda asked: ApiVersionsRequest(
        client_software_name="raw", client_software_version="1.0"
    ),
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.INIT_PRODUCER_ID: lambda asked: InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1_000
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: lambda asked: AddOffsetsToTxnRequest(
        transactional_id=STRANGER, group_id=asked.group_id
    ),
    ApiKey.END_TXN: lambda asked: EndTxnRequest(transactional_id=STRANGER),
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.DESCRIBE_TRANSACTIONS: lambda asked: DescribeTransactionsRequest(transactional_ids=[STRANGER]),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DELETE_GROUPS: lambda asked: DeleteGroupsRequest(groups_names=[f"{asked.group_id}-missing"]),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.DESCRIBE_CLUSTER: lambda asked: DescribeClusterRequest(),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda asked: DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=asked.topic.name)]
    ),
    ApiKey.DESCRIBE_LOG_DIRS: lambda asked: DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=asked.topic.name, partitions=[0])]
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda asked: AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=asked.topic.name, partitions=[ReassignablePartition(partition_index=0, replicas=[7])]
            )
        ]
    ),
    ApiKey.UNREGISTER_BROKER: lambda asked: UnregisterBrokerRequest(broker_id=8),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda asked: ListPartitionReassignmentsRequest(topics=None),
    ApiKey.DESCRIBE_PRODUCERS: lambda asked: DescribeProducersRequest(
        topics=[ProducersTopic(name=asked.topic.name, partition_indexes=[0])]
    ),
    ApiKey.LIST_TRANSACTIONS: lambda asked: ListTransactionsRequest(state_filters=["Ongoing"]),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda asked: DescribeClientQuotasRequest(
        components=[ComponentData(entity_type="user", match_type=2, match=None)]
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: lambda asked: AlterClientQuotasRequest(
        entries=[QuotaAlteration(entity=[QuotaAlterationEntity(entity_type="user", entity_name="u")])]
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda asked: DescribeUserScramCredentialsRequest(users=None),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda asked: AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="nobody", mechanism=1)]
    ),
    ApiKey.SASL_HANDSHAKE: lambda asked: SaslHandshakeRequest(mechanism="PLAIN"),
    ApiKey.SASL_AUTHENTICATE: lambda asked: SaslAuthenticateRequest(auth_bytes=b""),
    ApiKey.DESCRIBE_ACLS: lambda asked: DescribeAclsRequest(
        resource_type_filter=1, operation=1, permission_type=1
    ),
    ApiKey.CREATE_ACLS: lambda asked: CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=2,
                resource_name="nothing",
                principal="User:nobody",
                host="*",
                operation=3,
                permission_type=3,
            )
        ]
    ),
    ApiKey.DELETE_ACLS: lambda asked: DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=1,
                pattern_type_filter=1,
                principal_filter="User:nobody",
                operation=1,
                permission_type=1,
            )
        ]
    ),
    ApiKey.LIST_CONFIG_RESOURCES: lambda asked: ListConfigResourcesRequest(),
    ApiKey.DESCRIBE_QUORUM: lambda asked: DescribeQuorumRequest(
        topics=[AskedTopic(topic_name="__cluster_metadata", partitions=[AskedPartition()])]
    ),
    ApiKey.ELECT_LEADERS: lambda asked: ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic=asked.topic.name, partitions=[0])]
    ),
}
assert _REQUESTS.keys() == ANNOUNCED.keys()
