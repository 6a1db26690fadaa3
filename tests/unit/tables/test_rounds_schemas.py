"""Rounds of Avro and Protobuf values, whose schemas are in a real registry over HTTP, and change meanwhile."""

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.limits import HOUR_MS
from siltstone.tables import round_tasks
from siltstone.tables.formats.parquet import ParquetTable
from siltstone.tables.progress import schema_names_of
from siltstone.tables.schemas import RoundSchemas
from siltstone.tables.task import run_export
from siltstone.value_formats.headers import VALUE_SCHEMA
from support.maintenance.table_world import TableWorld, table_world
from support.values.schema_registry import Field, SchemaRegistry, protobuf_schema, record, schema_registry


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as made:
        yield made


class KilledError(BaseException):
    """The process dies here."""


def of_avro(world: TableWorld, registry: SchemaRegistry, **table: str) -> int:
    """The stream of a topic that is kept as a table of Avro values."""
    world.settings = replace(world.settings, registry=registry.url)
    (stream,) = world.kept(**{"value": "avro", **table})
    return stream


def columns(world: TableWorld) -> dict[str, str]:
    with world.table_of() as table:
        return {
            each.name: str(each.type).removeprefix("large_") for each in table.schema if each.name != "kafka"
        }


def dead(world: TableWorld) -> list[tuple[int, str]]:
    frame = world.frame("kafka.t__errors")
    return sorted(frame.select("offset", "reason").rows()) if not frame.is_empty() else []


def values(world: TableWorld) -> list[tuple[Any, ...]]:
    return [row[3] for row in world.rows()]


def test_tb8_a_field_is_added_in_the_middle_and_then_an_older_schema_comes_again(
    world: TableWorld, registry: SchemaRegistry
) -> None:
    stream = of_avro(world, registry)
    first = registry.add("t-value", record(id="int"))
    world.append_values(stream, registry.avro(first, {"id": 1}), None)
    assert world.export_now().text == "2 rows in 1 file appended to table kafka.t"
    assert columns(world) == {"id": "int32" if world.table_format == "iceberg" else "int64"}
    second = registry.add("t-value", record(id="long", gate="string"))
    world.append_values(
        stream,
        registry.avro(first, {"id": 2}),
        registry.avro(second, {"id": 2**40, "gate": "A4"}),
        registry.avro(first, {"id": 3}),
    )
    world.export_now()
    assert columns(world) == {"id": "int64", "gate": "string"}
    assert values(world) == [(1, None), (None, None), (2, None), (2**40, "A4"), (3, None)]
    third = registry.add("t-value", record(gate="string"))
    world.append_values(
        stream, registry.avro(third, {"gate": "B1"}), registry.avro(second, {"id": 5, "gate": "C"})
    )
    world.export_now()
    assert values(world)[5:] == [(None, "B1"), (5, "C")]
    assert schema_names_of(world.image, world.topic_named("t").topic_id) == (first, second, third)


def test_tb23_a_delta_table_has_wide_numbers_from_its_first_file_and_all_readers_read_all_files(
    tmp_path: Path, registry: SchemaRegistry
) -> None:
    import deltalake
    import polars as pl

    with table_world(tmp_path, "delta") as world:
        stream = of_avro(world, registry)
        time = {"type": "int", "logicalType": "time-millis"}
        first = registry.add("t-value", record(id="int", delay="float", left=time))
        world.append_values(stream, registry.avro(first, {"id": 1, "delay": 0.5, "left": time_of(1)}), None)
        world.export_now()
        second = registry.add("t-value", record(id="long", delay="double", left=time, gate="string"))
        later = {"id": 2**40, "delay": 1e300, "left": time_of(2), "gate": "A"}
        world.append_values(
            stream,
            registry.avro(second, later),
            registry.avro(first, {"id": 3, "delay": 1, "left": time_of(3)}),
        )
        world.export_now()
        third = registry.add("t-value", record(id="string", gate="string"))
        world.append_values(
            stream, registry.avro(third, {"id": "x", "gate": "B"}), registry.avro(second, later)
        )
        world.export_now()
        assert [offset for offset, _ in dead(world)] == [4], "it fits no column"
        place = f"{world.settings.location}/kafka/t"
        expected = [
            (1, 0.5, 1_000_000, None),
            (None,) * 4,
            (2**40, 1e300, 2_000_000, "A"),
            (3, 1.0, 3_000_000, None),
        ]
        expected.append(expected[2])
        names = ["id", "delay", "left", "gate"]
        lazily = pl.scan_delta(place).sort(pl.col("kafka").struct.field("offset"))
        assert lazily.select(names).collect().rows() == expected
        whole = deltalake.DeltaTable(place).to_pyarrow_table()
        found = sorted(whole.to_pylist(), key=lambda row: row["kafka"]["offset"])
        assert [tuple(row[name] for name in names) for row in found] == expected


