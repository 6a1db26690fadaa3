"""Defines the settings of consumer groups: Kafka's names (dots become underscores) and defaults, and a few of
Siltstone's own. ``model.limits`` has the default of each and the reason for it."""

from enum import StrEnum

import msgspec

from siltstone.model import limits, serving_limits
from siltstone.model.errors import InvalidRequest

_MAY_BE_ZERO = frozenset(
    {
        "group_initial_rebalance_delay_ms",
        "group_consumer_assignment_interval_ms",
        "offset_metadata_max_bytes",
    }
)


class InvalidGroupSetting(InvalidRequest):
    """A setting of consumer groups has a value that is not allowed."""


class MigrationPolicy(StrEnum):
    """Whether a group with members may change between the classic protocol and that of KIP-848."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"


class GroupSettings(msgspec.Struct, frozen=True):
    group_initial_rebalance_delay_ms: int = serving_limits.GROUP_INITIAL_REBALANCE_DELAY_MS
    group_min_session_timeout_ms: int = serving_limits.GROUP_SESSION_TIMEOUT_MS_MIN
    group_max_session_timeout_ms: int = serving_limits.GROUP_SESSION_TIMEOUT_MS_MAX
    group_max_size: int = serving_limits.GROUP_MEMBERS_MAX
    new_member_join_timeout_ms: int = serving_limits.GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS
    group_consumer_session_timeout_ms: int = serving_limits.CONSUMER_SESSION_TIMEOUT_MS
    group_consumer_heartbeat_interval_ms: int = serving_limits.CONSUMER_HEARTBEAT_INTERVAL_MS
    group_consumer_shortest_heartbeat_interval_ms: int = (
        serving_limits.CONSUMER_SHORTEST_HEARTBEAT_INTERVAL_MS
    )
    group_consumer_assignment_interval_ms: int = serving_limits.CONSUMER_ASSIGNMENT_INTERVAL_MS
    group_consumer_regex_refresh_interval_ms: int = serving_limits.CONSUMER_REGEX_REFRESH_INTERVAL_MS
    group_consumer_max_size: int = serving_limits.GROUP_MEMBERS_MAX
    group_consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    group_share_session_timeout_ms: int = serving_limits.SHARE_SESSION_TIMEOUT_MS
    group_share_heartbeat_interval_ms: int = serving_limits.SHARE_HEARTBEAT_INTERVAL_MS
    group_share_max_size: int = serving_limits.SHARE_GROUP_MEMBERS_MAX
    group_share_record_lock_duration_ms: int = serving_limits.SHARE_RECORD_LOCK_DURATION_MS
    group_share_delivery_count_limit: int = serving_limits.SHARE_DELIVERIES_MAX
    group_share_partition_max_record_locks: int = serving_limits.SHARE_RECORD_LOCKS_MAX
    group_share_max_share_sessions: int = serving_limits.SHARE_SESSIONS_MAX
    offset_metadata_max_bytes: int = serving_limits.OFFSET_METADATA_BYTES_MAX
    offsets_retention_minutes: int = serving_limits.OFFSETS_RETENTION_MINUTES
    offsets_retention_check_interval_ms: int = serving_limits.OFFSETS_RETENTION_CHECK_INTERVAL_MS
    group_bytes_max: int = serving_limits.GROUP_BYTES_MAX
    groups_bytes_max: int = serving_limits.GROUPS_BYTES_MAX
    checkpoint_records_min: int = serving_limits.GROUP_CHECKPOINT_RECORDS_MIN
    checkpoint_live_factor: int = serving_limits.GROUP_CHECKPOINT_LIVE_FACTOR

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value, least = getattr(self, name), 0 if name in _MAY_BE_ZERO else 1
            if isinstance(value, int) and value < least:
                raise InvalidGroupSetting(f"{name} is {value}: it must be at least {least}")
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise InvalidGroupSetting(
                f"group_min_session_timeout_ms is {self.group_min_session_timeout_ms}: it must be at most "
                f"group_max_session_timeout_ms, which is {self.group_max_session_timeout_ms}"
            )

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * limits.MINUTE_MS

    @property
    def allows_upgrade(self) -> bool:
        return self.group_consumer_migration_policy in {
            MigrationPolicy.BIDIRECTIONAL,
            MigrationPolicy.UPGRADE,
        }

    @property
    def allows_downgrade(self) -> bool:
        return self.group_consumer_migration_policy in {
            MigrationPolicy.BIDIRECTIONAL,
            MigrationPolicy.DOWNGRADE,
        }

    def heartbeat_interval_ms(self, members: int) -> int:
        """Returns the interval of heartbeats of groups of KIP-848. The fewer ``members`` this node has, the shorter it
        is, and the sooner a member hears what it has to give back or gets."""
        share_ms = members * limits.SECOND_MS // serving_limits.CONSUMER_HEARTBEATS_PER_SECOND
        wanted_ms = max(self.group_consumer_shortest_heartbeat_interval_ms, share_ms)
        return min(self.group_consumer_heartbeat_interval_ms, wanted_ms)
