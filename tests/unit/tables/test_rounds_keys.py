"""Keys whose fields are columns: with and without schemas, in tables of all records and of the newest of each key."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from siltstone.cli.tables.explain import _newest
from siltstone.kafka_protocol.records.reading import Record
from siltstone.tables.planning import exports
from siltstone.tables.progress import schema_names_of, schemas_gone
from siltstone.value_formats.headers import KEY_SCHEMA
from support.maintenance.table_world import TableWorld, table_world
from support.values.schema_registry import Field, SchemaRegistry, protobuf_message, record, schema_registry

COLUMNS = "id long, gate string"


@pytest.fixture(params=["iceberg", "delta"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TableWorld]:
    with table_world(tmp_path, request.param) as made:
        yield made


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as made:
        yield made


def kept(world: TableWorld, partitions: int = 1, **table: str) -> list[int]:
    given = {"mode": "upsert", "buckets": "3", "key": "json", "key_columns": COLUMNS, **table}
    return world.kept(partitions=partitions, **given)


def rows(world: TableWorld) -> list[tuple[Any, ...]]:
    """The fields of the key and the value of each row."""
    frame = world.frame()
    if frame.is_empty():
        return []
    found = [(each["key"] and tuple(each["key"].values()), each["value"]) for each in frame.rows(named=True)]
    return sorted(found, key=repr)


def dead(world: TableWorld) -> dict[int, str]:
    frame = world.frame("kafka.t__errors")
    return {} if frame.is_empty() else dict(frame.select("offset", "reason").rows())


def spelt(rng: Random, key: dict[str, Any]) -> str:
    """One of many texts of a JSON object."""
    names = rng.sample([*key], len(key))
    fields = {**{name: key[name] for name in names}, "more": rng.randrange(3)}
    return json.dumps(fields, indent=rng.choice([None, 2]))


@pytest.mark.usefixtures("small_slices")
def test_tb27_other_bytes_of_a_key_are_the_same_row(world: TableWorld) -> None:
    """The table is the view by the fields of the key, round by round, with tombstones and slices of a bucket."""
    (stream,) = kept(world)
    rng, view = Random(3), dict[tuple[int, str], bytes]()
    for _ in range(3):
        pairs: list[Any] = []
        for _ in range(30):
            key = {"id": rng.choice([-1, 1, 11, 2**40]), "gate": rng.choice(["", "1", "1:", "A"])}
            value = None if rng.random() < 0.2 else f"{rng.random()}"
            pairs.append((spelt(rng, key), value))
            if value is None:
                view.pop((key["id"], key["gate"]), None)
            else:
                view[key["id"], key["gate"]] = value.encode()
        world.append_pairs(stream, pairs)
        world.export_now()
        assert rows(world) == sorted(view.items(), key=repr)
    with world.table_of() as table:
        assert [each.text for each in table.partition_by] == ["bucket(key.id,3)"]


def test_tb27_a_key_without_a_field_is_a_dead_letter_in_a_table_by_key(world: TableWorld) -> None:
    (stream,) = kept(world, value="json", columns="a long")
    pairs = [
        ('{"id": 1, "gate": "A"}', '{"a": 1}'), ('{"id": 2}', '{"a": 2}'), ('{"id": 3, "gate": null}', None),
        ('{"id": "4", "gate": "A"}', '{"a": 4}'), ("x", '{"a": 5}'), (None, '{"a": 6}'),
        ('{"gate": "A", "id": 1}', '{"a": 7}'), ('{"id": 8, "gate": "B"}', '{"a": 8}'),
    ]  # fmt: skip
    world.append_pairs(stream, pairs)
    world.export_now()
    assert [(row[1], tuple(row[2].values()), row[3]) for row in world.rows()] == [
        (6, (1, "A"), (7,)), (7, (8, "B"), (8,)),
    ]  # fmt: skip
    reasons = dead(world)
    assert reasons.keys() == {1, 2, 3, 4} and all(each.startswith("key: ") for each in reasons.values())
    assert reasons[1] == "key: it has no field gate"


@pytest.mark.parametrize("kind", ["avro", "protobuf"])
def test_tb27_keys_of_several_schemas_are_the_same_row(
    world: TableWorld, registry: SchemaRegistry, kind: str
) -> None:
    """Named by a prefix or in a header; a schema that does not fit makes dead letters; later rounds know them all."""
    world.settings = replace(world.settings, registry=registry.url)
    (stream,) = kept(world, key=kind)
    avro = kind == "avro"
    text = Field.TYPE_STRING
    schemas: list[Any] = [
        record(gate="string", id="int"),
        record(id="long", more="string", gate="string"),
        record(id="string", gate="string"),
        record(id="long"),
    ]
    if not avro:
        schemas = [
            protobuf_message(gate=text, id=Field.TYPE_INT32),
            protobuf_message(id=Field.TYPE_INT64, more=text, gate=text),
            protobuf_message(id=text, gate=text),
            protobuf_message(id=Field.TYPE_INT64),
        ]
    path = b"" if avro else b"\0"
    ids = [registry.add("t-key", each) for each in schemas]

    def key(number: int, **fields: Any) -> bytes:
        return (
            registry.avro(ids[number], fields) if avro else registry.protobuf(ids[number], "", path, **fields)
        )

    def bare(number: int, **fields: Any) -> Record:
        header = (KEY_SCHEMA, registry.header(ids[number], path))
        return Record(key=key(number, **fields)[5 + len(path) :], value=b"bare", headers=(header,))

    world.append_records(
        stream,
        Record(key=key(0, gate="A", id=1), value=b"old"),
        Record(key=key(0, gate="B", id=2), value=b"2"),
        Record(key=key(1, gate="A", id=1, more="x"), value=b"new"),
        bare(1, gate="C", id=3),
        Record(key=key(2, gate="A", id="1"), value=b"no"),
        Record(key=key(3, id=1), value=b"no"),
        Record(key=key(1, gate="B", id=2), value=None),
    )
    world.export_now()
    assert rows(world) == [((1, "A"), b"new"), ((3, "C"), b"bare")]
    reasons = dead(world)
    assert reasons.keys() == {4, 5}
    assert reasons[4].startswith("key: its field id is string, and the column of the table is int64")
    assert reasons[5] == "key: its schema has no field gate"
    topic_id = world.topic_named("t").topic_id
    known = schema_names_of(world.image, topic_id, "key")
    assert set(known) >= {ids[0], ids[1], str(registry.guid(ids[1]))} and not schema_names_of(
        world.image, topic_id
    )
    asked = len(registry.asked)
    world.append_records(stream, bare(1, gate="A", id=1), Record(key=key(0, gate="C", id=3), value=None))
    world.export_now()
    assert rows(world) == [((1, "A"), b"bare")]
    assert not [each for each in registry.asked[asked:] if "guids" in each]
    world.delete_topic()
    assert len(schemas_gone(world.image)) == 1


def test_tb27_keys_and_values_may_both_need_schemas_that_no_round_has_met(
    world: TableWorld, registry: SchemaRegistry
) -> None:
    world.settings = replace(world.settings, registry=registry.url)
    (stream,) = kept(world, key="avro", value="avro", key_columns="value string")
    key, value = registry.add("other", "string"), registry.add("other", record(a="long"))
    world.append_records(
        stream,
        *[Record(key=registry.avro(key, "k"), value=registry.avro(value, {"a": each})) for each in (1, 2)],
    )
    world.export_now()
    assert [(row[2], row[3]) for row in world.rows()] == [({"value": "k"}, (2,))]


def test_tb27_the_fields_of_a_table_by_key_do_not_change(world: TableWorld) -> None:
    (stream,) = kept(world)
    world.append_pairs(stream, [('{"id": 1, "gate": "A"}', "1")])
    world.export_now()
    world.append_pairs(stream, [('{"id": 1, "gate": "A"}', "2")])
    for columns in ("id long, gate string, more string", "id long", "gate string, id long"):
        world.set_table(**{"key.columns": columns})
        assert "is wanted" in world.why_failed() or "cannot be changed" in world.why_failed()
    world.set_table(**{"key.columns": COLUMNS})
    world.export_now()
    assert rows(world) == [((1, "A"), b"2")]


def test_tb25_a_key_of_fields_in_two_partitions_has_two_rows(world: TableWorld) -> None:
    streams = kept(world, partitions=2)
    for number, stream in enumerate(streams):
        world.append_pairs(stream, [(json.dumps({"id": 1, "gate": "A"}, indent=number or None), "1")])
    world.export_now()
    assert len(rows(world)) == 2
    told = _newest(world.context, world.settings, exports(world.image)["t"])
    assert "1 row more than keys" in told["mode"]


@pytest.mark.parametrize("table_format", ["parquet", "iceberg", "delta"])
def test_tb27_a_table_of_all_records_has_keys_as_structs(tmp_path: Path, table_format: str) -> None:
    with table_world(tmp_path, table_format) as world:
        (stream,) = world.kept(key="json", key_columns=COLUMNS)
        world.append_pairs(
            stream, [('{"id": 1}', "a"), (None, "b"), ('{"id": 1, "gate": "G"}', None), ("x", "c")]
        )
        world.export_now()
        assert rows(world) == [((1, "G"), None), ((1, None), b"a"), (None, b"b")]
        assert dead(world).keys() == {3}
        world.set_table(**{"key.columns": f"{COLUMNS}, at timestamp"})
        world.append_pairs(stream, [('{"id": 2, "gate": "H", "at": "2013-01-01T00:00:00Z"}', "d")])
        if table_format == "iceberg":
            world.export_now()
            assert len(rows(world)) == 4
        else:
            assert "is wanted" in world.why_failed()


def test_keys_of_json_may_stay_text(world: TableWorld) -> None:
    (stream,) = kept(world, key_columns="")
    world.append_pairs(stream, [('{"a": 1}', "1"), ("nothing", "2"), ('{"a": 1}', "3")])
    world.export_now()
    assert [(row["key"], row["value"]) for row in world.frame().rows(named=True)] == [('{"a": 1}', b"3")]
    assert dead(world).keys() == {1}