@pytest.mark.parametrize("kind", ["avro", "protobuf"])
def test_tb26_schemas_that_are_named_in_headers_make_the_same_rows(
    world: TableWorld, registry: SchemaRegistry, kind: str
) -> None:
    """By GUID or by id, beside values with a prefix; a header wins over it, and a malformed one is a dead letter."""
    message = {"value_message": "t.M"} if kind == "protobuf" else {}
    stream = of_avro(world, registry, value=kind, **message)
    if kind == "avro":
        first, second = record(gate="string"), record(gate="string", id="int")
        path = b""
    else:
        first, second = (
            protobuf_schema(gate=Field.TYPE_STRING),
            protobuf_schema(gate=Field.TYPE_STRING, id=Field.TYPE_INT32),
        )
        path = b"\2\2"  # the second message of the file
    older, newer = registry.add("t-value", first), registry.add("t-value", second)

    def value(schema_id: int, **fields: Any) -> bytes:
        return (
            registry.avro(schema_id, fields)
            if kind == "avro"
            else registry.protobuf(schema_id, "t.M", path, **fields)
        )

    def bare(schema_id: int, **fields: Any) -> bytes:
        return value(schema_id, **fields)[5 + len(path) :]

    def headers(content: bytes) -> tuple[tuple[str, bytes], ...]:
        return (("trace", b"x"), (VALUE_SCHEMA, content))

    world.append_records(
        stream,
        Record(value=bare(newer, gate="A", id=1), headers=headers(registry.header(newer, path))),
        Record(value=bare(older, gate="B"), headers=headers(registry.header(older, path))),
        Record(value=value(older, gate="C")),
        Record(value=bare(older, gate="D"), headers=headers(b"\0" + older.to_bytes(4, "big") + path)),
        Record(value=None, headers=headers(registry.header(newer, path))),
        Record(value=value(older, gate="no"), headers=headers(b"\0\0")),
        Record(value=bare(newer, gate="no"), headers=headers(registry.header(7, path))),
    )
    world.export_now()
    assert values(world) == [("A", 1), ("B", None), ("C", None), ("D", None), (None, None)]
    reasons = dict(dead(world))
    assert reasons.keys() == {5, 6} and reasons[5].startswith("it names no schema")
    assert str(registry.guid(7)) in reasons[6]
    known = (older, newer, str(registry.guid(older)), str(registry.guid(newer)))
    assert schema_names_of(world.image, world.topic_named("t").topic_id) == known
    asked = len(registry.asked)
    world.append_records(
        stream, Record(value=bare(newer, gate="E"), headers=headers(registry.header(newer, path)))
    )
    world.export_now()
    assert [row[0] for row in values(world)][-1] == "E"
    assert not [each for each in registry.asked[asked:] if "guids" in each], "schemas are known by GUIDs, too"


def time_of(second: int) -> Any:
    return datetime.time(0, 0, second)


