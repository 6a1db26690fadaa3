"""API → its gate. An API without a row has no gate and is refused, so a new one is closed until somebody thinks of its
rights. ``acls.required`` says in data what the gates ask; a test holds the two against each other."""

from collections.abc import Mapping

from siltstone.broker.security.gates import cluster, groups, shares, topics, transactions
from siltstone.broker.security.gates.gate import Gate, open_gate
from siltstone.kafka_protocol.api_key import ApiKey

GATES: Mapping[int, Gate] = {
    # Their handlers ask by themselves, because what they find depends on it.
    ApiKey.METADATA: open_gate,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: open_gate,
    ApiKey.DESCRIBE_CLUSTER: open_gate,
    # They need no right.
    ApiKey.API_VERSIONS: open_gate,
    ApiKey.SASL_HANDSHAKE: open_gate,
    ApiKey.SASL_AUTHENTICATE: open_gate,
    # topics
    ApiKey.LIST_OFFSETS: topics.list_topic_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: topics.leader_epochs,
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.CREATE_PARTITIONS: topics.add_partitions,
    ApiKey.DELETE_RECORDS: topics.remove_records,
    ApiKey.DESCRIBE_PRODUCERS: topics.list_producers,
    ApiKey.DESCRIBE_CONFIGS: topics.describe_configs,
    ApiKey.ALTER_CONFIGS: topics.alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: topics.incremental_alter_configs,
    # groups
    ApiKey.JOIN_GROUP: groups.join_group,
    ApiKey.SYNC_GROUP: groups.sync_group,
    ApiKey.HEARTBEAT: groups.heartbeat,
    ApiKey.LEAVE_GROUP: groups.leave_group,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.consumer_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: groups.describe_consumers,
    ApiKey.SHARE_GROUP_HEARTBEAT: shares.share_heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: shares.describe_shares,
    ApiKey.SHARE_FETCH: shares.share_fetch,
    ApiKey.SHARE_ACKNOWLEDGE: shares.share_acknowledge,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: shares.describe_share_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: shares.alter_share_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: shares.delete_share_offsets,
    ApiKey.OFFSET_COMMIT: groups.offset_commit,
    ApiKey.OFFSET_FETCH: groups.fetch_offsets,
    ApiKey.OFFSET_DELETE: groups.delete_offsets,
    ApiKey.FIND_COORDINATOR: groups.find_coordinator,
    ApiKey.DESCRIBE_GROUPS: groups.describe,
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.DELETE_GROUPS: groups.delete,
    # transactions
    ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets,
    ApiKey.END_TXN: transactions.end_transaction,
    ApiKey.TXN_OFFSET_COMMIT: transactions.commit_offsets,
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.describe,
    ApiKey.LIST_TRANSACTIONS: transactions.list_transactions,
    # the cluster
    ApiKey.WRITE_TXN_MARKERS: cluster.write_markers,
    ApiKey.ELECT_LEADERS: cluster.elect,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster.reassign,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster.list_reassignments,
    ApiKey.UNREGISTER_BROKER: cluster.unregister_broker,
    ApiKey.DESCRIBE_QUORUM: cluster.describe_quorum,
    ApiKey.DESCRIBE_LOG_DIRS: cluster.describe_log_dirs,
    ApiKey.LIST_CONFIG_RESOURCES: cluster.list_config_resources,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster.describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: cluster.alter_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: cluster.describe_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster.alter_scram_credentials,
    ApiKey.DESCRIBE_ACLS: cluster.describe_acls,
    ApiKey.CREATE_ACLS: cluster.make_acls,
    ApiKey.DELETE_ACLS: cluster.remove_acls,
}
