"""One table for several schemas: which types join."""

from typing import Any

import pyarrow as pa
import pytest

from siltstone.tables.fitting import columns_of_type, joined_columns, joined_type

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()


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
