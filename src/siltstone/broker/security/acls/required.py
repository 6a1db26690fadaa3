"""API → the rights that it asks for, and the answer to a client that lacks one: Kafka's KafkaApis, ControllerApis and
ConfigHelper as data. ``security.gates`` and four handlers do what stands here; a test holds them against it."""

from collections.abc import Mapping

import msgspec

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.acls import Operation, ResourceType

_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_CLUSTER, _TRANSACTIONAL_ID = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID


class Requirement(msgspec.Struct, frozen=True):
    """``denied``: the code of what is denied; None: it is left out of the answer in silence, or another requirement of
    the API does as well."""

    operation: Operation
    resource_type: ResourceType
    denied: ErrorCode | None = None


def _topic(operation: Operation) -> Requirement:
    return Requirement(operation, _TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _group(operation: Operation) -> Requirement:
    return Requirement(operation, _GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _cluster(operation: Operation) -> Requirement:
    return Requirement(operation, _CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _transactional_id(operation: Operation) -> Requirement:
    return Requirement(operation, _TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


_MEMBER = (_group(Operation.READ),)

REQUIRED: Mapping[ApiKey, tuple[Requirement, ...]] = {
    ApiKey.PRODUCE: (_topic(Operation.WRITE), _transactional_id(Operation.WRITE)),
    ApiKey.FETCH: (_topic(Operation.READ), Requirement(Operation.CLUSTER_ACTION, _CLUSTER)),
    ApiKey.LIST_OFFSETS: (_topic(Operation.DESCRIBE),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (_topic(Operation.DESCRIBE),),
    ApiKey.METADATA: (
        _topic(Operation.DESCRIBE), Requirement(Operation.CREATE, _CLUSTER), _topic(Operation.CREATE),
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (_topic(Operation.DESCRIBE),),
    ApiKey.DESCRIBE_CLUSTER: (),
    ApiKey.API_VERSIONS: (),
    ApiKey.SASL_HANDSHAKE: (),
    ApiKey.SASL_AUTHENTICATE: (),
    ApiKey.CREATE_TOPICS: (
        Requirement(Operation.CREATE, _CLUSTER), _topic(Operation.CREATE), _topic(Operation.DESCRIBE_CONFIGS),
    ),
    ApiKey.DELETE_TOPICS: (
        Requirement(Operation.DELETE, _CLUSTER), _topic(Operation.DELETE), Requirement(Operation.DESCRIBE, _TOPIC),
    ),
    ApiKey.CREATE_PARTITIONS: (_topic(Operation.ALTER),),
    ApiKey.DELETE_RECORDS: (_topic(Operation.DELETE),),
    ApiKey.DESCRIBE_PRODUCERS: (_topic(Operation.READ),),
    ApiKey.DESCRIBE_CONFIGS: (
        _topic(Operation.DESCRIBE_CONFIGS), _group(Operation.DESCRIBE_CONFIGS),
        _cluster(Operation.DESCRIBE_CONFIGS),
    ),
    ApiKey.ALTER_CONFIGS: (
        _topic(Operation.ALTER_CONFIGS), _group(Operation.ALTER_CONFIGS), _cluster(Operation.ALTER_CONFIGS),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        _topic(Operation.ALTER_CONFIGS), _group(Operation.ALTER_CONFIGS), _cluster(Operation.ALTER_CONFIGS),
    ),
    ApiKey.JOIN_GROUP: _MEMBER,
    ApiKey.SYNC_GROUP: _MEMBER,
    ApiKey.HEARTBEAT: _MEMBER,
    ApiKey.LEAVE_GROUP: _MEMBER,
    ApiKey.OFFSET_COMMIT: (_group(Operation.READ), _topic(Operation.READ)),
    ApiKey.OFFSET_FETCH: (_group(Operation.DESCRIBE), _topic(Operation.DESCRIBE)),
    ApiKey.OFFSET_DELETE: (_group(Operation.DELETE), _topic(Operation.READ)),
    ApiKey.FIND_COORDINATOR: (_group(Operation.DESCRIBE), _transactional_id(Operation.DESCRIBE)),
    ApiKey.DESCRIBE_GROUPS: (_group(Operation.DESCRIBE),),
    ApiKey.LIST_GROUPS: (Requirement(Operation.DESCRIBE, _CLUSTER), Requirement(Operation.DESCRIBE, _GROUP)),
    ApiKey.DELETE_GROUPS: (_group(Operation.DELETE),),
    ApiKey.INIT_PRODUCER_ID: (
        Requirement(Operation.IDEMPOTENT_WRITE, _CLUSTER),
        Requirement(Operation.WRITE, _TOPIC, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        _transactional_id(Operation.WRITE),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _transactional_id(Operation.WRITE), _topic(Operation.WRITE), _cluster(Operation.CLUSTER_ACTION),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (_transactional_id(Operation.WRITE), _group(Operation.READ)),
    ApiKey.END_TXN: (_transactional_id(Operation.WRITE),),
    ApiKey.TXN_OFFSET_COMMIT: (
        _transactional_id(Operation.WRITE), _group(Operation.READ), _topic(Operation.READ),
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        _transactional_id(Operation.DESCRIBE), Requirement(Operation.DESCRIBE, _TOPIC),
    ),
    ApiKey.LIST_TRANSACTIONS: (Requirement(Operation.DESCRIBE, _TRANSACTIONAL_ID),),
    ApiKey.WRITE_TXN_MARKERS: (_cluster(Operation.CLUSTER_ACTION),),
    ApiKey.ELECT_LEADERS: (_cluster(Operation.ALTER),),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_cluster(Operation.ALTER),),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (_cluster(Operation.DESCRIBE),),
    ApiKey.UNREGISTER_BROKER: (_cluster(Operation.ALTER),),
    ApiKey.DESCRIBE_QUORUM: (_cluster(Operation.DESCRIBE),),
    ApiKey.DESCRIBE_LOG_DIRS: (_cluster(Operation.DESCRIBE),),
    ApiKey.LIST_CONFIG_RESOURCES: (_cluster(Operation.DESCRIBE_CONFIGS),),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (_cluster(Operation.DESCRIBE_CONFIGS),),
    ApiKey.ALTER_CLIENT_QUOTAS: (_cluster(Operation.ALTER_CONFIGS),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (_cluster(Operation.DESCRIBE),),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (_cluster(Operation.ALTER),),
    ApiKey.DESCRIBE_ACLS: (_cluster(Operation.DESCRIBE),),
    ApiKey.CREATE_ACLS: (_cluster(Operation.ALTER),),
    ApiKey.DELETE_ACLS: (_cluster(Operation.ALTER),),
}  # fmt: skip

TOPIC_OPERATIONS = (
    Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
)  # fmt: skip
CLUSTER_OPERATIONS = (
    Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE,
)  # fmt: skip
"""The operations of which answers with bits say whether they are allowed."""