def test_tb8_a_schema_that_is_not_the_newest_makes_the_tasks_run_again_once(
    world: TableWorld, registry: SchemaRegistry
) -> None:
    stream = of_avro(world, registry)
    elsewhere = registry.add("another-subject", record(delay="double"))
    newest = registry.add("t-value", record(id="long"))
    runs: list[bytes] = []

    def counted(data: bytes) -> bytes:
        runs.append(data)
        return run_export(data)

    world.append_values(stream, registry.avro(newest, {"id": 1}), registry.avro(elsewhere, {"delay": 1.5}))
    world.export_now(task=counted)
    assert (len(runs), columns(world)) == (2, {"id": "int64", "delay": "double"})
    assert values(world) == [(1, None), (None, 1.5)]
    world.append_values(stream, registry.avro(elsewhere, {"delay": 2.5}))
    world.export_now(task=counted)
    assert len(runs) == 3, "later rounds begin with the schemas of earlier ones"
    assert values(world)[2:] == [(None, 2.5)]


def test_tb8_all_files_of_a_commit_have_the_columns_that_the_last_schema_has_brought(
    iceberg: TableWorld, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round_tasks, "FILE_BYTES", 1)
    iceberg.settings = replace(iceberg.settings, registry=registry.url)
    streams = iceberg.kept(partitions=2, value="avro")
    wide = registry.add("another-subject", record(id="long"))
    narrow = registry.add("t-value", record(id="int"))
    iceberg.append_values(streams[0], registry.avro(narrow, {"id": 1}))
    iceberg.append_values(streams[1], registry.avro(wide, {"id": 2**40}))
    iceberg.export_now()
    assert [str(pq.read_schema(path).field("id").type) for path in iceberg.paths()] == ["int64", "int64"]
    assert values(iceberg) == [(1,), (2**40,)]


