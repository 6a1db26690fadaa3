"""Rows of data files are read in ranges, and put into the present columns of the table."""

from datetime import UTC, datetime
from io import SEEK_CUR, SEEK_END, BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone.object_store.memory import MemoryStore
from siltstone.runtime.clock import ManualClock
from siltstone.tables.formats.port import DataFile, TableFile
from siltstone.tables.reading import RowFile, _StoredFile, realigned
from siltstone.tables.row_deletes import packed


def with_id(name: str, kind: Any, number: int) -> Any:
    return pa.field(name, kind, metadata={b"PARQUET:field_id": b"%d" % number})


def put(store: MemoryStore, rows: Any, **given: Any) -> int:
    out = BytesIO()
    pq.write_table(rows, out, store_schema=False, **given)
    store.put("x", [out.getvalue()])
    return out.tell()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(ManualClock(), "tables")


def test_a_file_is_read_by_ranges(store: MemoryStore) -> None:
    store.put("x", [b"0123456789"])
    file = _StoredFile(store, "x", 10)
    assert (file.readable(), file.seekable(), file.read(3), file.tell()) == (True, True, b"012", 3)
    assert (file.seek(-2, SEEK_END), file.read(100), file.read(1)) == (8, b"89", b"")
    file.seek(2)
    assert (file.seek(2, SEEK_CUR), file.read()) == (4, b"456789")


def test_rows_and_the_bytes_of_a_column(store: MemoryStore) -> None:
    rows = pa.table({"k": [b"abc", b"d"] * 500, "s": [{"n": number} for number in range(1_000)]})
    size = put(store, rows, row_group_size=300)
    with RowFile(store, "", DataFile("x", rows.num_rows, size)) as file:
        batches = list(file.batches())
        assert pa.Table.from_batches(batches).to_pylist() == rows.to_pylist()
        assert next(each.schema.names for each in file.batches(["s.n"])) == ["s"]
        assert file.column_bytes("s.n") > 0 and file.column_bytes("k") > 0


_VIEW, _BYTES = pa.string_view(), pa.binary_view()


@pytest.mark.parametrize(
    ("kind", "usual", "value"),
    [
        (_VIEW, pa.string(), "x"),
        (_BYTES, pa.binary(), b"x"),
        (pa.dictionary(pa.int32(), pa.string()), pa.string(), "x"),
        (pa.list_(_VIEW), pa.list_(pa.string()), ["x"]),
        (pa.list_(_VIEW, 1), pa.list_(pa.string()), ["x"]),
        (pa.large_list(_VIEW), pa.large_list(pa.string()), ["x"]),
        (pa.map_(pa.string(), _BYTES), pa.map_(pa.string(), pa.binary()), [("x", b"y")]),
        (
            pa.struct([("k", pa.struct([("v", _VIEW)]))]),
            pa.struct([("k", pa.struct([("v", pa.string())]))]),
            {"k": {"v": "x"}},
        ),
    ],
    ids=str,
)
def test_rule_16_a_file_with_any_of_arrows_types_is_read_without_its_deleted_rows(
    store: MemoryStore, kind: Any, usual: Any, value: Any
) -> None:
    """deltalake notes views in the schema of Arrow that it stores in a file; Arrow cannot take rows of these."""
    out = BytesIO()
    rows = pa.table({"v": pa.array([value, None, value], kind), "n": [0, 1, 2]})
    pq.write_table(rows, out)
    store.put("x", [out.getvalue()])
    file = TableFile("x", 3, out.tell(), deleted=packed(np.array([True, False, False])))
    with RowFile(store, "", file) as opened:
        (found,) = opened.batches()
    assert found.schema.field("v").type == usual
    assert found.to_pylist() == [{"v": None, "n": 1}, {"v": value, "n": 2}]
    realigned(found, pa.schema([("v", usual), ("n", pa.int64())]))


def test_times_that_spark_writes_into_delta_tables_may_be_far(store: MemoryStore) -> None:
    """As INT96, which would be nanoseconds: the years 1600 and 9999 do not fit."""
    far = [datetime(1600, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), None]
    rows = pa.table({"at": pa.array(far, pa.timestamp("us", tz="UTC"))})
    size = put(store, rows, use_deprecated_int96_timestamps=True)
    with RowFile(store, "", DataFile("x", 3, size)) as file:
        (found,) = file.batches()
    assert realigned(found, rows.schema).column("at").to_pylist() == far


def test_batches_of_large_rows_are_small(store: MemoryStore) -> None:
    rows = pa.table({"v": [bytes([number % 251]) * 1_000 for number in range(100)]})
    size = put(store, rows, row_group_size=25, use_dictionary=False, compression="none")
    with RowFile(store, "", DataFile("x", rows.num_rows, size), batch_bytes=10_000) as file:
        counts = [each.num_rows for each in file.batches()]
    assert sum(counts) == 100 and max(counts) <= 10 and len(counts) >= 12


def test_a_column_is_found_by_its_id_when_it_was_renamed_and_by_its_name_without_one() -> None:
    there = pa.schema(
        [with_id("old", pa.int32(), 1), with_id("new", pa.string(), 2), pa.field("plain", pa.int64())]
    )
    rows = pa.RecordBatch.from_arrays(
        [pa.array([7], pa.int32()), pa.array(["x"]), pa.array([8])], schema=there
    )
    wanted = pa.schema(
        [with_id("new", pa.int64(), 1), with_id("plain", pa.int64(), 9), with_id("added", pa.string(), 3)]
    )
    found = realigned(rows, wanted)
    assert found.schema.equals(wanted, check_metadata=True)
    assert found.to_pylist() == [{"new": 7, "plain": 8, "added": None}]


def test_nested_columns_of_a_part_of_a_batch_are_put_into_the_types_of_the_table() -> None:
    inner = pa.struct([("a", pa.int32())])
    there = pa.schema([("s", inner), ("l", pa.list_(inner)), ("m", pa.map_(pa.string(), pa.int32()))])
    values = [
        {"s": {"a": 1}, "l": [{"a": 1}, {"a": 2}], "m": [("x", 1)]},
        {"s": None, "l": None, "m": None},
        {"s": {"a": None}, "l": [], "m": []},
        {"s": {"a": 4}, "l": [None, {"a": 5}], "m": [("y", 2), ("z", None)]},
    ]
    rows = pa.RecordBatch.from_pylist(values, there)
    wide = pa.struct([("b", pa.string()), ("a", pa.int64())])
    wanted = pa.schema([("s", wide), ("l", pa.large_list(wide)), ("m", pa.map_(pa.string(), pa.int64()))])

    def widened(value: Any) -> Any:
        return None if value is None else {"b": None, "a": value["a"]}

    expected = [
        {
            "s": widened(each["s"]),
            "l": None if each["l"] is None else [widened(item) for item in each["l"]],
            "m": each["m"],
        }
        for each in values
    ]
    assert realigned(rows, wanted).to_pylist() == expected
    assert realigned(rows.slice(1), wanted).to_pylist() == expected[1:]
    assert realigned(rows, there) is rows
