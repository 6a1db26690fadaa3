"""Avro, with values that fastavro's writer made."""

import json
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from siltstone.value_formats.decoders.avro import avro_type
from siltstone.value_formats.decoders.writers import NO_SCHEMA
from siltstone.value_formats.decoding import DecodedValues
from siltstone.value_formats.failures import FormatRefused, SchemaMalformed, SchemasNeeded, SchemaUnknown
from siltstone.value_formats.opening import open_decoder
from siltstone.value_formats.schemas.port import HeldSchemas
from siltstone.value_formats.settling import settle_format
from siltstone.value_formats.value_format import FormatKind, Schema

FLIGHT = {
    "type": "record", "name": "t.Flight",
    "fields": [{"name": "id", "type": "int"}, {"name": "carrier", "type": ["null", "string"]}],
}  # fmt: skip
NEWER = {
    **FLIGHT,
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "delay", "type": "double", "default": -1.0},
        {"name": "carrier", "type": ["null", "string"]},
    ],
}


def schema(value: Any, *imports: Any) -> Schema:
    return Schema(FormatKind.AVRO, json.dumps(value), tuple(map(json.dumps, imports)))


def encode(avro: Any, value: Any, schema_id: int | None = None) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(avro), value)
    prefix = b"" if schema_id is None else struct.pack(">bI", 0, schema_id)
    return prefix + out.getvalue()


def decode(reader: Schema, values: list[bytes | None], registry: Any = None) -> DecodedValues:
    fmt = settle_format(FormatKind.AVRO, schema=reader, registry=registry)
    return open_decoder(fmt, registry).decode(pa.array(values, pa.binary()))


def test_values_of_two_schemas_become_rows_of_the_reader_schema() -> None:
    registry = HeldSchemas({1: schema(FLIGHT), 2: schema(NEWER)})
    old = encode(FLIGHT, {"id": 1, "carrier": "UA"}, 1)
    new = encode(NEWER, {"id": 2**40, "delay": 3.5, "carrier": None}, 2)
    decoded = decode(schema(NEWER), [old, None, new], registry)
    assert decoded.column.to_pylist() == [
        {"id": 1, "delay": -1.0, "carrier": "UA"}, None, {"id": 2**40, "delay": 3.5, "carrier": None},
    ]  # fmt: skip
    assert decoded.bad == ()


def test_two_bytes_too_many_too_few_and_garbage_are_bad_values_and_move_nothing() -> None:
    registry = HeldSchemas({1: schema(FLIGHT), 5: Schema(FormatKind.JSON, "{}"), 6: schema({"type": "no"})})
    good = encode(FLIGHT, {"id": 1, "carrier": "UA"}, 1)
    values = [good, good + b"xx", good, good[:-1], b"garbage", b"", good[:5], good]
    other = [b"\0\0\0\0\5x", b"\0\0\0\0\6x"]
    decoded = decode(schema(FLIGHT), [*values, *other], registry)
    assert [each.row for each in decoded.bad] == [1, 3, 4, 5, 6, 8, 9]
    assert [each.schema for each in decoded.bad] == [1, 1, -1, -1, 1, 5, 6]
    reasons = [each.reason for each in decoded.bad]
    assert reasons[0] == "2 bytes are left after the last field"
    assert reasons[2] == NO_SCHEMA
    assert reasons[5] == "schema 5 is of the kind json, not avro"
    assert reasons[6].startswith("the Avro schema cannot be understood: ")
    assert [row for row in decoded.column.to_pylist() if row] == 3 * [{"id": 1, "carrier": "UA"}]


def test_a_task_names_every_schema_that_it_lacks() -> None:
    values: list[bytes | None] = [b"\0\0\0\0\3x", b"\0\0\0\0\1x", b"\0\0\0\0\2x", b"nothing"]
    with pytest.raises(SchemasNeeded) as needed:
        decode(schema(FLIGHT), values, HeldSchemas({1: schema(FLIGHT)}))
    assert needed.value.names == (2, 3)