def test_tb3_another_driver_exports_while_a_round_fetches_a_schema(
    world: TableWorld, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = of_avro(world, registry)
    first = registry.add("another-subject", record(id="long"))
    world.append_values(stream, registry.avro(first, {"id": 1}))
    fetch = RoundSchemas.fetch

    def overtaken(schemas: RoundSchemas, ids: Any) -> None:
        if ids:
            monkeypatch.undo()
            world.clock.advance_ms(HOUR_MS)
            world.export_now(context=world.another_context())
        fetch(schemas, ids)

    monkeypatch.setattr(RoundSchemas, "fetch", overtaken)
    (unit,) = world.export().units
    assert (unit.outcome, values(world)) == (Outcome.NOT_NEEDED, [(1,)])
    assert "another driver has exported" in unit.text


def test_tb9_bad_values_are_dead_letters_with_their_reason(
    world: TableWorld, registry: SchemaRegistry
) -> None:
    stream = of_avro(world, registry)
    first = registry.add("t-value", record(id="long"))
    other_type = registry.add("elsewhere", record(id="string"))
    good = registry.avro(first, {"id": 7})
    world.append_values(
        stream,
        good,
        b"garbage",
        b"\0\0\0\x23\x28x",
        registry.avro(other_type, {"id": "x"}),
        good + b"!!",
        good[:-1],
    )
    world.export_now()
    assert values(world) == [(7,)]
    found = dict(dead(world))
    assert sorted(found) == [1, 2, 3, 4, 5]
    assert found[1].startswith("it names no schema")
    assert "has no /schemas/ids/9000" in found[2]
    assert found[3] == "its field id is string, and the column of the table is int64"
    assert found[4] == "2 bytes are left after the last field"
    assert "EOFError" in found[5]


def test_tb9_while_the_registry_does_not_answer_nothing_is_a_dead_letter(
    plain: TableWorld, registry: SchemaRegistry
) -> None:
    stream = of_avro(plain, registry)
    first = registry.add("t-value", record(id="long"))
    plain.append_values(stream, registry.avro(first, {"id": 1}))
    registry.fails = True
    assert "RegistryNotReachable" in plain.why_failed()
    registry.fails = False
    plain.export_now()
    assert (values(plain), dead(plain)) == ([(1,)], [])


def test_tb10_values_in_no_wire_format_pause_the_export(plain: TableWorld, registry: SchemaRegistry) -> None:
    stream = of_avro(plain, registry)
    registry.add("t-value", record(id="long"))
    plain.append_values(stream, *[b"plain"] * 20)
    assert "RecordsNotDecodable: 20 of 20 records" in plain.why_failed()


def test_tb24_the_schema_is_gone_when_an_interrupted_round_is_repeated(
    plain: TableWorld, registry: SchemaRegistry
) -> None:
    stream = of_avro(plain, registry)
    first = registry.add("t-value", record(id="long"))
    plain.append_values(stream, registry.avro(first, {"id": 1}), b"bad", registry.avro(first, {"id": 2}))
    append = ParquetTable.append

    def killed(table: ParquetTable, *given: Any) -> None:
        if table.name == "kafka.t":
            raise KilledError
        append(table, *given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ParquetTable, "append", killed)
        with pytest.raises(KilledError):
            plain.export()
    assert [offset for offset, _ in dead(plain)] == [1]
    registry.forget(first)
    plain.clock.advance_ms(10**9)
    assert "VerdictLost: partition 0 offset 0" in plain.why_failed()
    registry.add("t-value", record(id="long"), first)
    plain.clock.advance_ms(10**9)
    plain.export_now()
    assert (values(plain), [offset for offset, _ in dead(plain)]) == ([(1,), (2,)], [1])


def test_protobuf_values_of_a_message_in_two_versions(world: TableWorld, registry: SchemaRegistry) -> None:
    stream = of_avro(world, registry, value="protobuf", value_message="t.M")
    first = registry.add("t-value", protobuf_schema(id=Field.TYPE_INT64))
    path = b"\x02\x02"  # one index, 1: the second message of the file
    one = registry.protobuf(first, "t.M", path, id=1)
    world.append_values(stream, one)
    world.export_now()
    second = registry.add("t-value", protobuf_schema(id=Field.TYPE_INT64, gate=Field.TYPE_STRING))
    two = registry.protobuf(second, "t.M", path, id=2, gate="A")
    world.append_values(stream, two, one, registry.protobuf(second, "t.Other"))
    world.export_now()
    assert values(world) == [(1, None), (2, "A"), (1, None)]
    assert dead(world) == [(3, "it is a t.Other, not a t.M")]


@pytest.mark.parametrize("where", ["latest", "file:flights.avsc"])
def test_values_without_a_prefix_have_one_schema(
    plain: TableWorld, registry: SchemaRegistry, where: str, tmp_path: Any
) -> None:
    stream = of_avro(plain, registry, value_schema=where)
    schema = record(id="long")
    first = registry.add("t-value", schema)
    plain.append_values(stream, registry.avro(first, {"id": 4})[5:])
    if where != "latest":
        (tmp_path / "flights.avsc").write_text(json.dumps(schema))
        assert "names a file, and tables.registry is http://" in plain.why_failed()
        plain.settings = replace(plain.settings, registry=tmp_path.as_uri())
        plain.clock.advance_ms(10**9)
    plain.export_now()
    assert values(plain) == [(4,)]


def test_without_a_registry_the_report_says_what_to_set(plain: TableWorld) -> None:
    (stream,) = plain.kept(value="avro")
    plain.append_values(stream, b"x")
    text = plain.why_failed()
    assert text.startswith("RegistryNotNamed") and "set tables.registry" in text


def test_tb12_a_table_divided_by_a_field_of_its_schema(iceberg: TableWorld, registry: SchemaRegistry) -> None:
    stream = of_avro(iceberg, registry, partition_by="identity(carrier),day(timestamp)")
    first = registry.add("t-value", record(carrier="string", timestamp="string", delay="double"))
    rows = [{"carrier": each, "timestamp": "x", "delay": 1.0} for each in ("AA", "UA", "AA")]
    iceberg.append_values(stream, *(registry.avro(first, each) for each in rows))
    iceberg.export_now()
    with iceberg.table_of() as table:
        scanned = table._table.scan(row_filter="carrier = 'UA'")  # type: ignore[attr-defined]
        (only,) = scanned.plan_files()
        assert only.file.partition[0] == "UA" and scanned.to_arrow()["timestamp"].to_pylist() == ["x"]
    iceberg.set_table(**{"name": "kafka.by_delay", "partition.by": "identity(delay)"})
    assert "cannot be divided by identity(delay), as the field is double" in iceberg.why_failed()
    iceberg.set_table(**{"name": "kafka.by_x", "partition.by": "identity(x)"})
    assert "no schema of its values has a field x" in iceberg.why_failed()
