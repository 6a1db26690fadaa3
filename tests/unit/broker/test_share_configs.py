import pytest

from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.share_configs import (
    InvalidGroupConfig,
    ShareConfig,
    check_config,
    duration_ms,
    share_config,
    stored_configs,
    written_group_configs,
)


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
        ("consumer.session.timeout.ms", "45000"),
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
