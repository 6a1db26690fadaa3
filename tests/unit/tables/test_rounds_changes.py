"""Tables of change events: ``siltstone.table.change=debezium``. Each table equals a plain replay of the events."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from siltstone.topic_configs.table import parse_topic_configs
from siltstone.topic_configs.values import InvalidTopicConfig
from support.maintenance.table_faults import appending, commit_and_kill, export_is_killed, kill
from support.maintenance.table_world import TableWorld, table_world


@pytest.fixture(params=["iceberg", "delta"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TableWorld]:
    with table_world(tmp_path, request.param) as made:
        yield made


def kept(world: TableWorld, partitions: int = 1, **table: str) -> int:
    given = {"columns": "infer", "key": "json", "key.columns": "id long", **table}
    return world.kept(
        mode="upsert", change="debezium", value="json", buckets="4", partitions=partitions, **given
    )[0]


def event(op: str, before: Any = None, after: Any = None, *, with_schema: bool = False) -> str:
    """An event as Debezium's connector for PostgreSQL writes it."""
    source = {
        "connector": "postgresql",
        "db": "shop",
        "table": "orders",
        "lsn": 24023128,
        "snapshot": "false",
    }
    envelope = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1, "transaction": None}
    return json.dumps({"schema": {"type": "struct"}, "payload": envelope} if with_schema else envelope)


def key(number: int, *, with_schema: bool = False) -> str:
    plain = {"id": number}
    return json.dumps({"schema": {"type": "struct"}, "payload": plain} if with_schema else plain)


