"""The columns of a Delta table's division, and the values in them."""

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.tables.formats.derived import (
    column_value,
    derived_field,
    division_column,
    is_derived,
    log_text,
    partition_value,
    with_division,
)
from siltstone.topic_configs.table_export import TIME_TRANSFORMS, PartitionTransform

DAY = PartitionTransform("day", "kafka.timestamp")
CARRIER = PartitionTransform("identity", "carrier")
PARTITION = PartitionTransform("identity", "kafka.partition")
SCHEMA = pa.schema([("carrier", pa.string()), ("kafka", pa.struct([("partition", pa.int32())]))])


def test_the_columns_of_a_division() -> None:
    named = [division_column(each) for each in (DAY, CARRIER, PARTITION)]
    assert named == ["timestamp_day", "carrier", "kafka_partition"]
    assert [is_derived(each) for each in (DAY, CARRIER, PARTITION)] == [True, False, True]
    assert derived_field(PARTITION, SCHEMA) == pa.field("kafka_partition", pa.int32())
    assert derived_field(DAY, SCHEMA) == pa.field("timestamp_day", pa.date32())


@pytest.mark.parametrize(
    ("transform", "value", "found", "text"),
    [
        ("year", 53, 2023, "2023"),
        ("month", 646, date(2023, 11, 1), "2023-11-01"),
        ("month", -1, date(1969, 12, 1), "1969-12-01"),
        ("day", 19_675, date(2023, 11, 14), "2023-11-14"),
        ("hour", 472_222, datetime(2023, 11, 14, 22, tzinfo=UTC), "2023-11-14 22:00:00"),
        ("hour", -1, datetime(1969, 12, 31, 23, tzinfo=UTC), "1969-12-31 23:00:00"),
        ("identity", "x", "x", "x"),
        ("identity", "", "", None),
        ("identity", True, True, "true"),
        ("identity", -5, -5, "-5"),
        ("identity", None, None, None),
        ("day", None, None, None),
    ],
)
def test_values_as_columns_and_as_texts_of_the_log(
    transform: str, value: object, found: object, text: str
) -> None:
    by = PartitionTransform(transform, "timestamp")
    assert column_value(by, value) == found  # type: ignore[arg-type]
    assert log_text(found) == text
    assert partition_value(by, found) == value


@given(st.sampled_from(TIME_TRANSFORMS), st.integers(-700, 3_000))
def test_times_come_back(transform: str, value: int) -> None:
    by = PartitionTransform(transform, "timestamp")
    assert partition_value(by, column_value(by, value)) == value


def test_rows_of_one_partition_value_get_its_columns() -> None:
    schema = pa.schema([*SCHEMA, derived_field(DAY, SCHEMA)])
    rows = pa.RecordBatch.from_arrays(
        [pa.array(["A", "A"]), pa.nulls(2, schema.field("kafka").type), pa.nulls(2, pa.date32())],
        schema=schema,
    )
    found = with_division(rows, (CARRIER, DAY), ("A", 19_675))
    assert found.column("timestamp_day").to_pylist() == [date(2023, 11, 14)] * 2
    assert found.schema == schema and found.column("carrier").to_pylist() == ["A", "A"]
    assert with_division(rows, (), ()) is rows
    assert with_division(rows, (DAY,), (None,)).column("timestamp_day").null_count == 2
