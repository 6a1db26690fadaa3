"""The request and the response of each API, by API key.

Written by tools/kafka-messages.
"""

from collections.abc import Mapping
from types import MappingProxyType

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from siltstone.kafka_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from siltstone.kafka_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from siltstone.kafka_protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from siltstone.kafka_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from siltstone.kafka_protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from siltstone.kafka_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from siltstone.kafka_protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from siltstone.kafka_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from siltstone.kafka_protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from siltstone.kafka_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from siltstone.kafka_protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from siltstone.kafka_protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from siltstone.kafka_protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from siltstone.kafka_protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from siltstone.kafka_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from siltstone.kafka_protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from siltstone.kafka_protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from siltstone.kafka_protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from siltstone.kafka_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from siltstone.kafka_protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from siltstone.kafka_protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from siltstone.kafka_protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from siltstone.kafka_protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from siltstone.kafka_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from siltstone.kafka_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from siltstone.kafka_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from siltstone.kafka_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from siltstone.kafka_protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from siltstone.kafka_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from siltstone.kafka_protocol.messages.fetch import FetchRequest, FetchResponse
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from siltstone.kafka_protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from siltstone.kafka_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from siltstone.kafka_protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from siltstone.kafka_protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from siltstone.kafka_protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from siltstone.kafka_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from siltstone.kafka_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from siltstone.kafka_protocol.messages.metadata import MetadataRequest, MetadataResponse
from siltstone.kafka_protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from siltstone.kafka_protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from siltstone.kafka_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from siltstone.kafka_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from siltstone.kafka_protocol.messages.produce import ProduceRequest, ProduceResponse
from siltstone.kafka_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from siltstone.kafka_protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from siltstone.kafka_protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from siltstone.kafka_protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from siltstone.kafka_protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from siltstone.kafka_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from siltstone.kafka_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from siltstone.kafka_protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from siltstone.kafka_protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from siltstone.kafka_protocol.notation import Message

