"""Settings of groups: Kafka's defaults under Kafka's names."""

import pytest

from siltstone.broker.groups.settings import GroupSettings, InvalidGroupSetting

KAFKAS = {  # GroupCoordinatorConfig of Apache Kafka 4
    "group_initial_rebalance_delay_ms": 3000,
    "group_min_session_timeout_ms": 6000,
    "group_max_session_timeout_ms": 1800000,
    "group_max_size": 2147483647,
    "offset_metadata_max_bytes": 4096,
    "offsets_retention_minutes": 10080,
    "offsets_retention_check_interval_ms": 600000,
}


@pytest.mark.parametrize(("name", "value"), KAFKAS.items())
def test_defaults_are_kafkas(name: str, value: int) -> None:
    assert getattr(GroupSettings(), name) == value


@pytest.mark.parametrize(
    ("members", "interval_ms"), [(1, 1_000), (50, 1_000), (51, 1_020), (249, 4_980), (10_000, 5_000)]
)
def test_the_interval_of_heartbeats_follows_from_the_members(members: int, interval_ms: int) -> None:
    assert GroupSettings().heartbeat_interval_ms(members) == interval_ms
    assert GroupSettings(group_consumer_heartbeat_interval_ms=500).heartbeat_interval_ms(members) == 500
    steady = GroupSettings(group_consumer_shortest_heartbeat_interval_ms=5_000)
    assert steady.heartbeat_interval_ms(members) == 5_000


def test_retention_in_milliseconds() -> None:
    assert GroupSettings(offsets_retention_minutes=2).offsets_retention_ms == 120_000


MAY_BE_ZERO = {
    "group_initial_rebalance_delay_ms",
    "group_consumer_assignment_interval_ms",
    "offset_metadata_max_bytes",
}


@pytest.mark.parametrize("name", GroupSettings.__struct_fields__)
def test_values_that_cannot_work_are_refused(name: str) -> None:
    least = 0 if name in MAY_BE_ZERO else 1
    with pytest.raises(InvalidGroupSetting, match=name):
        GroupSettings(**{name: least - 1})
    if name != "group_max_session_timeout_ms":
        assert getattr(GroupSettings(**{name: least}), name) == least


def test_the_bounds_of_session_timeouts_do_not_cross() -> None:
    with pytest.raises(InvalidGroupSetting, match="must be at most"):
        GroupSettings(group_min_session_timeout_ms=10, group_max_session_timeout_ms=9)