class Forgetful(HeldSchemas, frozen=True):
    def schema(self, schema_id: int) -> Schema:
        raise SchemaUnknown(f"no schema {schema_id}")


def test_a_schema_that_the_registry_does_not_have_makes_a_bad_value() -> None:
    decoded = decode(schema(FLIGHT), [b"\0\0\0\0\3x"], Forgetful({}))
    assert [(each.row, each.reason, each.schema) for each in decoded.bad] == [(0, "no schema 3", 3)]


def test_plain_values_without_a_registry_are_of_the_reader_schema() -> None:
    decoded = decode(schema(FLIGHT), [encode(FLIGHT, {"id": 0, "carrier": None})])
    assert decoded.column.to_pylist() == [{"id": 0, "carrier": None}]


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def test_every_type() -> None:
    point = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
    types: dict[str, tuple[Any, Any, Any]] = {
        "b": ("boolean", True, True), "f": ("float", 0.5, 0.5), "d": ("double", 0.1, 0.1), "s": ("string", "é", "é"),
        "y": ("bytes", b"\1", b"\1"), "e": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        "x": ({"type": "fixed", "name": "X", "size": 2}, b"ab", b"ab"),
        "l": ({"type": "array", "items": ["null", "long"]}, [1, None], [1, None]),
        "m": ({"type": "map", "values": "int"}, {"k": 1}, [("k", 1)]), "p": (point, {"x": 1}, {"x": 1}),
        "q": ({"type": "array", "items": "Point"}, [{"x": 2}], [{"x": 2}]), "u": (["int", "string"], "x", '"x"'),
        "day": (logical("int", "date"), date(2013, 1, 1), date(2013, 1, 1)),
        "at": (logical("long", "timestamp-millis"), datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 1, 1, tzinfo=UTC)),
        "local": (logical("long", "local-timestamp-micros"), datetime(2013, 1, 1), datetime(2013, 1, 1)),
        "n": (logical("bytes", "decimal", precision=9, scale=2), Decimal("1.25"), Decimal("1.25")),
        "id": (logical("string", "uuid"), UUID(int=5), str(UUID(int=5))),
        "by": ({"type": "map", "values": logical("string", "uuid")}, {"k": UUID(int=5)}, [("k", str(UUID(int=5)))]),
        "ids": ({"type": "array", "items": logical("string", "uuid")}, [UUID(int=5)], [str(UUID(int=5))]),
    }  # fmt: skip
    avro = {"type": "record", "name": "All", "fields": [{"name": n, "type": t[0]} for n, t in types.items()]}
    decoded = decode(schema(avro), [encode(avro, {name: each[1] for name, each in types.items()})])
    assert decoded.bad == ()
    assert decoded.column[0].as_py() == {name: each[2] for name, each in types.items()}


@pytest.mark.parametrize(
    ("digits", "arrow_type", "found"),
    [
        (38, pa.decimal128(38, 30), Decimal(f"1.25{'0' * 28}")),
        (39, pa.string(), f"1.25{'0' * 28}"),
    ],
)
def test_a_decimal_of_more_digits_than_arrow_has_is_text(digits: int, arrow_type: Any, found: Any) -> None:
    kind = logical("bytes", "decimal", precision=digits, scale=30)
    avro = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "n", "type": kind}, {"name": "l", "type": {"type": "array", "items": kind}}],
    }
    number = Decimal("1.25")
    decoded = decode(schema(avro), [encode(avro, {"n": number, "l": [number]})])
    assert decoded.bad == ()
    assert decoded.column.type == pa.struct([("n", arrow_type), ("l", pa.list_(arrow_type))])
    assert decoded.column[0].as_py() == {"n": found, "l": [found]}


