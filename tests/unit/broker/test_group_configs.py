import pytest

from siltstone.broker.group_configs import (
    InvalidGroupConfig,
    ShareConfig,
    check_config,
    duration_ms,
    settings_of_group,
    share_config,
    stored_configs,
    written_group_configs,
)
from siltstone.broker.groups.settings import GroupSettings


def test_a_group_without_a_configuration_has_that_of_the_node():
    assert share_config(GroupSettings(), None) == ShareConfig(30_000, 5, 2_000, "latest", False)


def test_what_a_group_sets_counts():
    configs = {
        "share.record.lock.duration.ms": "20000",
        "share.delivery.count.limit": "3",
        "share.partition.max.record.locks": "100",
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed",
    }
    for name, value in configs.items():
        check_config(name, value)
    stored = written_group_configs(configs)
    assert stored_configs(stored) == configs
    assert share_config(GroupSettings(), stored) == ShareConfig(20_000, 3, 100, "earliest", True)


def test_a_group_that_sets_nothing_has_the_settings_of_the_node():
    settings = GroupSettings()
    assert settings_of_group(settings, None) is settings
    assert (
        settings_of_group(settings, written_group_configs({"share.auto.offset.reset": "latest"})) == settings
    )


def test_the_settings_of_a_group_are_those_of_the_node_but_for_what_it_sets():
    configs = {
        "consumer.session.timeout.ms": "60000",
        "consumer.heartbeat.interval.ms": "15000",
        "consumer.assignment.interval.ms": "0",
        "share.session.timeout.ms": "50000",
        "share.heartbeat.interval.ms": "6000",
    }
    for name, value in configs.items():
        check_config(name, value)
    node = GroupSettings(group_consumer_max_size=7)
    assert settings_of_group(node, written_group_configs(configs)) == GroupSettings(
        group_consumer_max_size=7,
        group_consumer_session_timeout_ms=60_000,
        group_consumer_heartbeat_interval_ms=15_000,
        group_consumer_shortest_heartbeat_interval_ms=15_000,
        group_consumer_assignment_interval_ms=0,
        group_share_session_timeout_ms=50_000,
        group_share_heartbeat_interval_ms=6_000,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.record.lock.duration.ms", "14999"),
        ("share.record.lock.duration.ms", "60001"),
        ("share.delivery.count.limit", "many"),
        ("share.delivery.count.limit", "11"),
        ("share.partition.max.record.locks", "-100"),
        ("share.auto.offset.reset", "none"),
        ("share.auto.offset.reset", "by_duration:P"),
        ("share.isolation.level", "serializable"),
        ("consumer.session.timeout.ms", "44999"),
        ("consumer.session.timeout.ms", "70000"),
        ("consumer.heartbeat.interval.ms", "4999"),
        ("consumer.heartbeat.interval.ms", "15001"),
        ("consumer.assignment.interval.ms", "-1"),
        ("consumer.assignment.interval.ms", "15001"),
        ("consumer.assignor.offload.enable", "true"),
        ("share.session.timeout.ms", "60001"),
        ("share.heartbeat.interval.ms", "4999"),
        ("streams.session.timeout.ms", "45000"),
    ],
)
def test_what_is_not_allowed_is_named(name, value):
    with pytest.raises(InvalidGroupConfig, match=name):
        check_config(name, value)


@pytest.mark.parametrize(
    ("text", "found"),
    [("P1D", 86_400_000), ("PT1H", 3_600_000), ("P1DT2M3.5S", 86_523_000), ("1H", None), ("PT", None)],
)
def test_durations(text, found):
    assert duration_ms(f"by_duration:{text}") == found
