"""Rows → Arrow: the same column as pyarrow makes of dicts, whatever is null or empty."""

from operator import itemgetter
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from siltstone.value_formats.columns import column_of, decoded_column, is_json_text, text_field

INNER = pa.struct([("x", pa.int32())])
TYPE = pa.struct(
    [
        ("a", pa.int64()),
        ("inner", INNER),
        ("list", pa.list_(INNER)),
        ("map", pa.map_(pa.string(), pa.list_(pa.string()))),
        ("empty", pa.struct([])),
    ]
)
inner = st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(-5, 5)})
texts = st.none() | st.lists(st.none() | st.text(max_size=2), max_size=3)
rows = st.none() | st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-(2**63), 2**63 - 1),
        "inner": inner,
        "list": st.none() | st.lists(inner, max_size=3),
        "map": st.none() | st.dictionaries(st.text(max_size=2), texts, max_size=2),
        "empty": st.none() | st.just({}),
    }
)


@given(st.lists(rows, max_size=6))
def test_the_column_is_that_of_pyarrow(given_rows: list[Any]) -> None:
    made = column_of(given_rows, TYPE, lambda _, field: itemgetter(field.name))
    made.validate(full=True)
    assert made.to_pylist() == pa.array(given_rows, TYPE).to_pylist()


def test_getters_are_asked_by_path() -> None:
    asked: list[tuple[int, ...]] = []

    def getter_of(path: tuple[int, ...], field: Any) -> Any:
        asked.append(path)
        return itemgetter(field.name)

    column_of([None], TYPE, getter_of)
    assert asked == [(0,), (1,), (1, 0), (2,), (2, 0), (3,), (4,)]


def test_json_in_text_is_marked() -> None:
    assert is_json_text(text_field("x"))
    assert not is_json_text(pa.field("x", pa.string()))
    assert not is_json_text(pa.field("x", pa.string(), metadata={"other": "json"}))


def test_a_value_that_does_not_fit_is_found_by_halves() -> None:
    rows = [{"x": number} for number in range(10_000)]
    rows[7_000] = {"x": 2**40}
    reads = []

    def getter_of(*_: Any) -> Any:
        reads.append(None)
        return itemgetter("x")

    found = decoded_column(rows, INNER, getter_of, [], lambda row: row + 1)
    assert [(each.row, each.schema) for each in found.bad] == [(7_000, 7_001)]
    assert [each["x"] for each in found.column.to_pylist() if each] == [
        n for n in range(10_000) if n != 7_000
    ]
    assert len(reads) < 40
