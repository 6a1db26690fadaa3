import pytest

from siltstone.topic_configs.values import ConfigType, InvalidTopicConfig, parse, written


def test_a_megabyte_sent_by_mistake_does_not_come_back() -> None:
    with pytest.raises(InvalidTopicConfig) as refusal:
        parse("retention.ms", ConfigType.LONG, "9" * 1_000_000)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("kind", ConfigType)
def test_every_type_reads_back_what_it_writes(kind: ConfigType) -> None:
    text = {ConfigType.BOOLEAN: "true", ConfigType.LIST: "b,a"}.get(kind, "17")
    value = parse("x", kind, text)
    assert parse("x", kind, written(value)) == value


def test_a_long_is_not_an_int() -> None:
    assert parse("x", ConfigType.LONG, str(2**31)) == 2**31
    with pytest.raises(InvalidTopicConfig, match="type INT"):
        parse("x", ConfigType.INT, str(2**31))
    assert parse("x", ConfigType.INT, str(-(2**31))) == -(2**31)
