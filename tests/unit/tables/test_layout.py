"""Which columns a table has, when rows still fit one that is there, and how rows get its columns."""

from typing import Any

import pyarrow as pa
import pytest

from siltstone.tables.layout import (
    Shaping,
    added,
    dead_letter_schema,
    mismatch,
    table_schema,
)
from siltstone.topic_configs.column_types import PLAIN
from siltstone.topic_configs.table_export import TableColumn, TableConfig

RECORD = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
KAFKA = pa.struct([("partition", pa.int32()), ("offset", pa.int64())])


def fields(**kinds: Any) -> Any:
    """A table of fields, with a small struct of the record's columns."""
    return pa.schema([*kinds.items(), ("kafka", KAFKA)])


def columns(*named: tuple[str, str]) -> TableConfig:
    return TableConfig(value="json", columns=tuple(TableColumn(*each) for each in named))


@pytest.mark.parametrize(
    ("value", "key", "types"),
    [
        ("raw", "raw", (pa.binary(), pa.binary())),
        ("json", "raw", (pa.binary(), pa.string())),
        ("string", "string", (pa.string(), pa.string())),
    ],
)
def test_a_table_of_records_has_all_columns_with_decoded_ones_as_text(
    value: str, key: str, types: tuple[Any, Any]
) -> None:
    schema = table_schema(TableConfig(value=value, key=key))
    assert sorted(schema.names) == sorted(RECORD)
    assert (schema.field("key").type, schema.field("value").type) == types
    assert schema.field("offset").type == pa.int64()


def test_a_table_of_fields_has_them_first_and_the_record_without_its_value_in_a_struct() -> None:
    named = [(f"c_{kind}", kind) for kind in PLAIN]
    schema = table_schema(columns(*named))
    assert schema.names == [*(name for name, _ in named), "kafka"]
    inside = schema.field("kafka").type
    assert [each.name for each in inside] == ["partition", "offset", "timestamp", "key", "headers"]
    assert inside.field("key").type == pa.binary()
    assert (schema.field("c_int").type, schema.field("c_long").type) == (pa.int32(), pa.int64())
    text = table_schema(TableConfig(value="json", key="string", columns=(TableColumn("a", "int"),)))
    assert text.field("kafka").type.field("key").type == pa.string()


def test_a_table_of_dead_letters_has_the_record_as_it_was_and_the_reason() -> None:
    schema = dead_letter_schema()
    assert schema.names[-1] == "reason" and sorted(schema.names[:-1]) == sorted(RECORD)
    assert (schema.field("value").type, schema.field("key").type) == (pa.binary(), pa.binary())


@pytest.mark.parametrize(
    ("table", "wanted", "reason"),
    [
        (fields(a=pa.int32()), fields(a=pa.int32()), ""),
        (fields(a=pa.int32()), fields(a=pa.int32(), b=pa.string()), ""),
        (fields(a=pa.int32(), b=pa.string()), fields(a=pa.int32()), ""),
        (fields(a=pa.large_string()), fields(a=pa.string()), ""),
        (fields(a=pa.string()), fields(a=pa.int32()), "column a is string, and int32 is wanted"),
        (fields(a=pa.int64()), fields(a=pa.int32()), "column a is int64, and int32 is wanted"),
        (fields(a=pa.float64()), fields(a=pa.int64()), "column a is double, and int64 is wanted"),
        (pa.schema([("value", pa.binary())]), fields(a=pa.int32()), "it has the columns of records"),
        (pa.schema([("a", pa.int32())]), fields(a=pa.int32()), "it has the columns of records"),
        (fields(a=pa.int32()), pa.schema([("value", pa.binary())]), "it has the columns of records"),
    ],
)
def test_rows_fit_a_table_of_the_same_layout_whose_columns_have_their_types(
    table: Any, wanted: Any, reason: str
) -> None:
    found = mismatch(table, wanted, may_widen=True)
    assert found.startswith(reason) and bool(found) == bool(reason)


def test_an_int_column_becomes_long_only_where_the_format_can_widen() -> None:
    table, wanted = fields(a=pa.int32()), fields(a=pa.int64())
    assert mismatch(table, wanted, may_widen=True) == ""
    assert mismatch(table, wanted, may_widen=False) == "column a is int32, and int64 is wanted"


def test_columns_that_are_new_or_wider_are_added() -> None:
    table = fields(a=pa.int32(), b=pa.large_string(), gone=pa.int32())
    wanted = fields(a=pa.int64(), b=pa.string(), c=pa.bool_())
    assert added(table, wanted) == ["a", "c"]
    assert added(wanted, wanted) == []


def test_rows_get_the_columns_of_the_table_and_null_for_those_that_they_lack() -> None:
    schema = fields(b=pa.large_string(), a=pa.int64(), c=pa.bool_())
    rows = Shaping(schema).rows(
        {
            "a": pa.array([1, None], pa.int32()),
            "b": pa.array(["x", "y"]),
            "kafka.partition": pa.array([0, 0], pa.int32()),
            "kafka.offset": pa.array([7, 8], pa.int64()),
            "offset": pa.array([-1, -1], pa.int64()),
        },
        2,
    )
    assert rows.schema == schema
    assert rows.to_pylist() == [
        {"b": "x", "a": 1, "c": None, "kafka": {"partition": 0, "offset": 7}},
        {"b": "y", "a": None, "c": None, "kafka": {"partition": 0, "offset": 8}},
    ]


def test_a_column_of_the_record_that_rows_lack_is_null_in_the_struct() -> None:
    (row,) = Shaping(fields()).rows({"kafka.offset": pa.array([7])}, 1).to_pylist()
    assert row == {"kafka": {"partition": None, "offset": 7}}
