import msgspec
import pytest

from siltstone.broker.settings import BrokerSettings, InvalidBrokerSetting
from support.values.left_out import numbers_left_out


@pytest.mark.parametrize(
    "name",
    [
        field.name
        for field in msgspec.structs.fields(BrokerSettings)
        if isinstance(field.default, int) and not isinstance(field.default, bool)
    ],
)
def test_numbers_are_at_least_1(name):
    BrokerSettings(**{name: 1})
    for value in (0, -1):
        with pytest.raises(InvalidBrokerSetting, match=f"broker.{name} is {value}"):
            BrokerSettings(**{name: value})


def test_topics_may_be_made_by_hand_only():
    assert BrokerSettings(auto_create_topics_enable=False).auto_create_topics_enable is False


def test_what_is_left_out() -> None:
    assert (
        numbers_left_out(BrokerSettings).items()
        >= {"auto_create_topics_enable": True, "num_partitions": 1, "default_replication_factor": 1}.items()
    )
