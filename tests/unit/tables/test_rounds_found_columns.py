"""Tables whose columns are found from the records: ``siltstone.table.columns=infer``."""

import json
from typing import Any

import pyarrow.parquet as pq
import pytest

from siltstone.scanning.sampling import SAMPLE_RECORDS
from siltstone.tables.progress import columns_of, put_columns, remove_columns
from siltstone.topic_configs.table_export import TableColumn
from support.maintenance.table_faults import appending, commit_and_kill, export_is_killed, kill
from support.maintenance.table_world import TableWorld


def rows_of(world: TableWorld) -> list[dict[str, Any]]:
    """Returns the rows without the columns of the record, in the order of their offsets; fields without a value are
    left out."""
    rows = sorted(world.frame().to_dicts(), key=lambda row: row["kafka"]["offset"])
    return [
        {
            name: each
            for name, each in row.items()
            if name not in ("kafka", "timestamp_day") and each is not None
        }
        for row in rows
    ]


def kinds_of(world: TableWorld) -> dict[str, str]:
    image = world.metadata.refresh()
    (topic,) = [each for each in image.topics.values() if each.name == "t"]
    return {each.name: each.kind for each in columns_of(image, topic.topic_id)}


def test_ci1_columns_are_proposed_from_the_records(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="infer")
    world.append_values(
        stream,
        '{"carrier": "UA", "delay": 4, "on": true, "ratio": 1}',
        '{"carrier": "AA", "ratio": 0.5, "tags": ["a"], "at": {"lat": 1.5, "gate": "B2"}}',
        '{"other": null, "none": [], "nothing": {}}',
    )
    report = world.export_now()
    assert kinds_of(world) == {
        "carrier": "string",
        "delay": "long",
        "on": "boolean",
        "ratio": "double",
        "tags": "array<string>",
        "at": "struct<lat:double,gate:string>",
    }
    assert rows_of(world) == [
        {"carrier": "UA", "delay": 4, "on": True, "ratio": 1.0},
        {"carrier": "AA", "ratio": 0.5, "tags": ["a"], "at": {"lat": 1.5, "gate": "B2"}},
        {"_rescued_data": '{"none":[],"nothing":{}}'},
    ]
    assert "new field delay: long" in report.text and "new field tags: array<string>" in report.text


def test_ci2_a_field_that_occurs_later_is_a_column_in_all_rows_that_have_it(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="infer")
    world.append_values(stream, '{"a": 1}')
    world.export_now()
    world.append_values(stream, '{"a": 2}', '{"a": 3, "b": "x"}', '{"b": "y", "c": [1]}')
    report = world.export_now()
    assert rows_of(world) == [{"a": 1}, {"a": 2}, {"a": 3, "b": "x"}, {"b": "y", "c": [1]}]
    assert "new field b: string; new field c: array<long>" in report.text
    world.append_values(stream, '{"a": 4, "c": []}')
    assert "new field" not in world.export_now().text and rows_of(world)[4] == {"a": 4, "c": []}


def test_ci3_a_value_that_its_column_cannot_take_is_rescued_and_no_row_is_lost(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="infer")
    world.append_values(stream, '{"delay": 4, "name": "a", "tags": [1]}')
    world.export_now()
    world.append_values(
        stream,
        '{"delay": 1.5, "name": 7}',
        '{"delay": "late", "name": {"first": "b"}}',
        '{"delay": 12345678901234567890, "tags": [1, "x"]}',
        '{"delay": 9, "Delay": 10, "odd name": 1, "kafka": 2, "_rescued_data": 3}',
    )
    report = world.export_now()
    assert rows_of(world)[1:] == [
        {"name": "7", "_rescued_data": '{"delay":1.5}'},
        {"_rescued_data": '{"delay":"late","name":{"first": "b"}}'},
        {"_rescued_data": '{"delay":12345678901234567890,"tags":[1, "x"]}'},
        {"delay": 9, "_rescued_data": '{"Delay":10,"odd name":1,"kafka":2,"_rescued_data":3}'},
    ]
    assert "4 rows with something in _rescued_data" in report.text
    assert world.progress().dead_letters == 0


def test_ci4_a_value_that_is_no_object_is_a_dead_letter(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="infer")
    world.append_values(stream, '{"a": 1}', "{", "[1]", '{"b": 1} {}', b'{"b": "\xff"}', None)
    world.export_now()
    assert rows_of(world) == [{"a": 1}, {}]
    dead = sorted(world.frame("kafka.t__errors").to_dicts(), key=lambda row: row["offset"])
    assert [row["offset"] for row in dead] == [1, 2, 3, 4] and all(row["reason"] for row in dead)
    assert kinds_of(world) == {"a": "long"}


