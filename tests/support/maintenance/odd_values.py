"""Values that are legal and odd, for each format of values, and what a plain model says of them: the columns that a row
has, or that the record is a dead letter. Times are microseconds, dates days, so that nothing here has a calendar."""

import json
import struct
from collections.abc import Mapping
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import fastavro
from google.protobuf import descriptor_pb2, timestamp_pb2

from siltstone.value_formats.descriptors import message_of, schema_of_descriptor_set

LEAST, MOST = -(2**63), 2**63 - 1
DAY_US, HOUR_US = 86_400_000_000, 3_600_000_000
YEAR_1, YEAR_10000 = -719_162, 2_932_897
"""Days since 1970."""

AVRO: dict[str, Any] = {
    "b": {"type": "boolean"},
    "i": {"type": "int"},
    "l": {"type": "long"},
    "f": {"type": "float"},
    "d": {"type": "double"},
    "s": {"type": "string"},
    "y": {"type": "bytes"},
    "dt": {"type": "int", "logicalType": "date"},
    "ms": {"type": "long", "logicalType": "timestamp-millis"},
    "ts": {"type": "long", "logicalType": "timestamp-micros"},
    "dec": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    "u": {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
}
JSON = {
    "b": "boolean",
    "i": "int",
    "l": "long",
    "d": "double",
    "s": "string",
    "j": "json",
    "dt": "date",
    "ts": "timestamp",
}
DIVISIONS = {
    "avro": (
        "", "day(timestamp)", "hour(ms)", "day(ts)", "month(ts)", "year(ts)", "bucket(s,8)", "bucket(y,4)",
        "bucket(ts,4)", "bucket(dt,4)", "truncate(s,3)", "truncate(l,10)", "truncate(i,7)", "identity(s)",
        "identity(l)", "identity(b)",
    ),
    "protobuf": (
        "", "hour(timestamp)", "day(ts)", "hour(ts)", "year(ts)", "month(ts)", "bucket(l,8)", "truncate(s,16)",
        "truncate(l,1000)", "identity(s)",
    ),
    "json": (
        "", "month(timestamp)", "day(ts)", "hour(ts)", "year(ts)", "bucket(s,8)", "truncate(s,1)", "truncate(l,3)",
        "identity(s)", "identity(l)", "identity(b)",
    ),
    "string": ("", "year(timestamp)", "day(timestamp)", "bucket(timestamp,4)", "identity(key)", "truncate(key,2)"),
    "raw": ("", "day(timestamp)", "hour(timestamp)", "bucket(key,4)", "identity(partition)"),
}  # fmt: skip


class Drawn(NamedTuple):
    """A value, and the columns that its row has; None if it is a dead letter."""

    value: bytes
    columns: dict[str, Any] | None


def long_number(rng: Random) -> int:
    edges = (
        0,
        -1,
        1,
        LEAST,
        LEAST + 1,
        MOST,
        2**31,
        -(2**31) - 1,
        253_402_300_800_000_000,
        -62_135_596_800_000_001,
    )
    return rng.choice([*edges, rng.randint(LEAST, MOST), rng.randint(-(10**16), 10**16), rng.getrandbits(20)])


def int_number(rng: Random) -> int:
    return rng.choice([0, -1, 2**31 - 1, -(2**31), YEAR_1 - 1, YEAR_10000, rng.randint(-(2**31), 2**31 - 1)])


def double_number(rng: Random) -> float:
    edges = (0.0, -0.0, 5e-324, 1.7976931348623157e308, float("nan"), float("inf"), float("-inf"), 0.1)
    return rng.choice([*edges, struct.unpack("<d", rng.randbytes(8))[0]])


def text(rng: Random) -> str:
    """Any text: short, as long as a bound is, one longer, very long; of odd characters at its end."""
    odd = [
        "\0",
        "\ud7ff",
        "\ue000",
        "\uffff",
        "\U0010ffff",
        "\x7f",
        "a",
        "ß",
        "\U0001f6eb",
        " ",
        '"',
        "\\",
        "\n",
    ]
    length = rng.choice([0, 1, 2, 15, 16, 17, 300, 5_000])
    same = rng.choice(odd)
    if rng.random() < 0.5:
        return same * length
    return "".join(rng.choice(odd) for _ in range(length))


def some_bytes(rng: Random) -> bytes:
    return rng.choice(
        [b"", b"\0", b"\xff" * 16, b"\xff" * 17, b"\x80", rng.randbytes(20), rng.randbytes(6_000)]
    )


def time_ms(rng: Random) -> int:
    """The time of a record."""
    return rng.choice([long_number(rng), long_number(rng) // 1_000, 1_764_000_000_000, -1, 0])


def avro(rng: Random) -> Drawn:
    unscaled = rng.choice([0, -1, 10**12 - 1, 10**12, -(10**12), rng.randint(-(10**14), 10**14), 10**60])
    decimal = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    raw: dict[str, Any] = {
        "b": rng.random() < 0.5, "i": int_number(rng), "l": long_number(rng),
        "f": struct.unpack("<f", struct.pack("<f", rng.choice([0.5, -0.0, float("nan"), float("inf"), 1e-40])))[0],
        "d": double_number(rng), "s": text(rng), "y": some_bytes(rng), "dt": int_number(rng),
        "ms": rng.choice([long_number(rng), long_number(rng) // 1_000, 1_764_000_000_000]), "ts": long_number(rng),
        "dec": decimal, "u": rng.choice([UUID(int=5).bytes, rng.randbytes(16)]),
    }  # fmt: skip
    out = BytesIO()
    plain = {
        "type": "record",
        "name": "R",
        "fields": _fields({n: {**t, "logicalType": ""} for n, t in AVRO.items()}),
    }
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), raw)
    columns = {
        **raw, "ms": raw["ms"] * 1_000, "dec": Decimal(unscaled).scaleb(-2), "u": str(UUID(bytes=raw["u"])),
    }  # fmt: skip
    is_row = LEAST <= columns["ms"] <= MOST and abs(unscaled) < 10**12
    return Drawn(out.getvalue(), columns if is_row else None)


def _fields(types: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "type": kind} for name, kind in types.items()]


def proto_file() -> Any:
    kinds = descriptor_pb2.FieldDescriptorProto
    made = descriptor_pb2.FileDescriptorProto(
        name="values.proto", package="t", syntax="proto3", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    message = made.message_type.add(name="Value")
    fields = (
        ("i", kinds.TYPE_INT32), ("l", kinds.TYPE_INT64), ("n", kinds.TYPE_UINT64), ("d", kinds.TYPE_DOUBLE),
        ("s", kinds.TYPE_STRING), ("y", kinds.TYPE_BYTES), ("ts", kinds.TYPE_MESSAGE),
    )  # fmt: skip
    for number, (name, kind) in enumerate(fields):
        field = message.field.add(name=name, number=number + 1, type=kind, label=kinds.LABEL_OPTIONAL)
        if kind == kinds.TYPE_MESSAGE:
            field.type_name = ".google.protobuf.Timestamp"
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(made)
    return files


def protobuf(rng: Random) -> Drawn:
    from google.protobuf import message_factory

    schema = schema_of_descriptor_set(proto_file().SerializeToString())
    seconds = rng.choice(
        [long_number(rng), 1_700_000_000_000_000, 1_700_000_000, long_number(rng) // 1_000_000]
    )
    nanos = rng.choice([0, 999_999_999, 1_000])
    columns: dict[str, Any] = {
        "i": int_number(rng), "l": long_number(rng), "n": rng.choice([0, 2**64 - 1, rng.getrandbits(64)]),
        "d": double_number(rng), "s": text(rng), "y": some_bytes(rng),
    }  # fmt: skip
    message = message_factory.GetMessageClass(message_of(schema, "t.Value"))(**columns)
    message.ts.seconds, message.ts.nanos = seconds, nanos
    columns |= {"ts": seconds * 1_000_000 + nanos // 1_000, "n": Decimal(columns["n"])}
    return Drawn(message.SerializeToString(), columns if LEAST <= columns["ts"] <= MOST else None)


def json_text(rng: Random) -> Drawn:
    columns: dict[str, Any] = {
        "b": rng.random() < 0.5, "i": int_number(rng), "l": long_number(rng), "d": double_number(rng), "s": text(rng),
        "j": None, "dt": None, "ts": None,
    }  # fmt: skip
    if rng.random() < 0.7:
        columns["d"] = 0.25
    nested = rng.choice(
        ['{"a": [1, 2e400, "\\ud83d\\ude00"]}', "123456789012345678901234567890", '[["x"]]', '"\\u0000"']
    )
    moments = {
        "0001-01-01T00:00:00+10:00": YEAR_1 * DAY_US - 10 * HOUR_US,
        "9999-12-31T23:59:59-10:00": YEAR_10000 * DAY_US + 10 * HOUR_US - 1_000_000,
        "1969-12-31T23:59:59.999999Z": -1,
        "0000-01-01T00:00:00Z": None, "+57868-01-01T00:00:00Z": None, "2020-01-01T00:00:00": None,
    }  # fmt: skip
    days = {"0001-01-01": YEAR_1, "9999-12-31": YEAR_10000 - 1, "0000-12-31": None}
    moment, day = rng.choice([*moments, *list(moments)[:3] * 2]), rng.choice([*days, *list(days)[:2] * 3])
    members = {name: json.dumps(columns[name]) for name in ("b", "i", "l", "d", "s")}
    members |= {"j": nested, "dt": json.dumps(day), "ts": json.dumps(moment)}
    is_row = moments[moment] is not None and days[day] is not None and members["d"][-1].isdigit()
    if rng.random() < 0.1:
        members[rng.choice(["l", "i", "s", "j"])], is_row = rng.choice(['"\\ud800"', "[1"]), False
    body = "{" + ", ".join(f'"{name}": {member}' for name, member in members.items()) + "}"
    columns |= {"j": nested, "ts": moments[moment], "dt": days[day]}
    return Drawn(body.encode(), columns if is_row else None)


def string(rng: Random) -> Drawn:
    value = rng.choice([text(rng).encode(), some_bytes(rng)])
    try:
        return Drawn(value, {"value": value.decode()})
    except UnicodeDecodeError:
        return Drawn(value, None)


def raw(rng: Random) -> Drawn:
    value = some_bytes(rng)
    return Drawn(value, {"value": value})


DRAWN = {"avro": avro, "protobuf": protobuf, "json": json_text, "string": string, "raw": raw}


def put_schemas(folder: Path) -> None:
    """Writes the schemas of Avro and Protobuf values as files."""
    folder.mkdir(exist_ok=True)
    (folder / "values.avsc").write_text(json.dumps({"type": "record", "name": "R", "fields": _fields(AVRO)}))
    (folder / "values.desc").write_bytes(proto_file().SerializeToString())


def has_place(table_format: str, transform: str, width: int, value: Any, bits: int) -> bool:
    """Returns whether a table that is divided so has a part for the value. ``bits``: the width of a number."""
    if value is None:
        return True
    if transform == "truncate" and isinstance(value, int):
        return bool(value // width * width >= -(2 ** (bits - 1)))
    if table_format == "iceberg" and transform == "hour":
        return -(2**31) <= value // HOUR_US < 2**31
    if table_format == "delta" and transform in ("day", "hour", "month"):
        return YEAR_1 <= value // DAY_US < YEAR_10000
    return True
