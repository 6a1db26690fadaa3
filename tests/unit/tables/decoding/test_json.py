"""JSON values: a row is what msgspec reads of each record by itself, everything else is bad."""

from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from siltstone.tables.decoding.json import JsonFieldsDecoder, JsonTextDecoder
from siltstone.topic_configs.column_types import PLAIN
from siltstone.topic_configs.table_export import TableColumn

COLUMNS = [TableColumn(f"c_{kind}", kind) for kind in PLAIN]


def decoded(
    *values: bytes | None, columns: list[TableColumn] = COLUMNS
) -> tuple[list[dict[str, Any]], dict[int, str]]:
    found = JsonFieldsDecoder(columns).decode(pa.array(values, pa.binary()))
    return pa.table(found.columns).to_pylist(), found.bad


def test_every_type_has_its_column() -> None:
    value = {
        "c_boolean": True,
        "c_int": -(2**31),
        "c_long": 2**63 - 1,
        "c_double": 3,
        "c_string": "ä\n",
        "c_date": "2026-02-28",
        "c_timestamp": "2026-02-28T01:00:00.000001+01:00",
        "c_json": {"x": [1, None]},
    }
    rows, bad = decoded(msgspec.json.encode(value))
    assert bad == {}
    assert rows == [
        {
            **value,
            "c_double": 3.0,
            "c_date": date(2026, 2, 28),
            "c_timestamp": datetime(2026, 2, 28, 0, 0, 0, 1, UTC),
            "c_json": '{"x":[1,null]}',
        }
    ]


def test_the_largest_and_the_smallest_numbers_fit() -> None:
    kinds = [TableColumn("i", "int"), TableColumn("l", "long")]
    extremes = [(2**31 - 1, 2**63 - 1), (-(2**31), -(2**63))]
    rows, bad = decoded(*(msgspec.json.encode({"i": i, "l": n}) for i, n in extremes), columns=kinds)
    assert ([(row["i"], row["l"]) for row in rows], bad) == (extremes, {})
    for i, n in ((2**31, 0), (-(2**31) - 1, 0), (0, -(2**63) - 1)):
        _, bad = decoded(msgspec.json.encode({"i": i}) if i else b'{"l": %d}' % n, columns=kinds)
        assert list(bad) == [0]


def test_what_is_missing_null_or_not_wanted() -> None:
    nothing = dict.fromkeys((column.name for column in COLUMNS), None)
    nulls = msgspec.json.encode(nothing)
    rows, bad = decoded(None, b"{}", nulls, b'{"other": {"c_int": "x"}}')
    assert (rows, bad) == ([nothing] * 4, {})


@pytest.mark.parametrize(
    "value",
    [
        b"", b"garbage", b"[1]", b"1", b'{"c_int": 1', b'{"c_int": 1} {"c_int": 2}', b'{"c_int": NaN}',
        b'{"c_int": 2147483648}', b'{"c_long": 9223372036854775808}', b'{"c_double": 1e999}', b'{"c_int": 1.5}',
        b'{"c_int": "1"}', b'{"c_string": 1}', b'{"c_boolean": 1}', b'{"c_date": "2026-02-30"}',
        b'{"c_timestamp": "2026-02-28T00:00:00"}', b'{"other": "\xff"}', b'{"c_json": "\xff"}', b'{"c_json": tru}',
        b'{"c_json":' + b"[" * 100_000, b"[" * 100_000, b'{"c_string": "\\ud800"}',
    ],
)  # fmt: skip
def test_tb18_what_msgspec_does_not_read_is_bad_and_its_neighbours_are_rows(value: bytes) -> None:
    rows, bad = decoded(b'{"c_int": 1}', value, b'{"c_int": 2}')
    assert list(bad) == [1] and 0 < len(bad[1]) <= 200
    assert (rows[0]["c_int"], rows[2]["c_int"]) == (1, 2)


def test_tb18_line_breaks_inside_and_names_that_stand_twice() -> None:
    rows, bad = decoded(
        b'{\n"c_int":\n1\n}\n', b'{"c_int": 1, "c_int": 2}', columns=[TableColumn("c_int", "int")]
    )
    assert (rows, bad) == ([{"c_int": 1}, {"c_int": 2}], {})