def test_ci5_structs_get_fields_where_the_format_allows_it_and_else_they_are_rescued(
    world: TableWorld,
) -> None:
    (stream,) = world.kept(value="json", columns="infer")
    world.append_values(stream, '{"at": {"lat": 1.5}, "stops": [{"code": "SFO"}]}')
    world.export_now()
    later = '{"at": {"lat": 2.5, "floor": 3}, "stops": [{"code": "JFK", "n": 1}]}'
    world.append_values(stream, later)
    world.export_now()
    (_, row) = rows_of(world)
    if world.table_format == "iceberg":
        assert row == json.loads(later)
    else:
        assert row == {
            "at": {"lat": 2.5},
            "_rescued_data": '{"at":{"floor":3},"stops":[{"code": "JFK", "n": 1}]}',
        }


def test_ci6_listed_columns_keep_their_types_beside_found_ones(world: TableWorld) -> None:
    (stream,) = world.kept(
        value="json",
        columns="infer, at timestamp, counts map<string, long>, delay double",
        **{"partition.by": "day(at)"},
    )
    world.append_values(
        stream,
        '{"at": "2026-02-28T00:00:00Z", "delay": 1, "counts": {"u1": 1}, "x": 1}',
        '{"at": "yesterday", "delay": 2, "counts": {"u2": "many"}}',
    )
    world.export_now()
    assert kinds_of(world) == {"x": "long"}
    first, second = rows_of(world)
    assert first["at"].isoformat() == "2026-02-28T00:00:00+00:00" and first["delay"] == 1.0
    assert second["_rescued_data"] == '{"at":"yesterday","counts":{"u2": "many"}}'


def test_ci7_another_machine_finds_the_same_columns(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="infer")
    world.append_values(stream, '{"a": [1, "x", {"y": 1}], "b": "text"}')
    world.export_now()
    assert kinds_of(world)["a"] == "array<json>"
    before = kinds_of(world)
    image = world.metadata.refresh()
    world.metadata.execute(remove_columns(next(iter(image.topics))))
    world.append_values(stream, '{"b": "other"}')
    world.export_now()
    assert rows_of(world)[1] == {"b": "other"}
    world.append_values(stream, '{"c": 1}')
    world.export_now()
    assert set(kinds_of(world)) == {*before, "c"}, "those of the table, and what is new"


@pytest.mark.parametrize("instead", [kill, commit_and_kill])
def test_ci8_a_round_that_is_killed_after_it_found_columns_is_repeated(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch, instead: Any
) -> None:
    (stream,) = world.kept(value="json", columns="infer")
    world.append_values(stream, '{"a": 1}')
    world.export_now()
    world.append_values(stream, '{"a": 2, "b": 1}')

    with appending(world, monkeypatch, instead):
        export_is_killed(world)
    assert kinds_of(world) == {"a": "long", "b": "long"}
    world.export()
    assert rows_of(world) == [{"a": 1}, {"a": 2, "b": 1}]


def test_ci9_the_sample_is_bounded_and_what_follows_it_is_found_by_tasks(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="infer")
    world.append_values(stream, *['{"a": 1}'] * SAMPLE_RECORDS, '{"a": 1.5, "late": true}')
    report = world.export_now()
    assert rows_of(world)[SAMPLE_RECORDS] == {"late": True, "_rescued_data": '{"a":1.5}'}
    assert "new field late: boolean" in report.text


def test_ci9_the_sample_has_records_of_each_partition(world: TableWorld) -> None:
    """The partitions of a small topic are read by one task, one after the other."""
    whole, fraction = world.kept(partitions=2, value="json", columns="infer")
    world.append_values(whole, *['{"a": 1}'] * SAMPLE_RECORDS)
    world.append_values(fraction, '{"a": 1.5}')
    world.export_now()
    frame = world.frame()
    assert frame["a"].sum() == SAMPLE_RECORDS + 1.5
    assert frame["_rescued_data"].null_count() == len(frame) == SAMPLE_RECORDS + 1


def test_ci10_a_table_has_no_more_columns_than_it_may(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="infer")
    many = {f"n{number}": 1 for number in range(1_100)}
    world.append_values(stream, json.dumps(many), json.dumps({"inside": {f"u{n}": n for n in range(300)}}))
    world.export_now()
    first, second = rows_of(world)
    rescued = json.loads(first.pop("_rescued_data"))
    assert len(first) == 1_000 and {**first, **rescued} == many
    assert json.loads(second["_rescued_data"]) == {"inside": {f"u{n}": n for n in range(300)}}


def test_ci11_listed_columns_become_found_ones_and_the_other_way_round(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="a long, more json")
    world.append_values(stream, '{"a": 1, "b": 2}')
    world.export_now()
    world.set_table(columns="infer, more json")
    world.append_values(stream, '{"a": 2, "b": 3, "more": [1]}')
    world.export_now()
    world.set_table(columns="a long")
    world.append_values(stream, '{"a": 3, "b": 4}')
    world.export_now()
    assert rows_of(world) == [{"a": 1}, {"a": 2, "b": 3, "more": "[1]"}, {"a": 3}]


