"""Protobuf, with messages that Google's library encodes."""

import base64
import struct
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, message_factory, timestamp_pb2, wrappers_pb2

from siltstone.value_formats.decoders.protobuf import protobuf_type
from siltstone.value_formats.decoding import DecodedValues
from siltstone.value_formats.descriptors import file_of, message_at, message_of, schema_of_descriptor_set
from siltstone.value_formats.failures import FormatRefused, SchemaMalformed, SchemasNeeded
from siltstone.value_formats.opening import open_decoder
from siltstone.value_formats.schemas.port import HeldSchemas
from siltstone.value_formats.settling import settle_format
from siltstone.value_formats.value_format import FormatKind, Schema

Field = descriptor_pb2.FieldDescriptorProto
OPTIONAL, REPEATED = Field.LABEL_OPTIONAL, Field.LABEL_REPEATED


def field(name: str, number: int, kind: int, label: int = OPTIONAL, type_name: str = "", **more: Any) -> Any:
    named = {"type_name": type_name} if type_name else {}
    return Field(name=name, number=number, type=kind, label=label, **named, **more)


def flight_file() -> Any:
    made = descriptor_pb2.FileDescriptorProto(
        name="flight.proto", package="t", syntax="proto3",
        dependency=[timestamp_pb2.DESCRIPTOR.name, wrappers_pb2.DESCRIPTOR.name],
    )  # fmt: skip
    color = made.enum_type.add(name="Color")
    color.value.add(name="RED", number=0)
    color.value.add(name="BLUE", number=1)
    flight = made.message_type.add(name="Flight")
    entry = flight.nested_type.add(name="CountsEntry", options=descriptor_pb2.MessageOptions(map_entry=True))
    entry.field.extend(
        [field("key", 1, Field.TYPE_STRING), field("value", 2, Field.TYPE_ENUM, type_name=".t.Color")]
    )
    flight.oneof_decl.add(name="_gate")
    flight.field.extend(
        [
            field("id", 1, Field.TYPE_INT64),
            field("gate", 2, Field.TYPE_STRING, proto3_optional=True, oneof_index=0),
            field("color", 3, Field.TYPE_ENUM, type_name=".t.Color"),
            field("colors", 4, Field.TYPE_ENUM, REPEATED, ".t.Color"),
            field("at", 5, Field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp"),
            field("delay", 6, Field.TYPE_MESSAGE, type_name=".google.protobuf.DoubleValue"),
            field("counts", 7, Field.TYPE_MESSAGE, REPEATED, ".t.Flight.CountsEntry"),
            field("next", 8, Field.TYPE_MESSAGE, type_name=".t.Flight"),
            field("big", 9, Field.TYPE_UINT64),
            field("legs", 10, Field.TYPE_MESSAGE, REPEATED, ".t.Leg"),
        ]
    )
    leg = made.message_type.add(name="Leg")
    leg.field.extend([field("miles", 1, Field.TYPE_INT32), field("raw", 2, Field.TYPE_BYTES)])
    return made


def schema() -> Schema:
    return Schema(FormatKind.PROTOBUF, base64.b64encode(flight_file().SerializeToString()).decode())


def message(name: str, **values: Any) -> Any:
    return message_factory.GetMessageClass(message_of(schema(), name))(**values)


def decode(values: list[bytes | None], registry: Any = None, name: str = "") -> DecodedValues:
    fmt = settle_format(FormatKind.PROTOBUF, schema=schema(), registry=registry, message=name)
    return open_decoder(fmt, registry).decode(pa.array(values, pa.binary()))


def framed(schema_id: int, path: bytes, payload: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + path + payload


def test_every_type() -> None:
    full = message(
        "t.Flight", id=1, gate="", color=1, colors=[0, 1, 7], counts={"k": 1}, big=2**64 - 1,
        delay={}, legs=[{"miles": 5, "raw": b"\1"}],
    )  # fmt: skip
    full.at.FromDatetime(datetime(2013, 1, 1, 5, 15, tzinfo=UTC))
    full.next.id = 2
    decoded = decode([full.SerializeToString(), None, b""])
    assert decoded.bad == ()
    first, missing, empty = decoded.column.to_pylist()
    assert missing is None
    assert first == {
        "id": 1, "gate": "", "color": "BLUE", "colors": ["RED", "BLUE", "7"],
        "at": datetime(2013, 1, 1, 5, 15, tzinfo=UTC), "delay": 0.0, "counts": [("k", "BLUE")],
        "next": '{"id":"2"}', "big": Decimal(2**64 - 1), "legs": [{"miles": 5, "raw": b"\1"}],
    }  # fmt: skip
    assert empty == {
        "id": 0, "gate": None, "color": "RED", "colors": [], "at": None, "delay": None, "counts": [], "next": None,
        "big": Decimal(0), "legs": [],
    }  # fmt: skip


def test_the_path_has_to_lead_to_the_message_that_is_read() -> None:
    registry = HeldSchemas({3: schema(), 4: Schema(FormatKind.AVRO, '"int"')})
    leg = message("t.Leg", miles=9).SerializeToString()
    values: list[bytes | None] = [
        framed(3, b"\x02\x02", leg), framed(3, b"\0", leg), framed(3, b"\x02\x08", leg), framed(4, b"\0", leg), leg,
        framed(3, b"\x02\x02", leg + b"\xff"), framed(3, b"", b""),
    ]  # fmt: skip
    decoded = decode(values, registry, "t.Leg")
    assert decoded.column.to_pylist() == [{"miles": 9, "raw": b""}, *6 * [None]]
    assert [each.row for each in decoded.bad] == [1, 2, 3, 4, 5, 6]
    assert "it is a t.Flight, not a t.Leg" in decoded.bad[0].reason
    with pytest.raises(SchemasNeeded):
        decode([framed(9, b"\0", leg)], registry)


def test_a_descriptor_set_of_protoc_has_what_it_imports() -> None:
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(flight_file())
    read = schema_of_descriptor_set(files.SerializeToString())
    assert read.text == schema().text
    assert [file_of(text).name for text in read.imports] == ["google/protobuf/timestamp.proto"]
    assert protobuf_type(read, "t.Leg") == pa.struct([("miles", pa.int32()), ("raw", pa.binary())])


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ((0,), "t.Flight"),
        ((1,), "t.Leg"),
        ((0, 0), "t.Flight.CountsEntry"),
        ((2,), None),
        ((-1,), None),
        ((1, 0), None),
    ],
)
def test_a_path_leads_to_a_message_of_the_file_or_to_none(path: tuple[int, ...], name: str | None) -> None:
    assert message_at(flight_file(), path) == name


