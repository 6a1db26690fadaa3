"""Numbers at the borders of their types, and the words of what is allowed."""

import pytest

from siltstone.topic_configs.rows import TABLE
from siltstone.topic_configs.values import ConfigType, InvalidTopicConfig


def test_types_have_kafkas_numbers() -> None:
    """Of DescribeConfigsResponse."""
    assert {each.name: int(each) for each in ConfigType}.items() >= {
        "BOOLEAN": 1, "STRING": 2, "INT": 3, "LONG": 5, "DOUBLE": 6, "LIST": 7,
    }.items()  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [("retention.bytes", "9223372036854775807"), ("retention.bytes", "-9223372036854775808"),
     ("max.message.bytes", "2147483647"), ("compression.zstd.level", "0")],
)  # fmt: skip
def test_the_largest_and_the_smallest_of_a_type(name: str, text: str) -> None:
    assert TABLE[name].parse(text) == int(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [("retention.bytes", "9223372036854775808"), ("retention.bytes", "-9223372036854775809"),
     ("retention.bytes", "1" * 5_000), ("max.message.bytes", "2147483648")],
)  # fmt: skip
def test_beyond_a_type_is_no_number(name: str, text: str) -> None:
    with pytest.raises(InvalidTopicConfig, match="Not a number of type"):
        TABLE[name].parse(text)


@pytest.mark.parametrize(
    ("text", "is_allowed"), [("-1", True), ("1", True), ("9", True), ("-2", False), ("10", False)]
)
def test_a_range_and_one_value_beside_it(text: str, is_allowed: bool) -> None:
    row = TABLE["compression.gzip.level"]
    if is_allowed:
        assert row.parse(text) == int(text)
    else:
        with pytest.raises(InvalidTopicConfig, match="between 1 and 9 or equal to -1"):
            row.parse(text)
