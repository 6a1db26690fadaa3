"""The statistics of a data file in a manifest: those of pyiceberg where it has them, and what it cannot make."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from siltstone.tables.formats.iceberg_statistics import bounds_of, file_statistics

TYPES = {
    "boolean": BooleanType(), "int": IntegerType(), "long": LongType(), "float": FloatType(), "double": DoubleType(),
    "text": StringType(), "bytes": BinaryType(), "date": DateType(), "time": TimeType(), "at": TimestamptzType(),
    "local": TimestampType(), "decimal": DecimalType(9, 2), "wide": DecimalType(38, 4),
    "list": ListType(50, LongType(), element_required=False),
}  # fmt: skip
SCHEMA = Schema(
    *(NestedField(at + 1, name, kind, required=False) for at, (name, kind) in enumerate(TYPES.items()))
)
ROWS: dict[str, list[Any]] = {
    "boolean": [True, False, None], "int": [5, -7, None], "long": [2**63 - 1, -(2**63), 0],
    "float": [0.5, float("nan"), -1.5], "double": [-0.0, 0.0, None], "text": ["a" * 40, "", "zz"],
    "bytes": [b"\xff" * 40, b"", b"a" * 17], "date": [date(2020, 1, 1), date(1600, 1, 1), None],
    "time": [time(1), None, time(23, 59)], "at": [datetime(2020, 1, 1, tzinfo=UTC), None, None],
    "local": [datetime(1969, 12, 31), None, datetime(9999, 12, 31)],
    "decimal": [Decimal("-1.28"), Decimal("1.27"), None], "wide": [Decimal("1e20"), Decimal("-3"), None],
    "list": [[1, None, 9], [], None],
}  # fmt: skip


def footer_of(rows: dict[str, list[Any]], group: int = 2) -> Any:
    """Returns the footer of a file with several row groups."""
    out = BytesIO()
    schema = schema_to_pyarrow(SCHEMA)
    given = {name: rows.get(name, [None] * len(next(iter(rows.values())))) for name in TYPES}
    pq.write_table(pa.table(given, schema=schema), out, row_group_size=group, store_schema=False)
    return pq.read_metadata(BytesIO(out.getvalue()))


@pytest.mark.parametrize("properties", [
    {}, {"write.metadata.metrics.default": "full"}, {"write.metadata.metrics.default": "counts"},
    {"write.metadata.metrics.default": "none"}, {"write.metadata.metrics.column.text": "truncate(3)"},
])  # fmt: skip
def test_the_statistics_are_those_of_pyiceberg(properties: dict[str, str]) -> None:
    footer = footer_of(ROWS)
    theirs = data_file_statistics_from_parquet_metadata(
        footer, compute_statistics_plan(SCHEMA, properties), parquet_path_to_id_mapping(SCHEMA)
    ).to_serialized_dict()
    assert file_statistics(footer, SCHEMA, properties) == theirs


def bounds(name: str, values: list[Any], group: int = 2) -> tuple[Any, Any]:
    field = SCHEMA.find_field(name)
    found = file_statistics(footer_of({name: values}, group), SCHEMA, {})
    ends = (found[each].get(field.field_id) for each in ("lower_bounds", "upper_bounds"))
    lower, upper = (None if each is None else from_bytes(field.field_type, each) for each in ends)
    return lower, upper


def test_rule_14_times_that_python_does_not_have_have_bounds() -> None:
    least, most = (
        pa.scalar(-(2**63), pa.timestamp("us", "UTC")),
        pa.scalar(2**63 - 1, pa.timestamp("us", "UTC")),
    )
    assert bounds("at", [least, most]) == (-(2**63), 2**63 - 1)
    days = [pa.scalar(day, pa.date32()) for day in (-(2**31), 2**31 - 1)]
    assert bounds("date", days) == (-(2**31), 2**31 - 1)


@pytest.mark.parametrize(("end", "bound"), [
    ("\ud7ff", "a" * 15 + "\ue000"), ("\U0010ffff", "a" * 14 + "b"), ("\0", "a" * 15 + "\1"),
])  # fmt: skip
def test_rule_14_an_upper_bound_that_is_cut_is_no_half_of_a_character(end: str, bound: str) -> None:
    assert bounds("text", ["a" * 15 + end + "x"]) == ("a" * 15 + end, bound)
    assert bounds("text", ["\U0010ffff" * 17]) == ("\U0010ffff" * 16, None)


def test_values_too_long_for_a_footer_have_no_bounds() -> None:
    assert bounds("text", ["b", "a" * 10_000], group=1) == (None, None)
    assert bounds("text", ["b", None], group=1) == ("b", "b")
    assert bounds("double", [float("nan"), 1.0], group=1) == (1.0, 1.0)


def test_rule_14_a_bound_that_cannot_be_made_costs_the_bound() -> None:
    with pytest.raises(KeyError):
        bounds_of(object, (1, 2), None)  # type: ignore[arg-type]
    footer = footer_of({"int": [1, 2]})
    wrong = Schema(
        *(
            NestedField(f.field_id, f.name, FloatType() if f.name == "text" else f.field_type)
            for f in SCHEMA.fields
        )
    )
    text = footer_of({"text": ["a", "b"]})
    assert 6 not in file_statistics(text, wrong, {})["lower_bounds"]
    assert 2 in file_statistics(footer, SCHEMA, {})["lower_bounds"]