def test_columns_may_have_any_names() -> None:
    names = ["from", "self", "field_0", "__class__", "X"]
    rows, bad = decoded(
        msgspec.json.encode({name: name for name in names}),
        columns=[TableColumn(name, "string") for name in names],
    )
    assert (rows, bad) == ([{name: name for name in names}], {})


def test_json_as_text_is_the_bytes_of_the_record() -> None:
    values = [b' {"a": 1e3}\n', b"[1", None, b'"\xff"', b"NaN", b"123456789012345678901234567890"]
    found = JsonTextDecoder().decode(pa.array(values, pa.binary()))
    assert sorted(found.bad) == [1, 3, 4]
    texts = found.columns["value"].to_pylist()
    assert (texts[0], texts[2], texts[5]) == (' {"a": 1e3}\n', None, "123456789012345678901234567890")


NESTED = [
    TableColumn("at", "struct<lat:double,lon:double>"),
    TableColumn("tags", "array<string>"),
    TableColumn("counts", "map<string,int>"),
    TableColumn("stops", "array<struct<name:string,when:timestamp,more:json>>"),
    TableColumn("any", "map<string,array<json>>"),
]


def test_nested_columns_have_the_values_of_the_record() -> None:
    value = {
        "at": {"lon": 2, "lat": 1.5, "other": "x"},
        "tags": ["a", None, "ä"],
        "counts": {"x": 1, "": None},
        "stops": [
            {"name": "n", "when": "2026-02-28T00:00:00Z", "more": {"a": [1]}},
            None,
            {"more": None},
            {},
        ],
        "any": {"k": [1, None, {"b": "c"}], "none": None},
    }
    rows, bad = decoded(msgspec.json.encode(value), columns=NESTED)
    assert bad == {}
    nothing = {"name": None, "when": None, "more": None}
    assert rows == [
        {
            "at": {"lat": 1.5, "lon": 2.0},
            "tags": ["a", None, "ä"],
            "counts": [("x", 1), ("", None)],
            "stops": [
                {"name": "n", "when": datetime(2026, 2, 28, tzinfo=UTC), "more": '{"a":[1]}'},
                None,
                nothing,
                nothing,
            ],
            "any": [("k", ["1", None, '{"b":"c"}']), ("none", None)],
        }
    ]


def test_nested_columns_that_are_missing_null_or_empty() -> None:
    nothing = dict.fromkeys((column.name for column in NESTED), None)
    empty = {"at": {}, "tags": [], "counts": {}, "stops": [], "any": {}}
    rows, bad = decoded(None, b"{}", msgspec.json.encode(nothing), msgspec.json.encode(empty), columns=NESTED)
    assert bad == {}
    assert rows[:3] == [nothing] * 3
    assert rows[3] == {**empty, "at": {"lat": None, "lon": None}, "counts": [], "any": []}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b'{"at": 1}', "Expected `object | null`, got `int` - at `$.at`"),
        (b'{"at": {"lat": "x"}}', "$.at.lat"),
        (b'{"tags": {"a": 1}}', "$.tags"),
        (b'{"tags": ["a", 1]}', "$.tags[1]"),
        (b'{"counts": {"a": 2147483648}}', "$.counts[...]"),
        (b'{"stops": [{"when": "2026-02-28T00:00:00"}]}', "$.stops[0].when"),
        (b'{"any": {"a": [1, tru]}}', "JSON is malformed"),
        (b'{"any": {"a": 1}}', "$.any[...]"),
    ],
)
def test_tb18_what_does_not_fit_a_nested_column_is_bad_and_its_neighbours_are_rows(
    value: bytes, why: str
) -> None:
    rows, bad = decoded(b'{"tags": ["1"]}', value, b'{"tags": ["2"]}', columns=NESTED)
    assert list(bad) == [1] and why in bad[1]
    assert (rows[0]["tags"], rows[2]["tags"]) == (["1"], ["2"])
