"""Values that are written as JSON can be read by the decoder of scans and by every JSON parser."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.value_formats.encoders.json import JsonEncoder
from siltstone.value_formats.failures import RowNotEncodable
from siltstone.value_formats.opening import open_decoder
from siltstone.value_formats.settling import settle_format
from siltstone.value_formats.value_format import FormatKind

TYPE = pa.struct(
    [("id", pa.int64()), ("gate", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("day", pa.date32()),
     ("price", pa.decimal128(9, 2)), ("raw", pa.binary()), ("delay", pa.float64()), ("late", pa.bool_()),
     ("counts", pa.map_(pa.string(), pa.int32())), ("legs", pa.list_(pa.struct([("miles", pa.int32())])))]
)  # fmt: skip
ROW = {
    "id": 2**60 + 1, "gate": 'ä"\n', "at": datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "day": date(2026, 1, 2),
    "price": Decimal("12.50"), "raw": b"\0\xff", "delay": 0.1, "late": True, "counts": [("a", 1)],
    "legs": [{"miles": 3}, None],
}  # fmt: skip


def encoded(rows: list[Any], arrow_type: Any = TYPE) -> list[bytes | None]:
    return list(JsonEncoder().encode(pa.array(rows, arrow_type)))


def decoded(values: list[bytes | None], arrow_type: Any = TYPE) -> Any:
    fmt = settle_format(FormatKind.JSON, schema=arrow_type)
    found = open_decoder(fmt).decode(pa.array(values, pa.binary()))
    assert not found.bad
    return found.column


def test_rows_become_values_that_the_decoder_reads_and_null_is_a_tombstone() -> None:
    column = pa.array([ROW, None, dict.fromkeys(ROW)], TYPE)
    values = encoded([ROW, None, dict.fromkeys(ROW)])
    assert values[1] is None
    assert decoded(values).to_pylist() == column.to_pylist()


def test_a_value_is_one_line_with_every_field_as_json_has_it() -> None:
    (value,) = encoded([{**ROW, "gate": None}])
    assert value is not None and b"\n" not in value
    read = json.loads(value)
    assert list(read) == [field.name for field in TYPE]
    assert (read["id"], read["gate"], read["at"]) == (2**60 + 1, None, "2026-01-02T03:04:05.000006Z")
    assert (read["price"], read["raw"], read["counts"]) == ("12.50", "AP8=", {"a": 1})


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_does_not_have_is_refused_at_any_depth(number: float) -> None:
    floats = pa.list_(pa.struct([("x", pa.float64())]))
    of_map = pa.map_(pa.string(), pa.float32())
    for kind, value in ((pa.float64(), number), (floats, [{"x": number}]), (of_map, [("k", number)])):
        with pytest.raises(RowNotEncodable, match="NaN or an infinity"):
            encoded([{"a": value}], pa.struct([("a", kind)]))


@given(
    st.lists(
        st.none()
        | st.fixed_dictionaries(
            {
                "a": st.none() | st.integers(-(2**63), 2**63 - 1),
                "s": st.none() | st.text(st.characters(codec="utf-8")),
                "l": st.none()
                | st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=3),
            }
        ),
        max_size=5,
    )
)
def test_every_row_survives(rows: list[Any]) -> None:
    kind = pa.struct([("a", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.float64()))])
    assert decoded(encoded(rows, kind), kind).to_pylist() == rows


def test_a_time_that_python_does_not_have_is_named() -> None:
    column = pa.array([{"at": 2**60}], pa.struct([("at", pa.timestamp("us", tz="UTC"))]))
    with pytest.raises(RowNotEncodable, match="a value of the column cannot be written"):
        list(JsonEncoder().encode(column))
