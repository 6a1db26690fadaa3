"""API → handler, for all APIs whose handlers get a decoded request. ``broker`` calls those of Produce and Fetch
itself."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from siltstone.broker.apis.acls import handle_create_acls, handle_delete_acls, handle_describe_acls
from siltstone.broker.apis.alter_client_quotas import handle_alter_client_quotas
from siltstone.broker.apis.alter_partition_reassignments import handle_alter_partition_reassignments
from siltstone.broker.apis.alter_user_scram_credentials import handle_alter_user_scram_credentials
from siltstone.broker.apis.altering_configs import handle_alter_configs, handle_incremental_alter_configs
from siltstone.broker.apis.api_versions import handle_api_versions
from siltstone.broker.apis.create_partitions import handle_create_partitions
from siltstone.broker.apis.create_topics import handle_create_topics
from siltstone.broker.apis.delete_records import handle_delete_records
from siltstone.broker.apis.delete_topics import handle_delete_topics
from siltstone.broker.apis.describe_client_quotas import handle_describe_client_quotas
from siltstone.broker.apis.describe_cluster import handle_describe_cluster
from siltstone.broker.apis.describe_configs import handle_describe_configs
from siltstone.broker.apis.describe_log_dirs import handle_describe_log_dirs
from siltstone.broker.apis.describe_producers import handle_describe_producers
from siltstone.broker.apis.describe_quorum import handle_describe_quorum
from siltstone.broker.apis.describe_topic_partitions import handle_describe_topic_partitions
from siltstone.broker.apis.describe_user_scram_credentials import handle_describe_user_scram_credentials
from siltstone.broker.apis.elect_leaders import handle_elect_leaders
from siltstone.broker.apis.init_producer_id import handle_init_producer_id
from siltstone.broker.apis.list_config_resources import handle_list_config_resources
from siltstone.broker.apis.list_offsets import handle_list_offsets
from siltstone.broker.apis.list_partition_reassignments import handle_list_partition_reassignments
from siltstone.broker.apis.metadata import handle_metadata
from siltstone.broker.apis.offset_for_leader_epoch import handle_offset_for_leader_epoch
from siltstone.broker.apis.share_acknowledge import handle_share_acknowledge
from siltstone.broker.apis.share_fetch import handle_share_fetch
from siltstone.broker.apis.share_offsets import (
    forget_shares_of,
    handle_alter_share_group_offsets,
    handle_delete_share_group_offsets,
    handle_describe_share_group_offsets,
)
from siltstone.broker.apis.unregister_broker import handle_unregister_broker
from siltstone.broker.groups.apis.consumer_describe import handle_consumer_group_describe
from siltstone.broker.groups.apis.consumer_heartbeat import handle_consumer_group_heartbeat
from siltstone.broker.groups.apis.delete_groups import handle_delete_groups
from siltstone.broker.groups.apis.describe_groups import handle_describe_groups
from siltstone.broker.groups.apis.find_coordinator import handle_find_coordinator
from siltstone.broker.groups.apis.list_groups import handle_list_groups
from siltstone.broker.groups.apis.membership import (
    handle_heartbeat,
    handle_join_group,
    handle_leave_group,
    handle_sync_group,
)
from siltstone.broker.groups.apis.offset_commit import handle_offset_commit
from siltstone.broker.groups.apis.offset_delete import handle_offset_delete
from siltstone.broker.groups.apis.offset_fetch import handle_offset_fetch
from siltstone.broker.groups.apis.share_describe import handle_share_group_describe
from siltstone.broker.groups.apis.share_heartbeat import handle_share_group_heartbeat
from siltstone.broker.groups.groups import Groups
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import AnswerInPieces, EncodedBody, RequestContext
from siltstone.broker.transactions.apis.describing import handle_describe_transactions
from siltstone.broker.transactions.apis.listing import handle_list_transactions
from siltstone.broker.transactions.apis.marking import handle_write_txn_markers
from siltstone.broker.transactions.apis.offsets import handle_add_offsets_to_txn, handle_txn_offset_commit
from siltstone.broker.transactions.apis.producing import (
    handle_add_partitions_to_txn,
    handle_end_txn,
    refusal_of_partition,
)
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.notation import Message

Handler = Callable[[BrokerParts, RequestContext, Any], Awaitable[Message | EncodedBody | AnswerInPieces]]


class Api(msgspec.Struct, frozen=True):
    request: type[Message]
    handle: Handler


def _of_groups(handle: Callable[[Groups, RequestContext, Any], Awaitable[Message]]) -> Handler:
    return lambda parts, context, request: handle(parts.groups, context, request)


_HANDLERS: Mapping[ApiKey, Handler] = {
    ApiKey.LIST_OFFSETS: handle_list_offsets,
    ApiKey.METADATA: handle_metadata,
    ApiKey.OFFSET_COMMIT: _of_groups(handle_offset_commit),
    ApiKey.OFFSET_FETCH: _of_groups(handle_offset_fetch),
    ApiKey.FIND_COORDINATOR: lambda parts, context, request: handle_find_coordinator(
        parts.groups, parts.transactions, parts.cluster, context, request
    ),
    ApiKey.JOIN_GROUP: _of_groups(handle_join_group),
    ApiKey.HEARTBEAT: _of_groups(handle_heartbeat),
    ApiKey.LEAVE_GROUP: _of_groups(handle_leave_group),
    ApiKey.SYNC_GROUP: _of_groups(handle_sync_group),
    ApiKey.DESCRIBE_GROUPS: _of_groups(handle_describe_groups),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _of_groups(handle_consumer_group_heartbeat),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _of_groups(handle_consumer_group_describe),
    ApiKey.SHARE_GROUP_HEARTBEAT: _of_groups(handle_share_group_heartbeat),
    ApiKey.SHARE_GROUP_DESCRIBE: _of_groups(handle_share_group_describe),
    ApiKey.SHARE_FETCH: handle_share_fetch,
    ApiKey.SHARE_ACKNOWLEDGE: handle_share_acknowledge,
    ApiKey.LIST_GROUPS: _of_groups(handle_list_groups),
    ApiKey.API_VERSIONS: handle_api_versions,
    ApiKey.CREATE_TOPICS: handle_create_topics,
    ApiKey.DELETE_TOPICS: handle_delete_topics,
    ApiKey.DELETE_RECORDS: handle_delete_records,
    ApiKey.INIT_PRODUCER_ID: handle_init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda parts, context, request: handle_add_partitions_to_txn(
        parts.transactions, partial(refusal_of_partition, parts.topics), context, request
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: lambda parts, context, request: handle_add_offsets_to_txn(
        parts.transactions, parts.groups, context, request
    ),
    ApiKey.END_TXN: lambda parts, context, request: handle_end_txn(parts.transactions, context, request),
    ApiKey.WRITE_TXN_MARKERS: lambda parts, _, request: handle_write_txn_markers(parts.markers, request),
    ApiKey.TXN_OFFSET_COMMIT: lambda parts, context, request: handle_txn_offset_commit(
        parts.transactions, parts.groups, context, request
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: handle_offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: handle_describe_configs,
    ApiKey.ALTER_CONFIGS: handle_alter_configs,
    ApiKey.CREATE_PARTITIONS: handle_create_partitions,
    ApiKey.DELETE_GROUPS: lambda parts, _, request: handle_delete_groups(
        parts.groups, request, partial(forget_shares_of, parts)
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: handle_describe_share_group_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: handle_alter_share_group_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: handle_delete_share_group_offsets,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: handle_incremental_alter_configs,
    ApiKey.OFFSET_DELETE: _of_groups(handle_offset_delete),
    ApiKey.DESCRIBE_CLUSTER: handle_describe_cluster,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: handle_describe_topic_partitions,
    ApiKey.DESCRIBE_TRANSACTIONS: lambda parts, _, request: handle_describe_transactions(
        parts.transactions, request
    ),
    ApiKey.LIST_TRANSACTIONS: lambda parts, _, request: handle_list_transactions(
        parts.transactions, parts.clock.now_ms(), request
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: handle_alter_partition_reassignments,
    ApiKey.UNREGISTER_BROKER: handle_unregister_broker,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: handle_list_partition_reassignments,
    ApiKey.LIST_CONFIG_RESOURCES: handle_list_config_resources,
    ApiKey.ELECT_LEADERS: handle_elect_leaders,
    ApiKey.DESCRIBE_QUORUM: handle_describe_quorum,
    ApiKey.DESCRIBE_PRODUCERS: handle_describe_producers,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: handle_describe_user_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: handle_alter_user_scram_credentials,
    ApiKey.DESCRIBE_LOG_DIRS: handle_describe_log_dirs,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: handle_describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: handle_alter_client_quotas,
    ApiKey.DESCRIBE_ACLS: handle_describe_acls,
    ApiKey.CREATE_ACLS: handle_create_acls,
    ApiKey.DELETE_ACLS: handle_delete_acls,
}

APIS: Mapping[ApiKey, Api] = {key: Api(CATALOGUE[key][0], handle) for key, handle in _HANDLERS.items()}