@pytest.mark.parametrize(
    "kind",
    [
        ["int", "string"],
        {"type": "array", "items": ["int", "string"]},
        {"type": "map", "values": ["int", "string"]},
    ],
)
def test_a_union_of_several_types_is_json_in_text_wherever_it_is(kind: Any) -> None:
    avro = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["null", kind]}]}
    value = {"array": [1, "x"], "map": {"k": "x"}}.get(kind["type"], 1) if isinstance(kind, dict) else 1
    decoded = decode(schema(avro), [encode(avro, {"u": value}), encode(avro, {"u": None})])
    assert decoded.column.type == pa.struct([("u", pa.string())])
    texts = [row["u"] for row in decoded.column.to_pylist()]
    assert (json.loads(texts[0]), texts[1]) == (value, None)


def test_a_record_that_holds_itself_is_json_in_text() -> None:
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "v", "type": "bytes"}, {"name": "next", "type": ["null", "Node"]}],
    }
    value = {"v": b"a", "next": {"v": b"b", "next": None}}
    decoded = decode(schema(node), [encode(node, value)])
    assert decoded.column[0].as_py() == {"v": b"a", "next": '{"v":"Yg==","next":null}'}


def test_a_schema_that_refers_to_others() -> None:
    point = {"type": "record", "name": "t.Point", "fields": [{"name": "x", "type": "int"}]}
    line = {"type": "record", "name": "t.Line", "fields": [{"name": "a", "type": "t.Point"}]}
    named: dict[str, Any] = {}
    fastavro.parse_schema(point, named_schemas=named)
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(line, named_schemas=named), {"a": {"x": 7}})
    assert decode(schema(line, point), [out.getvalue()]).column.to_pylist() == [{"a": {"x": 7}}]


def test_schemas_that_cannot_be_understood() -> None:
    for text in (
        "{",
        '{"type": "record", "name": "X", "fields": [{"name": "a", "type": "Missing"}]}',
        "[]x",
        "3",
    ):
        with pytest.raises(SchemaMalformed):
            avro_type(Schema(FormatKind.AVRO, text))
    with pytest.raises(SchemaMalformed, match="union"):
        avro_type(Schema(FormatKind.AVRO, '["int", "string"]'))
    with pytest.raises(FormatRefused, match="needs a schema"):
        settle_format(FormatKind.AVRO)
    assert avro_type(Schema(FormatKind.AVRO, " int ")) == pa.int32(), (
        "the name of a plain type, without quotes"
    )


# -- logical types; tests/integration/test_java_avro.py compares them with Java's


def of_long(logical: str, *values: int) -> DecodedValues:
    kind = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": {"type": "long", "logicalType": logical}}],
    }
    plain = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    return decode(schema(kind), [encode(plain, {"a": value}) for value in values])


def test_rule_14_times_that_python_does_not_have_are_values() -> None:
    far = [-62_135_596_800_001, 253_402_300_800_000, 1_764_000_000_000_000]
    decoded = of_long("timestamp-millis", *far, 2**60, 0)
    assert [each.row for each in decoded.bad] == [3]
    assert decoded.column.field("a").cast(pa.int64()).to_pylist() == [
        *(each * 1_000 for each in far),
        None,
        0,
    ]
    assert not decoded.column[3].is_valid
    decoded = of_long("timestamp-micros", 2**63 - 1, -(2**63))
    assert decoded.column.field("a").cast(pa.int64()).to_pylist() == [2**63 - 1, -(2**63)]


def test_a_time_of_day_is_within_a_day() -> None:
    decoded = of_long("time-micros", 86_399_999_999, 86_400_000_000, -1)
    assert [(each.row, "no time of day" in each.reason) for each in decoded.bad] == [(1, True), (2, True)]


