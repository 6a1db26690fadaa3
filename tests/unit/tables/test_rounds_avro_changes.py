"""Change events of Debezium in Avro, with a schema registry over HTTP and in a folder: the tables that events in JSON
make."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

from siltstone.kafka_protocol.records.reading import Record
from support.maintenance.table_faults import appending, commit_and_kill, export_is_killed, kill
from support.maintenance.table_world import TableWorld, table_world
from support.values.schema_registry import SchemaRegistry, record, schema_registry

KEY = {
    "type": "record",
    "name": "Key",
    "namespace": "shop.public.orders",
    "fields": [{"name": "id", "type": "long"}],
}
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [{"name": "db", "type": "string"}, {"name": "lsn", "type": ["null", "long"], "default": None}],
}


def envelope(**fields: str) -> dict[str, Any]:
    """The schema of events as Debezium's connector for PostgreSQL registers it with Confluent's converter: ``after``
    names the type of ``before``."""
    parts = [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields.items()]
    row = {"type": "record", "name": "Value", "fields": parts}
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.public.orders",
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": SOURCE},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
    }


class Events:
    """Writes events into the topic of a world. The schemas of the registry are the oracle of its folder, too."""

    def __init__(self, world: TableWorld, registry: SchemaRegistry, folder: Path | None) -> None:
        self._world, self._registry, self._folder = world, registry, folder
        self.keys = self.register("t-key", KEY)

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        number = self._registry.add(subject, schema)
        if self._folder is not None:
            (self._folder / f"{number}.avsc").write_text(json.dumps(schema))
            known = self._folder / "subjects.json"
            subjects = json.loads(known.read_text()) if known.exists() else {}
            subjects.setdefault(subject, []).append(number)
            known.write_text(json.dumps(subjects))
        return number

    def key(self, number: int) -> bytes:
        return self._registry.avro(self.keys, {"id": number})

    def event(self, schema: int, op: str, after: dict[str, Any] | None = None, lsn: int | None = 7) -> bytes:
        value = {"before": None, "after": after, "source": {"db": "shop", "lsn": lsn}, "op": op, "ts_ms": 1}
        return self._registry.avro(schema, value)

    def append(self, stream: int, *pairs: tuple[bytes | None, bytes | None]) -> None:
        now_ms = self._world.clock.now_ms()
        records = [Record(timestamp_ms=now_ms, key=key, value=value) for key, value in pairs]
        self._world.append_records(stream, *records)


@pytest.fixture(params=["http", "folder"])
def place(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["iceberg", "delta"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TableWorld]:
    with table_world(tmp_path, request.param) as made:
        yield made


@pytest.fixture
def events(world: TableWorld, place: str, tmp_path: Path) -> Iterator[Events]:
    with schema_registry() as registry:
        folder = tmp_path / "schemas" if place == "folder" else None
        if folder is not None:
            folder.mkdir()
        url = registry.url if folder is None else folder.as_uri()
        world.settings = replace(world.settings, registry=url)
        yield Events(world, registry, folder)


def kept(world: TableWorld, partitions: int = 1, **table: str) -> int:
    given = {"key": "avro", "key.columns": "id long", "buckets": "4", **table}
    return world.kept(mode="upsert", change="debezium", value="avro", partitions=partitions, **given)[0]


def rows_of(world: TableWorld) -> dict[int, dict[str, Any]]:
    frame = world.frame().drop([each for each in world.frame().columns if each.startswith("kafka")])
    return {
        each["id"]: {name: one for name, one in each.items() if one is not None} for each in frame.to_dicts()
    }


def test_ch10_events_in_avro_are_rows_and_a_column_is_added_with_its_schema(
    world: TableWorld, events: Events
) -> None:
    stream = kept(world)
    first = events.register("t-value", envelope(id="long", name="string"))
    events.append(
        stream,
        (events.key(1), events.event(first, "r", {"id": 1, "name": "a"})),
        (events.key(2), events.event(first, "c", {"id": 2, "name": "b"})),
        (events.key(1), events.event(first, "u", {"id": 1, "name": "z"})),
        (events.key(2), events.event(first, "d")),
        (events.key(2), None),
        (events.key(3), events.event(first, "c", {"id": 3, "name": None})),
        (None, events.event(first, "m")),
    )
    world.export_now()
    assert rows_of(world) == {1: {"id": 1, "name": "z"}, 3: {"id": 3}}
    assert world.progress().dead_letters == 0
    assert set(world.frame().columns) >= {"id", "name"} and "op" not in world.frame().columns
    second = events.register("t-value", envelope(id="long", name="string", price="double"))
    events.append(
        stream,
        (events.key(3), events.event(second, "u", {"id": 3, "name": "c", "price": 1.5})),
        (events.key(4), events.event(first, "c", {"id": 4, "name": "d"})),
        (events.key(1), events.event(second, "d")),
    )
    world.export_now()
    assert rows_of(world) == {3: {"id": 3, "name": "c", "price": 1.5}, 4: {"id": 4, "name": "d"}}


def test_sq3_events_in_avro_are_ordered_by_a_field_of_their_source(world: TableWorld, events: Events) -> None:
    stream = kept(world, sequence="source.lsn", retention="true")
    schema = events.register("t-value", envelope(id="long", name="string"))
    events.append(
        stream,
        (events.key(1), events.event(schema, "u", {"id": 1, "name": "new"}, 9)),
        (events.key(1), events.event(schema, "c", {"id": 1, "name": "late"}, 8)),
        (events.key(2), events.event(schema, "d", None, 5)),
        (events.key(2), None),
        (events.key(3), events.event(schema, "c", {"id": 3, "name": "no sequence"}, None)),
    )
    world.export_now()
    assert rows_of(world) == {1: {"id": 1, "name": "new", "_sequence": 9}}
    assert "it has no sequence: source.lsn" in world.frame("kafka.t__errors")["reason"][0]
    events.append(stream, (events.key(2), events.event(schema, "c", {"id": 2, "name": "late"}, 4)))
    world.export_now()
    assert 2 not in rows_of(world)


def test_sq3_flat_rows_in_avro_are_ordered_by_a_field(world: TableWorld, events: Events) -> None:
    stream = kept(world, sequence="at", retention="true")
    flat = events.register("t-value", record(id="long", at="long", __deleted="string"))

    def row(at: int, gone: str = "false") -> bytes:
        return events._registry.avro(flat, {"id": 1, "at": at, "__deleted": gone})

    events.append(stream, (events.key(1), row(3)), (events.key(1), row(5, "true")), (events.key(1), row(4)))
    world.export_now()
    assert rows_of(world) == {}


def test_ch11_flat_rows_in_avro_are_deleted_by_their_mark(world: TableWorld, events: Events) -> None:
    stream = kept(world)
    flat = events.register("t-value", record(id="long", name="string", __deleted="string"))
    of = events._registry.avro
    events.append(
        stream,
        (events.key(1), of(flat, {"id": 1, "name": "a", "__deleted": "false"})),
        (events.key(2), of(flat, {"id": 2, "name": "b", "__deleted": "false"})),
        (events.key(1), of(flat, {"id": 1, "name": None, "__deleted": "true"})),
    )
    world.export_now()
    assert rows_of(world) == {2: {"id": 2, "name": "b"}} and "__deleted" not in world.frame().columns


def test_ch13_a_field_with_the_name_of_a_column_of_versions_is_refused_with_its_schema(
    world: TableWorld, events: Events
) -> None:
    stream = kept(world, history="scd2")
    odd = events.register("t-value", envelope(id="long", _Valid_To="string"))
    plain = events.register("t-value", envelope(id="long"))
    for number in range(2):
        events.append(stream, (events.key(number), events.event(plain, "c", {"id": number})))
        world.export_now()
    events.append(stream, (events.key(5), events.event(odd, "c", {"id": 5, "_Valid_To": "x"})))
    world.export_now()
    assert sorted(world.frame()["id"].to_list()) == [0, 1]
    assert "_Valid_To is taken" in world.frame("kafka.t__errors")["reason"][0]


def test_ch12_what_is_no_event_in_avro_is_a_dead_letter_with_the_reason(
    world: TableWorld, events: Events
) -> None:
    stream = kept(world, partitions=2)
    schema = events.register("t-value", envelope(id="long"))
    good = [(events.key(each), events.event(schema, "c", {"id": each})) for each in range(10)]
    odd = [
        (None, events.event(schema, "t")),
        (events.key(21), events.event(schema, "x", {"id": 21})),
        (events.key(22), events.event(schema, "c", None)),
        (events.key(23), events.event(schema, "c", {"id": 23}) + b"!"),
    ]
    events.append(stream, *good, *odd)
    world.export_now()
    assert sorted(rows_of(world)) == list(range(10))
    dead = world.frame("kafka.t__errors").sort("offset").select("offset", "reason").rows()
    words = ("skipped.operations=t", "c, u, d, r, m and t", "after is no row", "bytes are left")
    assert [offset for offset, _ in dead] == [10, 11, 12, 13]
    assert all(part in reason for part, (_, reason) in zip(words, dead, strict=True)), dead


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("history", ["", "scd2"])
def test_ch13_the_table_equals_the_database_after_drawn_events_in_avro_with_kills(
    world: TableWorld, events: Events, monkeypatch: pytest.MonkeyPatch, seed: int, history: str
) -> None:
    stream, rng = kept(world, history=history), Random(seed)
    schemas = [events.register("t-value", envelope(id="long", a="string"))]
    database: dict[int, dict[str, Any]] = {}
    for number, instead in enumerate((None, kill, commit_and_kill, None)):
        if number == 2:
            schemas.append(events.register("t-value", envelope(id="long", a="string", b="double")))
        pairs: list[tuple[bytes | None, bytes | None]] = []
        for _ in range(30):
            one, schema = rng.randrange(9), rng.choice(schemas)
            if rng.random() < 0.05:
                database.clear()
                pairs.append((None, events.event(schema, "t")))
                continue
            if one in database and rng.random() < 0.3:
                del database[one]
                pairs += [(events.key(one), events.event(schema, "d")), (events.key(one), None)]
                continue
            row = {"id": one, "a": rng.choice(["x", "y", None])}
            if schema != schemas[0]:
                row["b"] = rng.choice([1.5, None])
            pairs.append((events.key(one), events.event(schema, "u" if one in database else "c", row)))
            database[one] = {name: each for name, each in row.items() if each is not None}
        events.append(stream, *pairs)
        if instead is not None:
            with appending(world, monkeypatch, instead):
                export_is_killed(world)
        world.export()
        if history:
            frame = world.frame().filter(pl.col("_is_current"))
            current = {
                each["id"]: {
                    name: one for name, one in each.items() if one is not None and name in ("id", "a", "b")
                }
                for each in frame.to_dicts()
            }
            assert current == database
        else:
            assert rows_of(world) == database