def row(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": number, **fields}


def rows_of(world: TableWorld) -> dict[int, dict[str, Any]]:
    found = {}
    for each in world.frame().to_dicts():
        fields = {name: value for name, value in each.items() if name != "kafka" and value is not None}
        found[each["id"]] = {name: value for name, value in fields.items() if not name.startswith("kafka_")}
    return found


def test_ch1_created_updated_read_and_deleted_rows(world: TableWorld) -> None:
    stream = kept(world)
    world.append_pairs(
        stream,
        [
            (key(1), event("r", None, row(1, name="a", price=1.5))),
            (key(2), event("c", None, row(2, name="b"))),
            (key(1), event("u", row(1, name="a"), row(1, name="z", price=2.0))),
            (key(2), event("d", row(2, name="b"), None)),
            (key(2), None),
            (key(3), event("c", None, row(3, name="c"))),
            (None, event("m")),
        ],
    )
    report = world.export_now()
    assert rows_of(world) == {1: row(1, name="z", price=2.0), 3: row(3, name="c")}
    assert world.progress().dead_letters == 0 and "new field price: double" in report.text
    world.append_pairs(
        stream, [(key(3), event("d", row(3), None)), (key(4), event("c", None, row(4, extra=[1])))]
    )
    world.export_now()
    assert rows_of(world) == {1: row(1, name="z", price=2.0), 4: row(4, extra=[1])}


def test_ch2_envelopes_with_their_schema_and_keys_with_theirs_are_the_same_rows(world: TableWorld) -> None:
    stream = kept(world)
    world.append_pairs(
        stream,
        [
            (key(1, with_schema=True), event("c", None, row(1, name="a"), with_schema=True)),
            (key(1), event("u", None, row(1, name="b"))),
            (key(2, with_schema=True), event("c", None, row(2, name="c"), with_schema=True)),
            (key(2, with_schema=True), event("d", row(2), None, with_schema=True)),
        ],
    )
    world.export_now()
    assert rows_of(world) == {1: row(1, name="b")}


def test_ch3_flat_rows_are_deleted_by_their_mark(world: TableWorld) -> None:
    stream = kept(world, columns="id long, name string")
    flat = [row(1, name="a", __op="c", __deleted="false"), row(2, name="b", __deleted="false")]
    gone = row(1, name=None, __op="d", __deleted="true")
    world.append_pairs(stream, [(key(each["id"]), json.dumps(each)) for each in (*flat, gone)])
    world.export_now()
    assert rows_of(world) == {2: row(2, name="b")}


def test_ch4_a_key_that_changes_is_a_delete_and_a_new_row(world: TableWorld) -> None:
    stream = kept(world)
    world.append_pairs(
        stream,
        [
            (key(1), event("c", None, row(1, name="a"))),
            (key(1), event("d", row(1, name="a"), None)),
            (key(1), None),
            (key(7), event("c", None, row(7, name="a"))),
        ],
    )
    world.export_now()
    assert rows_of(world) == {7: row(7, name="a")}


def test_ch5_what_is_no_event_is_a_dead_letter_with_the_reason(world: TableWorld) -> None:
    stream = kept(world, partitions=2)
    good = [(key(number), event("c", None, row(number))) for number in range(10)]
    odd = [
        (None, event("t")),
        (key(21), event("x", None, row(21))),
        (key(22), event("c", None, None)),
        (key(23), "garbage"),
        (key(24), json.dumps({"after": row(24)})),
        ('{"no": 1}', event("c", None, row(25))),
    ]
    world.append_pairs(stream, good + odd)
    world.export_now()
    assert sorted(rows_of(world)) == list(range(10))
    dead = sorted(world.frame("kafka.t__errors").to_dicts(), key=lambda each: each["offset"])
    words = [
        "skipped.operations=t",
        "c, u, d, r, m and t",
        "after is no row",
        "",
        "no op",
        "it has no field id",
    ]
    assert [each["offset"] for each in dead] == list(range(10, 16))
    assert all(part in each["reason"] for part, each in zip(words, dead, strict=True)), dead


@pytest.mark.parametrize("seed", range(3))
def test_ch6_the_table_equals_the_database_after_drawn_changes_with_kills_and_repeated_events(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A connector that is started again sends the events since its last commit once more."""
    stream, rng = kept(world), Random(seed)
    database: dict[int, dict[str, Any]] = {}
    log: list[tuple[str | None, str | None]] = []
    for number, instead in enumerate((None, kill, commit_and_kill, None)):
        first = len(log)
        for _ in range(40):
            one = rng.randrange(12)
            if rng.random() < 0.02:
                database.clear()
                log.append((None, event("t")))
            elif one in database and rng.random() < 0.3:
                log += [(key(one), event("d", database.pop(one), None)), (key(one), None)]
            else:
                op = "u" if one in database else rng.choice("cr")
                after = row(one, **{rng.choice("abc"): rng.choice([1, "x", 2.5, None, [1], {"n": 1}])})
                log.append((key(one), event(op, database.get(one), after)))
                database[one] = after
        sent = log[first:]
        if rng.random() < 0.5:
            sent = sent[: rng.randrange(len(sent))] + sent
        world.append_pairs(stream, sent)
        if instead is not None:
            with appending(world, monkeypatch, instead):
                export_is_killed(world)
        world.export()
        assert {one: _known(each) for one, each in rows_of(world).items()} == {
            one: _known(each) for one, each in database.items()
        }, f"after part {number}"


def _known(fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Returns the values of a row, wherever the table has them: in columns, or rescued."""
    rescued = json.loads(fields.pop("_rescued_data", "{}"))
    merged = {name: each for name, each in {**fields, **rescued}.items() if each is not None}
    return merged.pop("id"), {name: _value_in(each) for name, each in merged.items()}


def _value_in(value: Any) -> Any:
    """Returns the value itself, where a column has it as JSON in text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"mode": "append"}, "needs siltstone.table.mode=upsert"),
        ({"columns": "", "value": "json"}, "or siltstone.table.value=json and siltstone.table.columns"),
    ],
)
def test_ch7_configurations_that_cannot_be_are_refused(table: dict[str, str], words: str) -> None:
    given = {"format": "iceberg", "mode": "upsert", "change": "debezium", "value": "json", "columns": "infer"}
    with pytest.raises(InvalidTopicConfig, match=words):
        parse_topic_configs({f"siltstone.table.{name}": text for name, text in (given | table).items()}, {})


def test_ch14_a_truncate_removes_all_rows_before_it(world: TableWorld) -> None:
    stream = kept(world)
    made = [(key(number), event("c", None, row(number))) for number in range(12)]
    world.append_pairs(stream, made)
    world.export_now()
    assert len(rows_of(world)) == 12
    again = [(key(1), event("c", None, row(1, name="again"))), (key(20), event("c", None, row(20)))]
    world.append_pairs(stream, [(key(2), event("u", None, row(2, name="gone"))), (None, event("t")), *again])
    report = world.export_now()
    assert rows_of(world) == {1: row(1, name="again"), 20: row(20)}
    assert "1 truncate removed all rows before" in report.text and world.progress().rows == 2
    world.append_pairs(stream, [(None, event("t", with_schema=True)), (None, event("t"))])
    world.export_now()
    assert rows_of(world) == {} and (world.progress().rows, world.progress().dead_letters) == (0, 0)
    world.append_pairs(stream, made[:3])
    world.export_now()
    assert sorted(rows_of(world)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("table", "partitions"),
    [({"sequence": "source.lsn", "retention": "true"}, 1), ({}, 2)],
    ids=["sequence", "partitions"],
)
def test_ch14_a_truncate_whose_place_offsets_do_not_say_is_a_dead_letter(
    world: TableWorld, table: dict[str, str], partitions: int
) -> None:
    stream = kept(world, partitions, **table)
    world.append_pairs(stream, [(key(1), event("c", None, row(1))), (None, event("t"))])
    world.export_now()
    assert list(rows_of(world)) == [1]
    assert "needs a topic of one partition" in world.frame("kafka.t__errors")["reason"][0]
