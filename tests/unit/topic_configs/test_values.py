import pytest

from siltstone.topic_configs.values import (
    ConfigType,
    InvalidTopicConfig,
    Rule,
    Value,
    at_least,
    between,
    between_or,
    nothing_empty,
    one_of,
    parse,
    throttled_replicas,
    written,
)


def test_a_megabyte_sent_by_mistake_does_not_come_back() -> None:
    with pytest.raises(InvalidTopicConfig) as refusal:
        parse("retention.ms", ConfigType.LONG, "9" * 1_000_000)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("kind", ConfigType)
def test_every_type_reads_back_what_it_writes(kind: ConfigType) -> None:
    text = {ConfigType.BOOLEAN: "true", ConfigType.LIST: "b,a"}.get(kind, "17")
    value = parse("x", kind, text)
    assert parse("x", kind, written(value)) == value


@pytest.mark.parametrize(
    ("kind", "text", "value", "canonical"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True, "true"),
        (ConfigType.BOOLEAN, "False", False, "false"),
        (ConfigType.STRING, " a, b ", "a, b", "a, b"),
        (ConfigType.INT, " +17 ", 17, "17"),
        (ConfigType.LONG, "-" + "0" * 10 + "123456789", -123456789, "-123456789"),
        (ConfigType.LONG, str(2**63 - 1), 2**63 - 1, str(2**63 - 1)),
        (ConfigType.LONG, str(-(2**63)), -(2**63), str(-(2**63))),
        (ConfigType.DOUBLE, "0.5", 0.5, "0.5"),
        (ConfigType.DOUBLE, ".25e1", 2.5, "2.5"),
        (ConfigType.LIST, " b , a,b ", ("b", "a"), "b,a"),
        (ConfigType.LIST, "", (), ""),
        (ConfigType.LIST, "f(a,b), c", ("f(a,b)", "c"), "f(a,b),c"),
        (ConfigType.LIST, "a map<b,c<d,e>>,f", ("a map<b,c<d,e>>", "f"), "a map<b,c<d,e>>,f"),
        (ConfigType.LIST, "a>,b), c", ("a>", "b)", "c"), "a>,b),c"),
    ],
)
def test_a_text_stands_for_a_value_that_is_written_in_one_way(
    kind: ConfigType, text: str, value: Value, canonical: str
) -> None:
    parsed = parse("x", kind, text)
    assert parsed == value and type(parsed) is type(value)
    assert written(parsed) == canonical


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.INT, "1.0"),
        (ConfigType.LONG, "0" * 20 + "1"),
        (ConfigType.LONG, str(2**63)),
        (ConfigType.LONG, str(-(2**63) - 1)),
        (ConfigType.DOUBLE, "nan"),
        (ConfigType.DOUBLE, "1e"),
    ],
)
def test_a_text_that_stands_for_no_value_is_shown_with_its_configuration(kind: ConfigType, text: str) -> None:
    with pytest.raises(InvalidTopicConfig, match=f"Invalid value {text} for configuration x: "):
        parse("x", kind, text)


@pytest.mark.parametrize(("length", "shown"), [(200, "a" * 200), (201, "a" * 200 + "…")])
def test_of_a_long_text_200_characters_are_shown(length: int, shown: str) -> None:
    with pytest.raises(InvalidTopicConfig, match=f"Invalid value {shown} for"):
        parse("x", ConfigType.INT, "a" * length)


def test_a_long_is_not_an_int() -> None:
    assert parse("x", ConfigType.LONG, str(2**31)) == 2**31
    with pytest.raises(InvalidTopicConfig, match="type INT"):
        parse("x", ConfigType.INT, str(2**31))
    assert parse("x", ConfigType.INT, str(-(2**31))) == -(2**31)


@pytest.mark.parametrize(
    ("rule", "allowed", "refused"),
    [
        (at_least(3), [3, 4, 10**9], [2, -1]),
        (between(3, 5), [3, 4, 5], [2, 6]),
        (between_or(3, 5, -1), [3, 4, 5, -1], [2, 6, 0, -2]),
        (nothing_empty, [(), ("a",), ("a", "b")], [("",), ("a", "")]),
        (one_of("a", "b"), ["a", "b", (), ("a",), ("b", "a")], ["c", "", ("a", "c"), ("a", "")]),
        (throttled_replicas, [(), ("*",), ("0:1", "12:34")], [("*", "0:1"), ("0",), ("0:1", "")]),
    ],
)
def test_a_rule_allows_what_is_within_its_bounds_and_nothing_else(
    rule: Rule, allowed: list[Value], refused: list[Value]
) -> None:
    for value in allowed:
        rule("x", value)
    for value in refused:
        with pytest.raises(InvalidTopicConfig):
            rule("x", value)


def test_of_an_empty_item_a_list_says_so_before_anything_else() -> None:
    with pytest.raises(InvalidTopicConfig, match="'x' values must not be empty"):
        one_of("a")("x", ("c", ""))
