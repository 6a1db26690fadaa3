"""The broker's settings, as frozen values. They have Kafka's names where Kafka has one, with underscores for dots.

Defaults that are limits are in ``model.limits``, each with its reason.
"""

import msgspec

from siltstone.model import limits, serving_limits
from siltstone.model.acls import AuthorizationMode
from siltstone.model.audit import AuditLevel
from siltstone.model.errors import InvalidRequest


class InvalidBrokerSetting(InvalidRequest):
    """A setting of the broker has a value that is not allowed."""


class BrokerSettings(msgspec.Struct, frozen=True):
    """``rack``: the place of this node, such as a zone; leaders are spread over racks. ``topic_defaults``: topic
    configurations, such as retention.ms, for topics that do not set them. ``authorization``: the node does not start on
    a store whose mode is less strict. ``audit``: what this node writes to the topic of the audit."""

    rack: str = ""
    auto_create_topics_enable: bool = True
    num_partitions: int = 1
    partitions_max: int = serving_limits.PARTITIONS_MAX
    default_replication_factor: int = 1
    offsets_topic_num_partitions: int = limits.OFFSETS_TOPIC_PARTITIONS
    transaction_state_log_num_partitions: int = limits.TRANSACTION_STATE_PARTITIONS
    transaction_max_timeout_ms: int = limits.TRANSACTION_TIMEOUT_MS_MAX
    transactional_id_expiration_ms: int = limits.TRANSACTIONAL_ID_EXPIRATION_MS
    fetch_max_bytes: int = limits.FETCH_BYTES_MAX
    fetch_sessions_max: int = limits.FETCH_SESSIONS_MAX
    producer_id_expiration_ms: int = limits.PRODUCER_ID_EXPIRATION_MS
    producers_per_partition_max: int = limits.PRODUCERS_PER_PARTITION_MAX
    partition_snapshot_bytes: int = limits.PARTITION_SNAPSHOT_BYTES
    group_progress_interval_ms: int = limits.GROUP_PROGRESS_INTERVAL_MS
    backlog_quota_check_interval_ms: int = limits.BACKLOG_QUOTA_CHECK_INTERVAL_MS
    message_ttl_check_interval_ms: int = limits.MESSAGE_TTL_CHECK_INTERVAL_MS
    authorization: AuthorizationMode = AuthorizationMode.OFF
    audit: AuditLevel = AuditLevel.OFF
    security_stale_ms_max: int = serving_limits.SECURITY_STALE_MS_MAX
    topic_defaults: dict[str, str] = {}

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise InvalidBrokerSetting(f"broker.{name} is {value}: it must be at least 1")
