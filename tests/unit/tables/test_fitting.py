"""One table for several schemas: which types join, and columns of one type as those of another."""

from typing import Any

import pyarrow as pa
import pytest

from siltstone.tables.fitting import (
    column_arrays,
    columns_of_type,
    fitted,
    joined_columns,
    joined_type,
    plain_type,
)

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()


def test_large_texts_and_lists_are_the_small_ones_wherever_they_are() -> None:
    large = pa.struct([("h", pa.large_list(pa.struct([("k", pa.large_string()), ("v", pa.large_binary())])))])
    small = pa.struct([("h", pa.list_(pa.struct([("k", pa.string()), ("v", pa.binary())])))])
    assert plain_type(large) == plain_type(small) == small
    assert plain_type(pa.list_(pa.large_string())) == pa.list_(pa.string())
    assert plain_type(pa.int32()) == pa.int32()
    assert plain_type(pa.map_(pa.large_string(), pa.large_binary())) == pa.map_(pa.string(), pa.binary())


@pytest.mark.parametrize(
    ("there", "here", "joined", "narrow"),
    [
        (TEXT, TEXT, TEXT, TEXT),
        (LONG, INT, LONG, LONG),
        (INT, LONG, LONG, None),
        (pa.float32(), pa.float64(), pa.float64(), None),
        (pa.decimal128(9, 2), pa.decimal128(5, 2), pa.decimal128(9, 2), pa.decimal128(9, 2)),
        (pa.decimal128(5, 2), pa.decimal128(9, 2), pa.decimal128(9, 2), None),
        (pa.decimal128(5, 2), pa.decimal128(9, 3), None, None),
        (INT, TEXT, None, None),
        (pa.float64(), LONG, None, None),
        (pa.list_(INT), pa.list_(LONG), pa.list_(LONG), None),
        (pa.list_(INT), pa.list_(TEXT), None, None),
        (pa.list_(INT), INT, None, None),
        (pa.map_(TEXT, INT), pa.map_(TEXT, LONG), pa.map_(TEXT, LONG), None),
        (pa.map_(TEXT, INT), pa.map_(INT, INT), None, None),
        (pa.struct([("a", INT)]), pa.struct([("b", INT)]), pa.struct([("a", INT), ("b", INT)]), None),
        (pa.struct([("a", INT), ("b", INT)]), pa.struct([("b", INT)]), *[pa.struct([("a", INT), ("b", INT)])] * 2),
        (pa.struct([("a", INT)]), pa.struct([("a", TEXT)]), None, None),
    ],
)  # fmt: skip
def test_types_join_or_are_a_conflict(there: Any, here: Any, joined: Any, narrow: Any) -> None:
    assert joined_type(there, here, may_widen=True) == joined
    assert joined_type(there, here, may_widen=False) == narrow


def test_columns_of_values_have_no_part_that_files_cannot_have() -> None:
    empty = pa.struct([])
    kind = pa.struct(
        [("a", INT), ("n", pa.null()), ("e", empty), ("s", pa.struct([("x", empty), ("y", pa.float32())])),
         ("l", pa.list_(pa.null())), ("m", pa.map_(TEXT, empty)), ("only", pa.struct([("x", pa.null())]))]
    )  # fmt: skip
    assert columns_of_type(kind, may_widen=True) == {"a": INT, "s": pa.struct([("y", pa.float32())])}
    assert columns_of_type(kind, may_widen=False) == {"a": LONG, "s": pa.struct([("y", pa.float64())])}
    assert columns_of_type(TEXT, may_widen=True) == {"value": TEXT}
    assert columns_of_type(pa.list_(INT), may_widen=False) == {"value": pa.list_(LONG)}


def test_a_conflict_names_the_field() -> None:
    table = {"id": LONG, "Gate": TEXT}
    assert joined_columns(table, {"id": INT, "x": TEXT}, may_widen=True) == {**table, "x": TEXT}
    for found, why in (
        ({"id": TEXT}, "its field id is string, and the column of the table is int64"),
        ({"gate": TEXT}, "the name of its field gate is taken"),
        ({"Kafka": TEXT}, "the name of its field Kafka is taken"),
        ({"y": TEXT, "Y": TEXT}, "the name of its field Y is taken"),
    ):
        assert why in str(joined_columns(table, found, may_widen=True))


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
