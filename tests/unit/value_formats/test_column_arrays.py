"""Types of columns as Arrow has them, and columns of one type as those of another."""

import pyarrow as pa
import pytest

from siltstone.topic_configs.column_types import parsed_type
from siltstone.value_formats.column_arrays import (
    column_arrays,
    column_field,
    field_type,
    fitted,
    plain_type,
    type_of_field,
)
from siltstone.value_formats.columns import is_json_text

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("boolean", pa.bool_()), ("int", INT), ("long", LONG), ("double", pa.float64()), ("string", TEXT),
        ("date", pa.date32()), ("timestamp", pa.timestamp("us", tz="UTC")),
        ("struct<a:long,b:array<string>>", pa.struct([("a", LONG), ("b", pa.list_(TEXT))])),
        ("map<string,double>", pa.map_(TEXT, pa.float64())),
    ],
)  # fmt: skip
def test_a_type_has_one_form_in_arrow_and_is_found_again(text: str, kind: pa.DataType) -> None:
    assert field_type(parsed_type(text)) == kind
    assert type_of_field(kind) == parsed_type(text)


def test_json_is_text_that_is_marked_where_it_is_decoded() -> None:
    assert field_type(parsed_type("json")) == TEXT
    assert is_json_text(column_field("x", parsed_type("json")))
    inner = column_field("x", parsed_type("array<struct<a:json,b:string>>")).type.value_type
    assert [is_json_text(each) for each in inner] == [True, False]


def test_a_type_that_no_list_of_columns_names_is_none() -> None:
    for kind in (pa.float32(), pa.binary(), pa.struct([("a", pa.binary())]), pa.map_(INT, TEXT)):
        assert type_of_field(kind) is None


def test_where_columns_cannot_widen_later_whole_numbers_are_long() -> None:
    assert field_type(parsed_type("array<int>"), are_wide=True) == pa.list_(LONG)
    assert field_type(parsed_type("double"), are_wide=True) == pa.float64()


def test_large_texts_and_lists_are_the_small_ones_wherever_they_are() -> None:
    large = pa.struct([("h", pa.large_list(pa.struct([("k", pa.large_string()), ("v", pa.large_binary())])))])
    small = pa.struct([("h", pa.list_(pa.struct([("k", pa.string()), ("v", pa.binary())])))])
    assert plain_type(large) == plain_type(small) == small
    assert plain_type(pa.list_(pa.large_string())) == pa.list_(pa.string())
    assert plain_type(pa.int32()) == pa.int32()
    assert plain_type(pa.map_(pa.large_string(), pa.large_binary())) == pa.map_(pa.string(), pa.binary())


def test_columns_are_put_into_wider_types_and_what_they_lack_is_null() -> None:
    narrow = pa.struct(
        [("a", INT), ("m", pa.map_(TEXT, INT)), ("l", pa.list_(pa.struct([("x", INT), ("gone", TEXT)])))]
    )
    rows = [
        {"a": 1, "m": [("k", 2)], "l": [{"x": 3, "gone": "g"}, None]},
        None,
        {"a": None, "m": None, "l": None},
        {"a": 5, "m": [], "l": []},
    ]
    wide = pa.struct(
        [pa.field("new", TEXT), pa.field("a", LONG, metadata={b"PARQUET:field_id": b"1"}),
         ("m", pa.map_(pa.large_string(), LONG)), ("l", pa.large_list(pa.struct([("y", TEXT), ("x", LONG)])))]
    )  # fmt: skip
    found = fitted(pa.array(rows, narrow), wide)
    found.validate(full=True)
    assert found.type.equals(wide, check_metadata=True)
    assert found.to_pylist() == [
        {"new": None, "a": 1, "m": [("k", 2)], "l": [{"y": None, "x": 3}, None]},
        None,
        {"new": None, "a": None, "m": None, "l": None},
        {"new": None, "a": 5, "m": [], "l": []},
    ]
    array = pa.array(rows, narrow)
    assert fitted(array, narrow) is array
    with pytest.raises(pa.ArrowInvalid):
        fitted(pa.array([2**40], LONG), INT)


def test_the_fields_of_a_null_row_are_null() -> None:
    found = dict(column_arrays(pa.array([{"a": 1}, None], pa.struct([("a", INT)]))))
    assert found["a"].to_pylist() == [1, None]
    assert [name for name, _ in column_arrays(pa.array(["x"], TEXT))] == ["value"]
