"""The types of JSON values, and the columns that follow from them, against the plain rule: what was joined takes all
values, and what no column takes is rescued."""

import json
import tracemalloc
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.tables.decoding.json import FoundFieldsDecoder
from siltstone.topic_configs.column_types import canonical, parsed_type
from siltstone.topic_configs.table_export import RESCUED, TableColumn
from siltstone.value_formats.found_columns import (
    can_be_column,
    extended,
    fields_of,
    joined,
    joined_fields,
    news,
    type_of,
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
)
NAMES = st.sampled_from(["a", "b", "A", "c_1", "odd name", "", "kafka", "x"])
VALUES = st.recursive(
    SCALARS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
ONE_CASE = st.recursive(
    SCALARS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
"""Of names that differ by case alone the first one stands, so their order matters."""

OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


def kind(text: str) -> Any:
    value = type_of(json.loads(text))
    return None if value is None else canonical(value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1", "long"), ("1.0", "double"), ("true", "boolean"), ('"x"', "string"), ("null", None), ("[]", None),
        ("{}", None), ("[null, 1]", "array<long>"), ("[1, 2.5]", "array<double>"), ('[1, "x"]', "array<string>"),
        ('[1, {"a": 1}]', "array<json>"), ("9223372036854775808", "json"), ('{"a": {"b c": 1}}', None),
        ('{"a": {"b": 1, "B": "x"}}', "struct<a:struct<b:long>>"),
        ('[{"a": 1}, {"b": "x", "a": 2.5}]', "array<struct<a:double,b:string>>"),
    ],
)  # fmt: skip
def test_the_type_of_a_value(text: str, wanted: str | None) -> None:
    assert kind(text) == wanted


def test_an_object_with_very_many_fields_has_data_as_names() -> None:
    assert kind(json.dumps({f"u{number}": 1 for number in range(201)})) == "json"
    assert kind(json.dumps([{f"u{number}": 1} for number in range(201)])) == "array<json>"


def test_names_that_no_column_has_are_not_kept() -> None:
    """A value may be a megabyte, and so may be the name of its only field."""
    tracemalloc.start()
    try:
        for number in range(50):
            assert not can_be_column(f"{number:0100000}") and not can_be_column(f"a{number:0100000}")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1_000_000


def test_a_value_that_is_very_deep_is_json_in_text() -> None:
    assert kind("[" * 30 + "1" + "]" * 30) == "array<" * 19 + "json" + ">" * 19


@given(ONE_CASE, ONE_CASE, ONE_CASE)
def test_joining_does_not_depend_on_the_order(one: Any, other: Any, third: Any) -> None:
    a, b, c = type_of(one), type_of(other), type_of(third)
    assert joined(a, a) == a
    left, right = joined(joined(a, b), c), joined(a, joined(b, c))
    assert _unordered(left) == _unordered(right) == _unordered(joined(c, joined(b, a)))


def _unordered(of: Any) -> Any:
    return of and (of.kind, frozenset((name.lower(), _unordered(part)) for name, part in of.parts))


@given(st.lists(OBJECTS, min_size=1, max_size=4), st.lists(OBJECTS, max_size=3), st.booleans())
def test_no_field_of_a_value_is_lost_whatever_the_columns_are(
    known: list[dict[str, Any]], values: list[dict[str, Any]], nests: bool
) -> None:
    fields: dict[str, Any] = {}
    for each in known:
        fields = joined_fields(fields, fields_of(each))
    columns = extended((), fields, nests=nests)
    assert extended(columns, fields, nests=nests) == columns
    written = [json.dumps(each).encode() for each in (*known, *values)]
    found = FoundFieldsDecoder(columns).decode(pa.array([*written, None], pa.binary()))
    assert not found.bad
    for row, value in enumerate((*known, *values)):
        rescued = json.loads(found.columns[RESCUED][row].as_py() or "{}")
        for name, each in value.items():
            if each is None:
                continue
            column = found.columns.get(name)
            stored = None if column is None or name == RESCUED else column[row].as_py()
            _is_kept(each, stored, rescued.get(name))


def _is_kept(value: Any, stored: Any, rescued: Any) -> None:
    """Checks that a value is in the column, or among what was rescued, or each of its parts in either."""
    if value is None or rescued == value:
        return
    if isinstance(value, dict) and isinstance(stored, dict):
        for name, each in value.items():
            _is_kept(each, stored.get(name), (rescued or {}).get(name))
        return
    if isinstance(value, list) and isinstance(stored, list):
        assert len(value) == len(stored)
        for one, other in zip(value, stored, strict=True):
            _is_kept(one, other, None)
        return
    if isinstance(stored, str) and stored != value:  # JSON in text, or a number in a column of texts
        stored = json.loads(stored)
    assert stored == value


@given(st.lists(OBJECTS, min_size=1, max_size=4))
def test_columns_made_of_all_values_need_no_more_fields(values: list[dict[str, Any]]) -> None:
    fields: dict[str, Any] = {}
    for each in values:
        fields = joined_fields(fields, fields_of(each))
    columns = extended((), fields, nests=True)
    written = pa.array([json.dumps(each).encode() for each in values], pa.binary())
    found = FoundFieldsDecoder(columns).decode(written)
    assert extended(columns, found.found, nests=True) == columns


def test_a_column_keeps_its_type_and_its_structs_get_fields() -> None:
    columns = (
        TableColumn("a", "long"),
        TableColumn("s", "struct<x:long>"),
        TableColumn("l", "array<struct<x:long>>"),
    )
    found = {
        "a": parsed_type("double"), "A": parsed_type("long"), "s": parsed_type("struct<x:string,y:long>"),
        "l": parsed_type("array<struct<y:long>>"), "day": parsed_type("long"), "new": parsed_type("json"),
    }  # fmt: skip
    nested = extended(columns, found, nests=True, reserved=frozenset({"day"}))
    assert [(each.name, each.kind) for each in nested] == [
        ("a", "long"), ("s", "struct<x:long,y:long>"), ("l", "array<struct<x:long,y:long>>"), ("new", "json"),
    ]  # fmt: skip
    assert extended(columns, found, nests=False, reserved=frozenset({"day"}))[:3] == columns
    assert news(columns, nested) == [
        "new fields in s: struct<x:long,y:long>", "new fields in l: array<struct<x:long,y:long>>",
        "new field new: json",
    ]  # fmt: skip


def test_what_was_rescued_is_the_json_as_it_was_written() -> None:
    value = b'{"a": 1.50, "b": "\\u00e9", "c": [1,  2]}'
    (text,) = (
        FoundFieldsDecoder([TableColumn("a", "long")])
        .decode(pa.array([value], pa.binary()))
        .columns[RESCUED]
        .to_pylist()
    )
    assert text == '{"a":1.50,"b":"\\u00e9","c":[1,  2]}'
    assert msgspec.json.decode(text) == {"a": 1.5, "b": "é", "c": [1, 2]}
