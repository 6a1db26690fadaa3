"""What is configured for one share group: Kafka's names, defaults and limits, stored as a key of the metadata. Pure.

What a group does not set comes from the settings of the node (``groups.settings``), or is Kafka's default.
"""

import re
from collections.abc import Mapping

import msgspec

from siltstone.broker.groups.settings import GroupSettings
from siltstone.model.errors import InvalidRequest

_PREFIX = "group-config/"
_DURATION = re.compile(r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.\d+)?S)?)?")
_UNIT_MS = (86_400_000, 3_600_000, 60_000, 1_000)

OFFSET_RESET, ISOLATION_LEVEL = "share.auto.offset.reset", "share.isolation.level"
EARLIEST, LATEST = "earliest", "latest"
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
LOCK_DURATION, DELIVERIES = "share.record.lock.duration.ms", "share.delivery.count.limit"
RECORD_LOCKS = "share.partition.max.record.locks"

RANGES = {LOCK_DURATION: (15_000, 60_000), DELIVERIES: (2, 10), RECORD_LOCKS: (100, 4_000)}
"""Kafka's limits of what a group may set."""

NAMES = (OFFSET_RESET, ISOLATION_LEVEL, *RANGES)


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
    if name in RANGES:
        low, high = RANGES[name]
        if not value.strip().isdecimal() or not low <= int(value) <= high:
            raise InvalidGroupConfig(f"{name} is {value[:50]!r}: it must be a number from {low} to {high}")
    elif name == ISOLATION_LEVEL:
        if value not in (READ_COMMITTED, READ_UNCOMMITTED):
            raise InvalidGroupConfig(
                f"{name} is {value[:50]!r}: it must be {READ_COMMITTED} or {READ_UNCOMMITTED}"
            )
    elif name != OFFSET_RESET:
        raise InvalidGroupConfig(
            f"groups have no configuration {name[:100]!r} here: there are {', '.join(NAMES)}"
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


def share_config(settings: GroupSettings, stored: bytes | None) -> ShareConfig:
    configs = stored_configs(stored)
    return ShareConfig(
        lock_ms=int(configs.get(LOCK_DURATION, settings.group_share_record_lock_duration_ms)),
        deliveries_max=int(configs.get(DELIVERIES, settings.group_share_delivery_count_limit)),
        locks_max=int(configs.get(RECORD_LOCKS, settings.group_share_partition_max_record_locks)),
        reset=configs.get(OFFSET_RESET, LATEST),
        reads_committed=configs.get(ISOLATION_LEVEL) == READ_COMMITTED,
    )