def test_without_a_name_the_first_message_is_read_and_a_file_may_have_none() -> None:
    assert message_of(schema()).full_name == "t.Flight"
    only = descriptor_pb2.FileDescriptorProto(name="empty.proto", syntax="proto3")
    text = base64.b64encode(only.SerializeToString()).decode()
    with pytest.raises(FormatRefused, match=r"empty\.proto has no message: name one of what it imports"):
        message_of(Schema(FormatKind.PROTOBUF, text))
    imports = (schema().text,)
    assert message_of(Schema(FormatKind.PROTOBUF, text, imports), "t.Leg").full_name == "t.Leg"
    bare = descriptor_pb2.FileDescriptorProto(name="bare.proto", syntax="proto3")
    bare.message_type.add(name="M")
    assert message_at(bare, (0,)) == "M", "without a package"


def test_descriptors_that_cannot_be_understood() -> None:
    for text in ("!", base64.b64encode(b"\xff").decode()):
        with pytest.raises(SchemaMalformed):
            protobuf_type(Schema(FormatKind.PROTOBUF, text))
    with pytest.raises(SchemaMalformed):
        protobuf_type(schema(), "t.Missing")
    with pytest.raises(SchemaMalformed):
        schema_of_descriptor_set(b"")
    with pytest.raises(FormatRefused):
        settle_format(FormatKind.PROTOBUF)


IN_A_WORKER = """
import sys, types
sys.modules["google"] = types.ModuleType("google")
sys.modules["google.protobuf"] = types.ModuleType("google.protobuf")
from siltstone.value_formats.decoders import protobuf
from siltstone.value_formats.schemas import folder
"""


def test_a_worker_of_spark_without_protobuf_loads_the_decoders() -> None:
    """Its ``sys.path`` has a jar of Spark's with a folder google/protobuf: there is such a package, and it is empty."""
    subprocess.run([sys.executable, "-c", IN_A_WORKER], check=True, timeout=60)
