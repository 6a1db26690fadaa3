"""Avro's logical types on every base type, as Java's Avro reads them: an oracle that shares no code with ours."""

import json
from collections.abc import Iterator
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from oracles.java_avro import JavaAvro, running_java_avro
from siltstone.value_formats.opening import open_decoder
from siltstone.value_formats.settling import settle_format
from siltstone.value_formats.value_format import FormatKind, Schema
from support.kafka.kafka_oracles import or_skip

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka"), pytest.mark.timeout(600)]

ID = UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")
BASES: dict[str, Any] = {
    "int": {"type": "int"},
    "long": {"type": "long"},
    "string": {"type": "string"},
    "bytes": {"type": "bytes"},
    "fixed16": {"type": "fixed", "name": "F", "size": 16},
    "fixed12": {"type": "fixed", "name": "F", "size": 12},
    "fixed3": {"type": "fixed", "name": "F", "size": 3},
}
VALUES: dict[str, list[Any]] = {
    "int": [0, 1, -1, 86_399_999, 2**31 - 1, -(2**31)],
    "long": [
        0,
        -1,
        86_399_999_999,
        1_700_000_000_000,
        1_700_000_000_000_000,
        -62_135_596_800_001,
        253_402_300_800_000,
    ],
    "string": [str(ID), str(UUID(int=5))],
    "bytes": [b"\x04\xd2", b"\xff", b"\x00\x80", b"\x7f\xff\xff", b"\x80\x00\x00"],
    "fixed16": [ID.bytes, UUID(int=5).bytes],
    "fixed12": [bytes(range(12))],
    "fixed3": [b"\x00\x04\xd2", b"\xff\xff\xff"],
}
LOGICAL: list[dict[str, Any]] = [
    *(
        {"logicalType": name}
        for name in (
            "uuid", "date", "time-millis", "time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos",
            "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos", "duration", "unheard-of",
        )
    ),
    {"logicalType": "decimal", "precision": 7, "scale": 2},
    {"logicalType": "decimal", "precision": 45, "scale": 3},
    {"logicalType": "decimal", "precision": 2, "scale": 5},
    {"logicalType": "decimal", "precision": 0},
    {"logicalType": "decimal"},
]  # fmt: skip


@pytest.fixture(scope="module")
def java() -> Iterator[JavaAvro]:
    with or_skip(running_java_avro) as found:
        yield found


def plain(scalar: Any) -> Any:
    """A value of Arrow as Java's are given: times and dates as numbers."""
    kind = scalar.type
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return scalar.cast(pa.int64()).as_py()
    return scalar.cast(pa.int32()).as_py() if pa.types.is_date32(kind) else scalar.as_py()


def ours(schema: str, values: list[bytes]) -> list[Any]:
    decoder = open_decoder(settle_format(FormatKind.AVRO, schema=Schema(FormatKind.AVRO, schema)))
    decoded = decoder.decode(pa.array(values, pa.binary()))
    bad = {each.row for each in decoded.bad}
    return ["bad" if row in bad else plain(decoded.column[row]) for row in range(len(values))]


def theirs(java: JavaAvro, schema: str, value: bytes) -> Any:
    from py4j.protocol import Py4JJavaError

    try:
        return java.read(schema, value)
    except Py4JJavaError:
        return "bad"


@pytest.mark.parametrize("base", BASES)
def test_a_logical_type_on_each_base_type_is_read_as_java_reads_it(java: JavaAvro, base: str) -> None:
    for logical in LOGICAL:
        schema = {**BASES[base], **logical}
        encoded = []
        for value in VALUES[base]:
            out = BytesIO()
            fastavro.schemaless_writer(out, fastavro.parse_schema(BASES[base]), value)
            encoded.append(out.getvalue())
        text = json.dumps(schema)
        for value, found in zip(encoded, ours(text, encoded), strict=True):
            expected = theirs(java, text, value)
            if isinstance(expected, Decimal):
                digits = len(expected.as_tuple().digits)
                if logical["precision"] > 38:
                    expected = f"{expected:f}"  # more digits than Arrow's decimal128 has: text
                elif digits > logical["precision"]:
                    expected = "bad"  # Java does not check it; a column cannot hold it
            assert found == expected, (schema, value)


def test_a_decimal_of_more_digits_than_its_precision_is_not_rounded(java: JavaAvro) -> None:
    schema = json.dumps({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 2})
    assert theirs(java, schema, b"\x04\x30\x39") == Decimal("123.45")
    assert ours(schema, [b"\x04\x30\x39", b"\x04\x00\x7b"]) == ["bad", Decimal("1.23")]