CATALOGUE: Mapping[ApiKey, tuple[type[Message], type[Message]]] = MappingProxyType(
    {
        ApiKey.PRODUCE: (ProduceRequest, ProduceResponse),
        ApiKey.FETCH: (FetchRequest, FetchResponse),
        ApiKey.LIST_OFFSETS: (ListOffsetsRequest, ListOffsetsResponse),
        ApiKey.METADATA: (MetadataRequest, MetadataResponse),
        ApiKey.OFFSET_COMMIT: (OffsetCommitRequest, OffsetCommitResponse),
        ApiKey.OFFSET_FETCH: (OffsetFetchRequest, OffsetFetchResponse),
        ApiKey.FIND_COORDINATOR: (FindCoordinatorRequest, FindCoordinatorResponse),
        ApiKey.JOIN_GROUP: (JoinGroupRequest, JoinGroupResponse),
        ApiKey.HEARTBEAT: (HeartbeatRequest, HeartbeatResponse),
        ApiKey.LEAVE_GROUP: (LeaveGroupRequest, LeaveGroupResponse),
        ApiKey.SYNC_GROUP: (SyncGroupRequest, SyncGroupResponse),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: (ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
        ApiKey.SHARE_GROUP_HEARTBEAT: (ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse),
        ApiKey.SHARE_GROUP_DESCRIBE: (ShareGroupDescribeRequest, ShareGroupDescribeResponse),
        ApiKey.SHARE_FETCH: (ShareFetchRequest, ShareFetchResponse),
        ApiKey.SHARE_ACKNOWLEDGE: (ShareAcknowledgeRequest, ShareAcknowledgeResponse),
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (
            DescribeShareGroupOffsetsRequest,
            DescribeShareGroupOffsetsResponse,
        ),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: (AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: (DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse),
        ApiKey.API_VERSIONS: (ApiVersionsRequest, ApiVersionsResponse),
        ApiKey.INIT_PRODUCER_ID: (InitProducerIdRequest, InitProducerIdResponse),
        ApiKey.DESCRIBE_GROUPS: (DescribeGroupsRequest, DescribeGroupsResponse),
        ApiKey.LIST_GROUPS: (ListGroupsRequest, ListGroupsResponse),
        ApiKey.CREATE_TOPICS: (CreateTopicsRequest, CreateTopicsResponse),
        ApiKey.DELETE_TOPICS: (DeleteTopicsRequest, DeleteTopicsResponse),
        ApiKey.DELETE_RECORDS: (DeleteRecordsRequest, DeleteRecordsResponse),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
        ApiKey.DESCRIBE_CONFIGS: (DescribeConfigsRequest, DescribeConfigsResponse),
        ApiKey.ALTER_CONFIGS: (AlterConfigsRequest, AlterConfigsResponse),
        ApiKey.CREATE_PARTITIONS: (CreatePartitionsRequest, CreatePartitionsResponse),
        ApiKey.DELETE_GROUPS: (DeleteGroupsRequest, DeleteGroupsResponse),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
        ApiKey.OFFSET_DELETE: (OffsetDeleteRequest, OffsetDeleteResponse),
        ApiKey.DESCRIBE_CLUSTER: (DescribeClusterRequest, DescribeClusterResponse),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: (DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
        ApiKey.DESCRIBE_LOG_DIRS: (DescribeLogDirsRequest, DescribeLogDirsResponse),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (
            ListPartitionReassignmentsRequest,
            ListPartitionReassignmentsResponse,
        ),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
            AlterPartitionReassignmentsRequest,
            AlterPartitionReassignmentsResponse,
        ),
        ApiKey.UNREGISTER_BROKER: (UnregisterBrokerRequest, UnregisterBrokerResponse),
        ApiKey.ADD_PARTITIONS_TO_TXN: (AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
        ApiKey.ADD_OFFSETS_TO_TXN: (AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
        ApiKey.END_TXN: (EndTxnRequest, EndTxnResponse),
        ApiKey.WRITE_TXN_MARKERS: (WriteTxnMarkersRequest, WriteTxnMarkersResponse),
        ApiKey.TXN_OFFSET_COMMIT: (TxnOffsetCommitRequest, TxnOffsetCommitResponse),
        ApiKey.DESCRIBE_TRANSACTIONS: (DescribeTransactionsRequest, DescribeTransactionsResponse),
        ApiKey.DESCRIBE_PRODUCERS: (DescribeProducersRequest, DescribeProducersResponse),
        ApiKey.LIST_TRANSACTIONS: (ListTransactionsRequest, ListTransactionsResponse),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: (DescribeClientQuotasRequest, DescribeClientQuotasResponse),
        ApiKey.ALTER_CLIENT_QUOTAS: (AlterClientQuotasRequest, AlterClientQuotasResponse),
        ApiKey.SASL_HANDSHAKE: (SaslHandshakeRequest, SaslHandshakeResponse),
        ApiKey.SASL_AUTHENTICATE: (SaslAuthenticateRequest, SaslAuthenticateResponse),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (
            AlterUserScramCredentialsRequest,
            AlterUserScramCredentialsResponse,
        ),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (
            DescribeUserScramCredentialsRequest,
            DescribeUserScramCredentialsResponse,
        ),
        ApiKey.CREATE_ACLS: (CreateAclsRequest, CreateAclsResponse),
        ApiKey.DELETE_ACLS: (DeleteAclsRequest, DeleteAclsResponse),
        ApiKey.DESCRIBE_ACLS: (DescribeAclsRequest, DescribeAclsResponse),
        ApiKey.LIST_CONFIG_RESOURCES: (ListConfigResourcesRequest, ListConfigResourcesResponse),
        ApiKey.DESCRIBE_QUORUM: (DescribeQuorumRequest, DescribeQuorumResponse),
        ApiKey.ELECT_LEADERS: (ElectLeadersRequest, ElectLeadersResponse),
    }
)