def test_ci12_fields_that_only_some_batches_have_room_for_cost_no_row(world: TableWorld) -> None:
    """What all tasks find together may be no column where what each finds would be one."""
    (stream,) = world.kept(value="json", columns="infer")
    world.append_values(stream, '{"counts": {"u": 1}}')
    world.export_now()
    sent = [{"counts": {f"{part}{n}": n for n in range(120)}} for part in "ab"]
    for each in sent:
        world.append_values(stream, json.dumps(each))
    world.export_now()
    assert [_known(row) for row in rows_of(world)[1:]] == sent


def test_ci13_names_that_no_column_can_have_take_no_room_from_others(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="infer")
    world.append_values(stream, '{"a": 1}')
    world.export_now()
    odd = {f"odd {n}": n for n in range(1_100)}
    for fields in ({"b": 1, **odd}, {"c": 2}, {"d": 3}):
        world.append_values(stream, json.dumps(fields))
    world.export_now()
    assert [_known(row) for row in rows_of(world)] == [{"a": 1}, {"b": 1, **odd}, {"c": 2}, {"d": 3}]


def test_ci14_the_table_counts_where_another_driver_has_recorded_other_columns(world: TableWorld) -> None:
    """Two drivers may find the same field at once, with other types or in another case."""
    (stream,) = world.kept(value="json", columns="infer")
    world.append_values(stream, '{"x": 1, "y": {"a": 1}, "z": [1, "x", {}]}')
    world.export_now()
    (topic_id,) = [each.topic_id for each in world.metadata.refresh().topics.values() if each.name == "t"]
    others = {"X": "string", "y": "struct<b:long,a:string>", "z": "array<json>"}
    world.metadata.execute(put_columns(topic_id, tuple(TableColumn(*each) for each in others.items())))
    sent = '{"x": 2, "y": {"a": 2, "b": 3}, "z": [{"k": 1}]}'
    world.append_values(stream, sent)
    world.export_now()
    assert set(world.frame().columns) - {"timestamp_day"} == {"x", "y", "z", "_rescued_data", "kafka"}
    row = _known(rows_of(world)[1])
    assert {**row, "z": [json.loads(each) for each in row["z"]]} == json.loads(sent)


def test_ci15_a_column_that_is_listed_later_in_another_case_is_refused(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="infer")
    world.append_values(stream, '{"Delay": 1}')
    world.export_now()
    world.set_table(columns="infer, delay long")
    world.append_values(stream, '{"delay": 2}')
    assert "column delay differs from its column Delay by case alone" in world.why_failed()
    world.set_table(columns="infer, Delay long")
    world.export_now()
    assert rows_of(world) == [{"Delay": 1}, {"_rescued_data": '{"delay":2}'}]


def test_ci16_names_of_the_formats_own_columns_are_rescued(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="infer")
    fields = {"_change_type": "insert", "_FILE": "x", "_pos": 1, "timestamp_day": 2, "a": 1}
    world.append_values(stream, json.dumps(fields))
    world.export_now()
    (row,) = rows_of(world)
    assert set(row) == {"a", "_rescued_data"} and _known(row) == fields


def test_ci17_names_of_the_columns_of_versions_stop_no_upsert_table(world: TableWorld) -> None:
    if world.table_format == "parquet":
        pytest.skip("a plain Parquet table cannot be an upsert table")
    (stream,) = world.kept(value="json", columns="infer", mode="upsert", buckets="4")
    fields = {"a": 1, "_is_current": True, "_valid_from": 2, "_VALID_TO": "x"}
    for number in range(2):
        world.append_values(stream, json.dumps({**fields, "a": number}))
        world.export_now()
    (row,) = rows_of(world)
    known = {name: each for name, each in _known(row).items() if not name.startswith("kafka")}
    assert known == {**fields, "a": 1}


def _known(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a row, in columns or rescued."""
    fields = {name: each for name, each in row.items() if name != "_rescued_data"}
    rescued = json.loads(row.get("_rescued_data", "{}"))
    for name, each in rescued.items():
        inside = fields.get(name)
        fields[name] = {**_there(inside), **each} if isinstance(inside, dict) else each
    return {name: _there(each) if isinstance(each, dict) else each for name, each in fields.items()}


def _there(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in fields.items() if each is not None}


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_field_may_have_any_name_that_a_column_can_have(world: TableWorld, mode: str) -> None:
    """One with the name of the mark of tombstones stopped its topic, or got files that are made for one reading."""
    if mode == "upsert" and world.table_format == "parquet":
        pytest.skip("it has no upsert tables")
    (stream,) = world.kept(value="json", columns="infer", mode=mode)
    world.append_pairs(stream, [("a", '{"__tombstone": true}'), ("b", '{"__tombstone": false}')])
    world.export_now()
    assert sorted(each["__tombstone"] for each in rows_of(world)) == [False, True]
    column = pq.ParquetFile(world.paths()[0]).metadata.row_group(0).column(0)
    assert column.compression == "ZSTD" and column.statistics is not None
