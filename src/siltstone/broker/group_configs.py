"""What is configured for one group: Kafka's names, defaults and limits, stored as a key of the metadata. Pure.

What a group does not set comes from the settings of the node (``groups.settings``), or is Kafka's default. A group with
a configuration has ``GroupSettings`` of its own: the rules of groups read nothing else.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from siltstone.broker.groups.settings import GroupSettings
from siltstone.model.errors import InvalidRequest

_PREFIX = "group-config/"
_DURATION = re.compile(r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.\d+)?S)?)?")
_UNIT_MS = (86_400_000, 3_600_000, 60_000, 1_000)

OFFSET_RESET, ISOLATION_LEVEL = "share.auto.offset.reset", "share.isolation.level"
EARLIEST, LATEST = "earliest", "latest"
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
CONSUMER_HEARTBEATS = "consumer.heartbeat.interval.ms"

CONFIGURED_GROUPS_MAX = 1_000
"""Groups whose settings are remembered; those of a group beyond that are made again with each request."""


class GroupConfigRow(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration of a group. ``setting``: the setting of the node that counts where a group sets nothing; None if
    there is none, and ``default`` counts. ``low`` and ``high``: Kafka's limits of a number that a group sets."""

    name: str
    documentation: str
    setting: str | None = None
    default: str = ""
    low: int = 0
    high: int = 0

    @property
    def is_number(self) -> bool:
        return self.setting is not None


ROWS = {
    row.name: row
    for row in (
        GroupConfigRow(
            name="consumer.assignment.interval.ms",
            setting="group_consumer_assignment_interval_ms", low=0, high=15_000,
            documentation="How far apart the assignments of a group of KIP-848 are at least.",
        ),
        GroupConfigRow(
            name=CONSUMER_HEARTBEATS,
            setting="group_consumer_heartbeat_interval_ms", low=5_000, high=15_000,
            documentation="The interval at which the members of a group of KIP-848 send heartbeats.",
        ),
        GroupConfigRow(
            name="consumer.session.timeout.ms",
            setting="group_consumer_session_timeout_ms", low=45_000, high=60_000,
            documentation="When a silent member of a group of KIP-848 is removed.",
        ),
        GroupConfigRow(
            name=OFFSET_RESET, default=LATEST,
            documentation="Where a share group begins in a partition that it has not used.",
        ),
        GroupConfigRow(
            name="share.delivery.count.limit",
            setting="group_share_delivery_count_limit", low=2, high=10,
            documentation="How often a record is delivered before a share group gives it up.",
        ),
        GroupConfigRow(
            name="share.heartbeat.interval.ms",
            setting="group_share_heartbeat_interval_ms", low=5_000, high=15_000,
            documentation="The interval at which the members of a share group send heartbeats.",
        ),
        GroupConfigRow(
            name=ISOLATION_LEVEL, default=READ_UNCOMMITTED,
            documentation="Whether a share group reads the records of transactions that are not committed.",
        ),
        GroupConfigRow(
            name="share.partition.max.record.locks",
            setting="group_share_partition_max_record_locks", low=100, high=4_000,
            documentation="How many records of a partition may be in flight in a share group.",
        ),
        GroupConfigRow(
            name="share.record.lock.duration.ms",
            setting="group_share_record_lock_duration_ms", low=15_000, high=60_000,
            documentation="How long a record belongs to the member of a share group that has acquired it.",
        ),
        GroupConfigRow(
            name="share.session.timeout.ms",
            setting="group_share_session_timeout_ms", low=45_000, high=60_000,
            documentation="When a silent member of a share group is removed.",
        ),
    )
}  # fmt: skip
"""The configurations by name, in the order of the names."""


class InvalidGroupConfig(InvalidRequest):
    """A configuration of a group has a name or a value that is not allowed."""


class ShareConfig(msgspec.Struct, frozen=True):
    """``reset``: where a group begins in a partition that it has not used: latest, earliest or by_duration."""

    lock_ms: int
    deliveries_max: int
    locks_max: int
    reset: str = LATEST
    reads_committed: bool = False


def key_of_group(group_id: str) -> str:
    """Returns the key of the metadata that has the group's configuration."""
    return f"{_PREFIX}{group_id}"


def stored_configs(stored: bytes | None) -> dict[str, str]:
    return {} if stored is None else msgspec.json.decode(stored, type=dict[str, str])


def written_group_configs(configs: Mapping[str, str]) -> bytes:
    return msgspec.json.encode(dict(sorted(configs.items())))


def check_config(name: str, value: str) -> None:
    """Raises InvalidGroupConfig."""
    row = ROWS.get(name)
    if row is None:
        raise InvalidGroupConfig(
            f"groups have no configuration {name[:100]!r} here: there are {', '.join(ROWS)}"
        )
    if row.is_number:
        if not value.strip().isdecimal() or not row.low <= int(value) <= row.high:
            raise InvalidGroupConfig(
                f"{name} is {value[:50]!r}: it must be a number from {row.low} to {row.high}"
            )
    elif name == ISOLATION_LEVEL:
        if value not in (READ_COMMITTED, READ_UNCOMMITTED):
            raise InvalidGroupConfig(
                f"{name} is {value[:50]!r}: it must be {READ_COMMITTED} or {READ_UNCOMMITTED}"
            )
    elif value not in (EARLIEST, LATEST) and duration_ms(value) is None:
        raise InvalidGroupConfig(
            f"{name} is {value[:50]!r}: it must be {EARLIEST}, {LATEST} or by_duration:<duration>, such as "
            "by_duration:PT1H"
        )


def duration_ms(reset: str) -> int | None:
    """Returns the duration of a reset that counts back from now; None for every other value."""
    found = _DURATION.fullmatch(reset)
    if found is None or not any(found.groups()):
        return None
    return sum(int(number or 0) * unit for number, unit in zip(found.groups(), _UNIT_MS, strict=True))


def settings_of_group(settings: GroupSettings, stored: bytes | None) -> GroupSettings:
    """Returns the settings of the node with what a group sets in their place."""
    return settings if stored is None else _configured(settings, stored)


@lru_cache(CONFIGURED_GROUPS_MAX)
def _configured(settings: GroupSettings, stored: bytes) -> GroupSettings:
    numbers = {
        row.setting: int(value)
        for name, value in stored_configs(stored).items()
        if (row := ROWS.get(name)) is not None and row.setting is not None
    }
    if (
        ROWS[CONSUMER_HEARTBEATS].setting in numbers
    ):  # the members are told what the group sets, and nothing shorter
        numbers["group_consumer_shortest_heartbeat_interval_ms"] = numbers[
            "group_consumer_heartbeat_interval_ms"
        ]
    return replace(settings, **numbers)


def share_config(settings: GroupSettings, stored: bytes | None) -> ShareConfig:
    configs, own = stored_configs(stored), settings_of_group(settings, stored)
    return ShareConfig(
        lock_ms=own.group_share_record_lock_duration_ms,
        deliveries_max=own.group_share_delivery_count_limit,
        locks_max=own.group_share_partition_max_record_locks,
        reset=configs.get(OFFSET_RESET, LATEST),
        reads_committed=configs.get(ISOLATION_LEVEL) == READ_COMMITTED,
    )
