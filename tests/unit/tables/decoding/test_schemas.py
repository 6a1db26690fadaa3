"""Values with schemas become rows of a table: each is what the library of its format reads with its own schema."""

import json
import random
import struct
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from siltstone.tables.decoding.schemas import SchemaDecoder
from siltstone.tables.layout import table_schema
from siltstone.tables.task_input import ValueSchemas
from siltstone.topic_configs.table_export import LATEST, TableConfig
from siltstone.value_formats.decoders.writers import NO_SCHEMA
from siltstone.value_formats.value_format import FormatKind, Schema
from support.values.schema_registry import record

AVRO = TableConfig(value="avro")
SCHEMAS = {
    1: record(id="int"),
    2: record(id="long", gate="string"),
    3: record(gate="string", legs={"type": "array", "items": {"type": "map", "values": "int"}}),
}
COLUMNS = {"id": pa.int64(), "gate": pa.string(), "legs": pa.list_(pa.map_(pa.string(), pa.int64()))}


def given(**changes: Any) -> ValueSchemas:
    by_id = {number: Schema(FormatKind.AVRO, json.dumps(each)) for number, each in SCHEMAS.items()}
    return ValueSchemas(**{"by_name": by_id, "refused": {9: "it was refused"}, **changes})


def encoded(schema_id: int, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, SCHEMAS[schema_id], value)
    return struct.pack(">bI", 0, schema_id) + out.getvalue()


def decoder(config: TableConfig = AVRO, **changes: Any) -> SchemaDecoder:
    return SchemaDecoder(config, given(**changes), table_schema(config, COLUMNS))


def drawn(rng: random.Random) -> tuple[int, dict[str, Any]]:
    schema_id = rng.choice([1, 2, 3])
    every = {
        "id": rng.choice([None, rng.randrange(-(2**31), 2**31)]),
        "gate": rng.choice([None, "ä", ""]),
        "legs": rng.choice([None, [], [{}, {"a": 1, "b": -1}], [{"x": 5}]]),
    }
    names = {each["name"] for each in SCHEMAS[schema_id]["fields"]}
    return schema_id, {name: value for name, value in every.items() if name in names}


@pytest.mark.parametrize("seed", range(12))
def test_tb17_rows_of_several_schemas_stay_in_their_places(seed: int) -> None:
    rng = random.Random(seed)
    values: list[bytes | None] = []
    rows: list[dict[str, Any]] = []
    bad: set[int] = set()
    for number in range(rng.randrange(80)):
        schema_id, value = drawn(rng)
        good = encoded(schema_id, value)
        values.append(rng.choice([good] * 12 + [None, good + b"\0\0", b"xx", b"\0\0\0\0\x09"]))
        if values[-1] is not None and values[-1] != good:
            bad.add(number)
        rows.append(value if values[-1] == good else {})
    whole = pa.array([b"before", *values, b"behind"], pa.binary())
    found = decoder().decode(whole.slice(1, len(values)))
    assert set(found.bad) == bad
    columns = pa.table(found.columns).to_pylist()
    for number, row in enumerate(rows):
        if number not in bad:
            legs = row.get("legs")
            maps = None if legs is None else [list(each.items()) for each in legs]
            assert columns[number] == {"id": row.get("id"), "gate": row.get("gate"), "legs": maps}


def test_what_has_no_prefix_or_a_refused_schema_is_bad() -> None:
    found = decoder().decode(pa.array([b"\0\0\0\0\x09x", b"", b"\0\0", None], pa.binary()))
    assert found.bad == {0: "it was refused", 1: NO_SCHEMA, 2: NO_SCHEMA}
    assert found.columns["id"].to_pylist() == [None] * 4


def test_ids_that_were_not_given_are_needed_whatever_else_there_is() -> None:
    values = [encoded(1, {"id": 1}), b"\0\0\0\0\x40", b"\0\0\0\0\x41", b"\0\0\0\0\x40"]
    found = decoder().decode(pa.array(values, pa.binary()))
    assert (found.columns, found.needed) == ({}, (0x40, 0x41))


def test_without_a_prefix_all_values_have_one_schema() -> None:
    config = TableConfig(value="avro", schema=LATEST)
    one = {-1: given().by_name[2]}
    value = encoded(2, {"id": 2**40, "gate": None})[5:]
    found = decoder(config, by_name=one).decode(pa.array([value, None, b""], pa.binary()))
    assert found.columns["id"].to_pylist() == [2**40, None, None]
    assert list(found.bad) == [2]


def test_nothing_to_decode() -> None:
    found = decoder().decode(pa.array([], pa.binary()))
    assert (found.bad, found.columns["legs"].to_pylist()) == ({}, [])
