import sys

import msgspec
import pytest

from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.following import Found
from siltstone.kafka_protocol.records.reading import Record
from siltstone.record_columns.arrow import ArrowMissing
from siltstone.scanning.where import Where, WhereRefused


def records(*values: object) -> list[Found]:
    """Values that are no bytes are written as JSON; record n has the key kn and the offset n."""
    return [
        (
            TopicPartition("t", 1),
            Record(
                offset=number,
                timestamp_ms=1_372_680_000_000 + number,
                key=b"k%d" % number,
                value=value if isinstance(value, bytes) or value is None else msgspec.json.encode(value),
            ),
        )
        for number, value in enumerate(values)
    ]


FLIGHTS = records(
    {"carrier": "UA", "delay": 4, "plane": {"tail": "N1", "seats": 100}, "stops": ["ORD"]},
    {"carrier": "AA", "delay": None, "plane": {"tail": "N2"}},
    {"carrier": "UA", "delay": 1.5, "plane": None, "more": True},
)


@pytest.mark.parametrize(("expression", "offsets"), [
    ("value.carrier = 'UA'", [0, 2]),
    ("carrier = 'UA' and delay > 2", [0]),
    ("CARRIER like 'A%'", [1]),
    ("Value.Plane.Tail = 'N2'", [1]),
    ("plane.seats > 50", [0]),
    ("plane is null", [2]),
    ("plane.tail is null", [2]),
    ("delay is null", [1]),
    ("more", [2]),
    ("nosuch = 3", []),
    ("list_contains(stops, 'ORD')", [0]),
    ("key in ('k0', 'k1') and kafka.offset >= 1", [1]),
    ("kafka.partition = 1 and kafka.key = 'k2'", [2]),
    ("kafka.timestamp >= '2013-07-01 12:00:00.001+00'", [1, 2]),
    ("value like '%ORD%'", [0]),
    ("regexp_matches(carrier, '^U') -- a comment", [0, 2]),
])  # fmt: skip
def test_an_expression_names_fields_key_value_and_kafka(expression: str, offsets: list[int]) -> None:
    assert [number for number, is_one in enumerate(Where(expression).matches(FLIGHTS)) if is_one] == offsets


def test_what_is_no_json_object_or_fails_alone_does_not_match() -> None:
    """Were one record refused with its neighbours, none of them would match."""
    found = records(
        {"n": 1}, {"n": "text"}, b"no JSON", b"\xff\xfe", None, [1], {"n": [1]}, {"n": 2**80}, {"n": 7}
    )
    assert Where("n > 0 and kafka.offset >= 0").matches(found) == [True, *[False] * 7, True]
    assert Where("nosuch is null").matches(found) == [True, True, *[False] * 4, True, True, True]
    assert Where("value = 'no JSON'").matches(found) == [number == 2 for number in range(9)]


def test_a_field_with_the_name_of_a_column_is_reached_through_value() -> None:
    found = records({"key": "a", "value": "b", "kafka": {"offset": 5}})
    for expression in ("value.key = 'a'", "value.value = 'b'", "value.kafka.offset = 5", "key = 'k0'"):
        assert Where(expression).matches(found) == [True], expression


def test_without_duckdb_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ArrowMissing, match=r"pip install 'siltstone\[sql\]'"):
        Where("key = 'k'")


@pytest.mark.parametrize(("expression", "reason"), [
    ("carrier = ", "syntax error"),
    (" ", "one expression"),
    ("nofunction(carrier)", "nofunction"),
    ("count(*) > 1", "aggregates"),
    ("kafka.nosuch = 1", "nosuch"),
    ("carrier = 'UA'); select (1", "one expression"),
    ("exists (from read_csv('/etc/passwd'))", "disabled"),
])  # fmt: skip
def test_a_wrong_expression_is_refused_before_a_record_is_read(expression: str, reason: str) -> None:
    with pytest.raises(WhereRefused, match=reason) as refused:
        Where(expression)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "expression",
    ["exists (select * from read_csv('/etc/passwd'))", "exists (select * from '/etc/passwd')"],
)
def test_wc11_an_expression_reaches_no_file(expression: str) -> None:
    with pytest.raises(WhereRefused):
        Where(expression)


def test_an_expression_that_takes_too_long_is_ended() -> None:
    """It would take a day; were the records tried one by one then, as after other failures, it would take three."""
    endless = (
        "(select count(*) from range(1000000000) a, range(1000000000) b where a.range + b.range = delay) > 0"
    )
    with pytest.raises(WhereRefused, match=r"the condition .* more than 0\.3 s"):
        Where(endless, name="the condition", seconds_max=0.3, memory_limit="256MiB").matches(FLIGHTS)
    assert Where("delay > 2", seconds_max=30).matches(FLIGHTS) == [True, False, False]
