"""API → the rights that it asks for, and the answer to a client that lacks one: Kafka's KafkaApis, ControllerApis and
ConfigHelper as data. ``security.gates`` and four handlers do what stands here; a test holds them against it."""

from collections.abc import Mapping

import msgspec

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.acls import AclOperation, AclResourceType

_TOPIC, _GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
_CLUSTER, _TRANSACTIONAL_ID = AclResourceType.CLUSTER, AclResourceType.TRANSACTIONAL_ID


class Requirement(msgspec.Struct, frozen=True):
    """``denied``: the code of what is denied; None: it is left out of the answer in silence, or another requirement of
    the API does as well."""

    operation: AclOperation
    resource_type: AclResourceType
    denied: ErrorCode | None = None


def _topic(operation: AclOperation) -> Requirement:
    return Requirement(operation, _TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _group(operation: AclOperation) -> Requirement:
    return Requirement(operation, _GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _cluster(operation: AclOperation) -> Requirement:
    return Requirement(operation, _CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _transactional_id(operation: AclOperation) -> Requirement:
    return Requirement(operation, _TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


_MEMBER = (_group(AclOperation.READ),)

REQUIRED: Mapping[ApiKey, tuple[Requirement, ...]] = {
    ApiKey.PRODUCE: (_topic(AclOperation.WRITE), _transactional_id(AclOperation.WRITE)),
    ApiKey.FETCH: (_topic(AclOperation.READ), Requirement(AclOperation.CLUSTER_ACTION, _CLUSTER)),
    ApiKey.LIST_OFFSETS: (_topic(AclOperation.DESCRIBE),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        Requirement(AclOperation.CLUSTER_ACTION, _CLUSTER), _topic(AclOperation.DESCRIBE),
    ),
    ApiKey.METADATA: (
        _topic(AclOperation.DESCRIBE), Requirement(AclOperation.CREATE, _CLUSTER), _topic(AclOperation.CREATE),
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (_topic(AclOperation.DESCRIBE),),
    ApiKey.DESCRIBE_CLUSTER: (),
    ApiKey.API_VERSIONS: (),
    ApiKey.SASL_HANDSHAKE: (),
    ApiKey.SASL_AUTHENTICATE: (),
    ApiKey.CREATE_TOPICS: (
        Requirement(AclOperation.CREATE, _CLUSTER), _topic(AclOperation.CREATE), _topic(AclOperation.DESCRIBE_CONFIGS),
    ),
    ApiKey.DELETE_TOPICS: (
        Requirement(AclOperation.DELETE, _CLUSTER), _topic(AclOperation.DELETE),
        Requirement(AclOperation.DESCRIBE, _TOPIC),
    ),
    ApiKey.CREATE_PARTITIONS: (_topic(AclOperation.ALTER),),
    ApiKey.DELETE_RECORDS: (_topic(AclOperation.DELETE),),
    ApiKey.DESCRIBE_PRODUCERS: (_topic(AclOperation.READ),),
    ApiKey.DESCRIBE_CONFIGS: (
        _topic(AclOperation.DESCRIBE_CONFIGS), _group(AclOperation.DESCRIBE_CONFIGS),
        _cluster(AclOperation.DESCRIBE_CONFIGS),
    ),
    ApiKey.ALTER_CONFIGS: (
        _topic(AclOperation.ALTER_CONFIGS), _group(AclOperation.ALTER_CONFIGS), _cluster(AclOperation.ALTER_CONFIGS),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        _topic(AclOperation.ALTER_CONFIGS), _group(AclOperation.ALTER_CONFIGS), _cluster(AclOperation.ALTER_CONFIGS),
    ),
    ApiKey.JOIN_GROUP: _MEMBER,
    ApiKey.SYNC_GROUP: _MEMBER,
    ApiKey.HEARTBEAT: _MEMBER,
    ApiKey.LEAVE_GROUP: _MEMBER,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (_group(AclOperation.READ), _topic(AclOperation.DESCRIBE)),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (_group(AclOperation.DESCRIBE), _topic(AclOperation.DESCRIBE)),
    ApiKey.SHARE_GROUP_HEARTBEAT: (_group(AclOperation.READ), _topic(AclOperation.DESCRIBE)),
    ApiKey.SHARE_GROUP_DESCRIBE: (_group(AclOperation.DESCRIBE), _topic(AclOperation.DESCRIBE)),
    ApiKey.SHARE_FETCH: (_group(AclOperation.READ), _topic(AclOperation.READ)),
    ApiKey.SHARE_ACKNOWLEDGE: (_group(AclOperation.READ), _topic(AclOperation.READ)),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (_group(AclOperation.DESCRIBE), _topic(AclOperation.DESCRIBE)),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (_group(AclOperation.READ), _topic(AclOperation.READ)),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (_group(AclOperation.DELETE), _topic(AclOperation.READ)),
    ApiKey.OFFSET_COMMIT: (_group(AclOperation.READ), _topic(AclOperation.READ)),
    ApiKey.OFFSET_FETCH: (_group(AclOperation.DESCRIBE), _topic(AclOperation.DESCRIBE)),
    ApiKey.OFFSET_DELETE: (_group(AclOperation.DELETE), _topic(AclOperation.READ)),
    ApiKey.FIND_COORDINATOR: (_group(AclOperation.DESCRIBE), _transactional_id(AclOperation.DESCRIBE)),
    ApiKey.DESCRIBE_GROUPS: (_group(AclOperation.DESCRIBE),),
    ApiKey.LIST_GROUPS: (Requirement(AclOperation.DESCRIBE, _CLUSTER), Requirement(AclOperation.DESCRIBE, _GROUP)),
    ApiKey.DELETE_GROUPS: (_group(AclOperation.DELETE),),
    ApiKey.INIT_PRODUCER_ID: (
        Requirement(AclOperation.IDEMPOTENT_WRITE, _CLUSTER),
        Requirement(AclOperation.WRITE, _TOPIC, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        _transactional_id(AclOperation.WRITE),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _transactional_id(AclOperation.WRITE), _topic(AclOperation.WRITE), _cluster(AclOperation.CLUSTER_ACTION),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (_transactional_id(AclOperation.WRITE), _group(AclOperation.READ)),
    ApiKey.END_TXN: (_transactional_id(AclOperation.WRITE),),
    ApiKey.TXN_OFFSET_COMMIT: (
        _transactional_id(AclOperation.WRITE), _group(AclOperation.READ), _topic(AclOperation.READ),
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        _transactional_id(AclOperation.DESCRIBE), Requirement(AclOperation.DESCRIBE, _TOPIC),
    ),
    ApiKey.LIST_TRANSACTIONS: (Requirement(AclOperation.DESCRIBE, _TRANSACTIONAL_ID),),
    ApiKey.WRITE_TXN_MARKERS: (
        Requirement(AclOperation.ALTER, _CLUSTER), _cluster(AclOperation.CLUSTER_ACTION),
    ),
    ApiKey.ELECT_LEADERS: (_cluster(AclOperation.ALTER),),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_cluster(AclOperation.ALTER),),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (_cluster(AclOperation.DESCRIBE),),
    ApiKey.UNREGISTER_BROKER: (_cluster(AclOperation.ALTER),),
    ApiKey.DESCRIBE_QUORUM: (_cluster(AclOperation.DESCRIBE),),
    ApiKey.DESCRIBE_LOG_DIRS: (_cluster(AclOperation.DESCRIBE),),
    ApiKey.LIST_CONFIG_RESOURCES: (_cluster(AclOperation.DESCRIBE_CONFIGS),),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (_cluster(AclOperation.DESCRIBE_CONFIGS),),
    ApiKey.ALTER_CLIENT_QUOTAS: (_cluster(AclOperation.ALTER_CONFIGS),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (_cluster(AclOperation.DESCRIBE),),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (_cluster(AclOperation.ALTER),),
    ApiKey.DESCRIBE_ACLS: (_cluster(AclOperation.DESCRIBE),),
    ApiKey.CREATE_ACLS: (_cluster(AclOperation.ALTER),),
    ApiKey.DELETE_ACLS: (_cluster(AclOperation.ALTER),),
}  # fmt: skip

TOPIC_OPERATIONS = (
    AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER,
    AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS,
)  # fmt: skip
CLUSTER_OPERATIONS = (
    AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS, AclOperation.IDEMPOTENT_WRITE,
)  # fmt: skip
"""An answer with bits says which of these operations the client may do."""
