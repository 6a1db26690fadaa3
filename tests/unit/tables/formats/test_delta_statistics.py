import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone.tables.formats.delta_statistics import statistics_text
from siltstone.tables.formats.footers import NAN_NOTE


def statistics(table: Any, nan: list[str] | None = None, by: tuple[str, ...] = (), **properties: str) -> Any:
    sink = BytesIO()
    with pq.ParquetWriter(sink, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        if nan is not None:
            writer.add_key_value_metadata({NAN_NOTE: json.dumps(nan)})
    named = {f"delta.{name}": value for name, value in properties.items()}
    text = statistics_text(pq.read_metadata(BytesIO(sink.getvalue())), table.schema, named, by)
    return json.loads(text, parse_float=Decimal)


def test_each_type_has_the_bounds_that_deltas_protocol_gives_it() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)
    found = statistics(
        pa.table(
            {
                "l": pa.array([2**62 + 1, None, -5], pa.int64()),
                "d": pa.array([1.5, 0.25, None]),
                "s": pa.array(["b", "a", None]),
                "y": pa.array([b"x", None, None]),
                "b": pa.array([True, None, None]),
                "day": pa.array([date(2026, 1, 2), None, None]),
                "ts": pa.array([moment, None, None], pa.timestamp("us", "UTC")),
                "ntz": pa.array([moment.replace(tzinfo=None), None, None], pa.timestamp("us")),
                "dec": pa.array(
                    [Decimal("12345678901234567890.12"), Decimal("-0.01"), None], pa.decimal128(38, 2)
                ),
                "at": pa.array([{"x": 3}, None, {"x": None}], pa.struct([("x", pa.int64())])),
                "many": pa.array([[1], None, None], pa.list_(pa.int64())),
            }
        ),
        nan=[],
    )
    assert found["numRecords"] == 3
    assert found["minValues"] == {
        "l": -5, "d": Decimal("0.25"), "s": "a", "day": "2026-01-02", "ts": "2026-01-02T03:04:05.678Z",
        "ntz": "2026-01-02T03:04:05.678", "dec": Decimal("-0.01"), "at": {"x": 3},
    }  # fmt: skip
    assert found["maxValues"] == {
        "l": 2**62 + 1, "d": Decimal("1.5"), "s": "b", "day": "2026-01-02", "ts": "2026-01-02T03:04:05.679Z",
        "ntz": "2026-01-02T03:04:05.679", "dec": Decimal("12345678901234567890.12"), "at": {"x": 3},
    }  # fmt: skip
    assert found["nullCount"] == {
        "l": 1, "d": 1, "s": 1, "y": 2, "b": 2, "day": 2, "ts": 2, "ntz": 2, "dec": 1, "at": {"x": 2},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("a" * 32, "a" * 32, "a" * 32),
        ("a" * 33, "a" * 32, "a" * 31 + "b"),
        ("\ud7ff" * 40, "\ud7ff" * 32, "\ud7ff" * 31 + "\ue000"),
        ("\U0010ffff" * 33, "\U0010ffff" * 32, None),
    ],
)
def test_a_long_text_is_cut_so_that_the_bounds_hold(text: str, least: str, most: str | None) -> None:
    found = statistics(pa.table({"s": [text]}))
    assert (found["minValues"]["s"], found["maxValues"].get("s")) == (least, most)
    assert least <= text and (most is None or text <= most)


def test_floats_with_nan_and_those_that_nobody_has_looked_at_have_no_upper_bound() -> None:
    floats = pa.table({"d": [1.0, 2.0]})
    assert statistics(floats, nan=[])["maxValues"] == {"d": 2}
    for nan in (None, ["d"]):
        assert statistics(floats, nan=nan)["maxValues"] == {}
        assert statistics(floats, nan=nan)["minValues"] == {"d": 1}
    infinite = statistics(pa.table({"d": [float("inf"), float("-inf")]}), nan=[])
    assert (infinite["minValues"], infinite["maxValues"]) == ({}, {})


def test_a_value_that_the_log_cannot_have_costs_its_bound_alone() -> None:
    days = pa.array([2**31 - 1, 0], pa.int32()).cast(pa.date32())
    times = pa.array([2**63 - 1, 0], pa.int64()).cast(pa.timestamp("us", "UTC"))
    found = statistics(pa.table({"day": days, "ts": times}))
    assert found["minValues"] == {"day": "1970-01-01", "ts": "1970-01-01T00:00:00.000Z"}
    assert (found["maxValues"], found["nullCount"]) == ({}, {"day": 0, "ts": 0})


def test_the_first_32_columns_and_those_of_the_record_have_statistics_unless_the_table_says_otherwise() -> (
    None
):
    kafka = pa.array([{"offset": 7, "topic": "t"}])
    table = pa.table({**{f"c{number}": [number] for number in range(40)}, "kafka": kafka})
    named = [f"c{number}" for number in range(40)]
    assert [*statistics(table)["minValues"]] == [*named[:32], "kafka"]
    assert statistics(table)["minValues"]["kafka"] == {"offset": 7}
    assert [*statistics(table, by=("c3",))["minValues"]] == [*named[:3], *named[4:33], "kafka"]
    assert [*statistics(table, dataSkippingNumIndexedCols="2")["minValues"]] == ["c0", "c1", "kafka"]
    assert statistics(table, dataSkippingNumIndexedCols="-1")["minValues"]["kafka"] == {
        "offset": 7,
        "topic": "t",
    }
    assert [*statistics(table, dataSkippingStatsColumns="c9, `c39`")["minValues"]] == ["c9", "c39", "kafka"]
