"""The APIs and versions that the broker announces, and the ApiVersions responses that carry them.

The ranges are those of Kafka 4.3. Several begin at versions that no current client uses, because librdkafka before
2.11.1 looks for certain versions in the ranges to detect features: Fetch 4 and 10, version 0 of JoinGroup and the
other group APIs. Each response is encoded once per version and then reused. Read next: ``messages/api_versions.py``.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.codec import encode
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

ANNOUNCED: Mapping[ApiKey, tuple[int, int]] = MappingProxyType({
    # Versions 0 to 2 are announced and not supported: with a minimum of 3, librdkafka before 2.11.1 silently does not
    # compress (KAFKA-18659).
    ApiKey.PRODUCE: (0, 13),
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.SHARE_FETCH: (1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
    # Version 0 is announced and refused: librdkafka looks for exactly it to find out whether there are logins.
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    # Version 6 is still unstable in Kafka 4.3.
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    # Versions 4 and 5 are for nodes. Clients that take the newest version there is send them, too.
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 2),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0),
})  # fmt: skip


FEATURE_LEVELS = {"transaction.version": 2, "group.version": 1, "share.version": 1}
"""Clients that know the first raise the epoch of the producer with each transaction (KIP-890); the second are the
groups of KIP-848, the third share groups (KIP-932)."""

FEATURE_OF = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "group.version",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "group.version",
    ApiKey.SHARE_GROUP_HEARTBEAT: "share.version",
    ApiKey.SHARE_GROUP_DESCRIBE: "share.version",
    ApiKey.SHARE_FETCH: "share.version",
    ApiKey.SHARE_ACKNOWLEDGE: "share.version",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "share.version",
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "share.version",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "share.version",
}
"""These APIs are announced when all nodes have the feature: a group may be at any node."""

FEATURES_EPOCH, NO_FEATURES_EPOCH = 0, -1
"""It rises when a feature gets another level, which none has yet. Clients ignore the features below 0."""

SUPPORTS_FROM_ZERO_SINCE = 4
"""Older clients of ApiVersions refuse a feature that is supported from level 0 on (KAFKA-17011)."""


@cache
def api_versions_body(version: int, levels: tuple[int, ...] = tuple(FEATURE_LEVELS.values())) -> bytes:
    """The response body for an ApiVersions request in a supported version. ``levels``: the final level of each of
    FEATURE_LEVELS, 0 if not all nodes have it. Raises UnknownVersion."""
    final = dict(zip(FEATURE_LEVELS, levels, strict=True))
    supported = [
        SupportedFeatureKey(name=name, min_version=0, max_version=level)
        for name, level in FEATURE_LEVELS.items()
    ]
    finalized = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in final.items()
        if level
    ]
    missing = {key for key, name in FEATURE_OF.items() if not final[name]}
    response = ApiVersionsResponse(
        api_keys=[_row(key) for key in ANNOUNCED if key not in missing],
        supported_features=supported if version >= SUPPORTS_FROM_ZERO_SINCE else [],
        finalized_features_epoch=FEATURES_EPOCH if finalized else NO_FEATURES_EPOCH,
        finalized_features=finalized,
    )
    return encode(response, version)


@cache
def unsupported_version_body() -> bytes:
    """The response body for an ApiVersions request in a later, unknown version. It is written in version 0, which every
    client reads, and has one row: the versions of ApiVersions in which the client can ask again."""
    rows = [_row(ApiKey.API_VERSIONS)]
    return encode(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=rows), 0)


def _row(key: ApiKey) -> ApiVersion:
    lowest, highest = ANNOUNCED[key]
    return ApiVersion(api_key=key, min_version=lowest, max_version=highest)