def test_a_uuid_on_a_fixed_is_text() -> None:
    fixed = {"type": "fixed", "name": "U", "size": 16}
    found = decode(schema({**fixed, "logicalType": "uuid"}), [encode(fixed, UUID(int=5).bytes)])
    assert (found.column.to_pylist(), found.bad) == ([str(UUID(int=5))], ())
    again = {"type": "record", "name": "R", "fields": [
        {"name": "a", "type": {**fixed, "logicalType": "uuid"}}, {"name": "b", "type": ["null", "U"]},
    ]}  # fmt: skip
    value = b"".join((UUID(int=6).bytes, b"\2", UUID(int=7).bytes))
    (row,) = decode(schema(again), [value]).column.to_pylist()
    assert row == {"a": str(UUID(int=6)), "b": str(UUID(int=7))}


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        ({"type": "string", "logicalType": "date"}, pa.string()),
        ({"type": "long", "logicalType": "date"}, pa.int64()),
        ({"type": "int", "logicalType": "timestamp-millis"}, pa.int32()),
        ({"type": "long", "logicalType": "timestamp-nanos"}, pa.int64()),
        ({"type": "bytes", "logicalType": "uuid"}, pa.binary()),
        ({"type": "fixed", "name": "F", "size": 12, "logicalType": "uuid"}, pa.binary()),
        ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, pa.binary()),
        ({"type": "bytes", "logicalType": "big-decimal"}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 5}, pa.binary()),
        ({"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 3}, pa.binary()),
        (
            {"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 2},
            pa.decimal128(2, 0),
        ),
    ],
)
def test_a_logical_type_that_does_not_count_is_ignored(kind: Any, arrow: Any) -> None:
    assert avro_type(schema(kind)) == arrow


def test_times_in_json_text_are_written_as_iso_8601_writes_them() -> None:
    moment = {"type": "long", "logicalType": "timestamp-millis"}
    day, clock = {"type": "int", "logicalType": "date"}, {"type": "int", "logicalType": "time-millis"}
    either = ["string", moment, {"type": "record", "name": "D", "fields": [
        {"name": "d", "type": day}, {"name": "c", "type": clock},
    ]}]  # fmt: skip
    kind = {"type": "record", "name": "R", "fields": [{"name": "a", "type": either}]}
    millis = b"\2\xd0\x0f"
    far = encode({"type": "record", "name": "R", "fields": [{"name": "a", "type": ["string", "long"]}]},
                 {"a": 253_402_300_800_000})  # fmt: skip
    found = decode(schema(kind), [millis, far, b"\4\2\xd0\x0f", b"\0\2x"])
    assert [row["a"] for row in found.column.to_pylist()] == [
        '"1970-01-01T00:00:01Z"', '"10000-01-01T00:00:00.000000Z"', '{"d":"1970-01-02","c":"00:00:01"}',
        '"x"',
    ]  # fmt: skip


MOMENT = {"type": "long", "logicalType": "timestamp-millis"}
CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


@pytest.mark.parametrize(
    ("before", "after", "value", "found"),
    [
        ("long", MOMENT, 1_700_000_000_000, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        ("int", MOMENT, 1_000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (["null", "long"], ["null", MOMENT], 1_000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("long", ["null", MOMENT], 1_000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (
            {"type": "array", "items": "long"},
            {"type": "array", "items": MOMENT},
            [0],
            [datetime(1970, 1, 1, tzinfo=UTC)],
        ),
        ("bytes", CENTS, b"\x7b", Decimal("1.23")),
        (MOMENT, "long", 1_000, 1_000),
        ("int", {"type": "int", "logicalType": "date"}, 1, date(1970, 1, 2)),
    ],
)
def test_an_annotation_that_was_added_later_counts_for_older_values(
    before: Any, after: Any, value: Any, found: Any
) -> None:
    def of(kind: Any) -> dict[str, Any]:
        return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}

    plain = of("long") if before is MOMENT else of(before)
    registry = HeldSchemas({1: schema(of(before)), 2: schema(of(after))})
    decoded = decode(schema(of(after)), [encode(plain, {"a": value}, 1)], registry)
    assert (decoded.column.to_pylist(), decoded.bad) == ([{"a": found}], ())
