"""Avro on writing: what is written is what the decoder of scans and fastavro read."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from siltstone.value_formats.encoders.avro import AvroEncoder
from siltstone.value_formats.failures import RowNotEncodable, SchemaMalformed
from siltstone.value_formats.opening import open_decoder
from siltstone.value_formats.settling import settle_format
from siltstone.value_formats.value_format import FormatKind, Schema, ValueEncoding
from support.values.schema_registry import record

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "gate", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "legs", "type": {"type": "array", "items": {"type": "record", "name": "Leg",
                                                              "fields": [{"name": "miles", "type": "int"}]}}},
    ],
}  # fmt: skip
TYPE = pa.struct(
    [("id", pa.int64()), ("gate", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("price", pa.decimal128(9, 2)),
     ("counts", pa.map_(pa.string(), pa.int32())), ("legs", pa.list_(pa.struct([("miles", pa.int32())])))]
)  # fmt: skip
ROW = {
    "id": 2**40, "gate": "ä", "at": datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "price": Decimal("12.50"),
    "counts": [("a", 1)], "legs": [{"miles": 3}],
}  # fmt: skip


def schema(given: dict[str, Any] = FLIGHT) -> Schema:
    return Schema(FormatKind.AVRO, json.dumps(given))


def test_rows_become_values_that_the_decoder_reads_and_null_is_a_tombstone() -> None:
    column = pa.array([ROW, None, {**ROW, "gate": None, "counts": [], "legs": []}], TYPE)
    values = list(AvroEncoder(ValueEncoding(schema())).encode(column))
    assert values[1] is None
    decoder = open_decoder(settle_format(FormatKind.AVRO, schema=schema()))
    found = decoder.decode(pa.array(values, pa.binary()))
    assert (found.column.to_pylist(), found.bad) == (column.to_pylist(), ())
    read = fastavro.schemaless_reader(BytesIO(values[0] or b""), FLIGHT)
    assert (read["id"], read["counts"]) == (2**40, {"a": 1})


def test_a_schema_of_a_registry_has_its_id_before_each_value() -> None:
    column = pa.array([{"id": 1}], pa.struct([("id", pa.int64())]))
    plain, framed = (
        next(AvroEncoder(ValueEncoding(schema(record(id="long")), number)).encode(column))
        for number in (-1, 258)
    )
    assert framed == b"\0\0\0\1\2" + (plain or b"")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"id": "x"}, "id"),
        ({}, "id"),
        ({"id": 1, "other": 2}, "other"),
        ({"id": None}, "id"),
        ({"id": 2**70}, ""),
    ],
)
def test_a_row_that_does_not_fit_is_refused(row: dict[str, Any], why: str) -> None:
    one = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}

    class Column:
        def to_pylist(self, maps_as_pydicts: str) -> list[Any]:
            return [row]

    with pytest.raises(RowNotEncodable, match=f"does not fit the Avro schema: .*{why}"):
        list(AvroEncoder(ValueEncoding(schema(one))).encode(Column()))


def test_a_schema_that_is_none() -> None:
    with pytest.raises(SchemaMalformed):
        AvroEncoder(ValueEncoding(Schema(FormatKind.AVRO, "{")))
