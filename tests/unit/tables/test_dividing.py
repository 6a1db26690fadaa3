"""Which rows the division of a table has no part for; tests/property has the values that it has."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from siltstone.tables.dividing import divided, without_place
from siltstone.topic_configs.table_export import PartitionTransform, TableConfig

TIME = pa.timestamp("us", tz="UTC")


def batch(values: Sequence[Any], kind: Any) -> Any:
    name = "timestamp" if pa.types.is_timestamp(kind) else "a"
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], names=[name])


def outside(table_format: str, transform: str, values: Sequence[Any], kind: Any = TIME) -> list[int]:
    rows = batch(values, kind)
    by = (PartitionTransform(transform, rows.schema.names[0]),)
    return list(without_place(rows, by, TableConfig(table_format=table_format)))


def test_rule_14_delta_has_the_days_of_the_years_1_to_9999() -> None:
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    for transform in ("day", "month", "hour"):
        assert outside("delta", transform, [first - 1, first, None, last, last + 1, -(2**63)]) == [0, 4, 5]
        assert outside("parquet", transform, [first - 1, -(2**63)]) == []
    assert outside("delta", "year", [-(2**63), 2**63 - 1]) == []


def test_rule_14_iceberg_counts_hours_in_32_bits() -> None:
    hour = 3_600_000_000
    ends = [2**31 * hour - 1, 2**31 * hour, -(2**31) * hour, -(2**31) * hour - 1]
    assert outside("iceberg", "hour", ends) == [1, 3]
    assert outside("iceberg", "day", ends) == outside("iceberg", "bucket[4]", ends) == []


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()])
@pytest.mark.parametrize("width", [1, 2, 7, 10, 1_000_000])
def test_rule_14_a_number_is_not_rounded_down_beyond_the_least_number(kind: Any, width: int) -> None:
    least = -(2 ** (kind.bit_width - 1))
    values = [least, least + 1, least + width, -1, 0, None, -least - 1]
    expected = [
        row for row, value in enumerate(values) if value is not None and value // width * width < least
    ]
    assert outside("iceberg", f"truncate[{width}]", values, kind) == expected


def test_the_years_and_months_of_any_time() -> None:
    rows = batch([-(2**63), -1, 0, 2**63 - 1, 1_764_000_000_000_000_000], TIME)
    for transform, expected in (
        ("year", (-292_278, -1, 0, 292_277, 55_898)),
        ("month", (-3_507_324, -1, 0, 3_507_324, 670_786)),
    ):
        by = (PartitionTransform(transform, "timestamp"),)
        found = [values[0] for values, part in divided(rows, by, TableConfig()) for _ in range(part.num_rows)]
        assert transform == "month" or found == list(expected)
        if transform == "month":
            assert [each // 12 for each in found if isinstance(each, int)] == [
                -292_278,
                -1,
                0,
                292_277,
                55_898,
            ]
