"""Scans whose columns are found: ``value="json", columns="infer"``. A table of the same records is the oracle."""

import json
from pathlib import Path
from typing import Any

import pytest

from siltstone.kafka_protocol.records.reading import Record
from siltstone.scanning import reading
from siltstone.scanning.arguments import scan_request
from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.found_values import as_json
from siltstone.scanning.result import Scan
from siltstone.scanning.scan import plan_scan, settle_values
from siltstone.value_formats.failures import BadValueFound
from support.maintenance.table_world import TableWorld, table_world

VALUES = (
    '{"carrier": "UA", "delay": 4, "on": true, "ratio": 1}',
    '{"carrier": "AA", "ratio": 0.5, "tags": ["a"], "at": {"lat": 1.5, "stops": [{"code": "B2"}]}}',
    '{"delay": "late", "other": null, "none": [], "at": {"lat": "x", "floor": 2}, "odd name": 1, "kafka": 5}',
    '{"delay": 7, "on": 1}',
)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    reading.INDEXES.clear()  # another world's objects have the same ids
    with table_world(tmp_path, "parquet") as world:
        yield world


def scanned(world: TableWorld, **words: Any) -> Scan:
    given = {"value": "json", "columns": "infer", "tail": "committed", "lease": "0", **words}
    return Scan(plan_scan(world.context, scan_request("t", **given)), world.clock)


def rows_of(scan: Scan) -> list[dict[str, Any]]:
    """Returns the rows without the columns of the record; fields without a value are left out."""
    return [
        {name: each for name, each in row.items() if name != "kafka" and each is not None}
        for row in scan.to_arrow().to_pylist()
    ]


def test_ci18_a_scan_has_the_columns_and_rows_of_the_table(store: TableWorld) -> None:
    (stream,) = store.kept(value="json", columns="infer")
    store.append_values(stream, *VALUES)
    store.append_values(stream, '{"late field": 1, "new": [1, 2.5]}')
    scan = scanned(store)
    assert scan.schema == scan.to_arrow().schema
    store.export_now()
    table = store.frame().to_dicts()
    table.sort(key=lambda row: row["kafka"]["offset"])
    found = scan.to_arrow().to_pylist()
    assert [row["kafka"]["offset"] for row in found] == list(range(5))
    for row, of_table in zip(found, table, strict=True):
        kafka, there = row.pop("kafka"), of_table.pop("kafka")
        assert {name: kafka[name] for name in ("partition", "offset", "key")} == {
            name: there[name] for name in ("partition", "offset", "key")
        } and kafka["topic"] == "t"
        assert row == of_table
    assert rows_of(scan)[2]["_rescued_data"].startswith('{"none":[]')


def test_ci18_what_is_found_and_widened_is_said(store: TableWorld) -> None:
    (stream,) = store.kept()
    store.append_values(stream, *VALUES)
    scan = scanned(store)
    assert "new field carrier: string" in scan.plan.news
    assert "field ratio: double, since it has values of long, too" in scan.plan.news
    assert "field delay: string, since it has values of long, too" in scan.plan.news
    assert "field ratio: double, since it has values of long, too" in repr(scan)
    assert len(set(scan.plan.news)) == len(scan.plan.news)


def test_ci19_a_value_that_is_no_object_is_rescued_whole(store: TableWorld) -> None:
    (stream,) = store.kept()
    store.append_values(stream, '{"a": 1}', "[1, 2]", "{", "7", b"\xff\x00", None, "null", '"x"')
    assert rows_of(scanned(store)) == [
        {"a": 1},
        {"_rescued_data": "[1, 2]"},
        {"_rescued_data": '"{"'},
        {"_rescued_data": "7"},
        {"_rescued_data": '{"base64":"/wA="}'},
        {},
        {},
        {"_rescued_data": '"x"'},
    ]
    nulls = scanned(store, bad_values="null")
    assert rows_of(nulls) == [{"a": 1}, *[{}] * 7] and nulls.bad_values.count == 5
    assert nulls.bad_values.first.startswith("offset 1 of t-0: ")
    with pytest.raises(BadValueFound, match="offset 1 of t-0"):
        scanned(store, bad_values="fail").to_arrow()


def test_ci19_a_value_that_is_very_deep_is_text(store: TableWorld) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    assert json.loads(as_json(deep.encode())) == deep


def test_ci20_listed_columns_beside_found_ones_have_the_type_that_is_given(store: TableWorld) -> None:
    (stream,) = store.kept()
    store.append_values(
        stream, '{"at": "2026-01-01T00:00:00Z", "n": 1, "counts": {"u1": 1}}', '{"at": "soon", "n": 2}'
    )
    scan = scanned(store, columns="infer, at timestamp, counts map<string, long>", headers=True)
    assert scan.schema.names == ["at", "counts", "n", "_rescued_data", "kafka"]
    assert [field.name for field in scan.schema.field("kafka").type] == [
        "topic", "partition", "offset", "timestamp", "key", "headers",
    ]  # fmt: skip
    first, second = rows_of(scan)
    assert first["counts"] == [("u1", 1)] and first["at"].year == 2026
    assert second == {"n": 2, "_rescued_data": '{"at":"soon"}'}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"value": None}, "give value='json'"),
        ({"value": "avro"}, "give value='json'"),
        ({"schema": "{}"}, "no schema"),
        ({"columns": "infer, at moment"}, "write NAME TYPE"),
        ({"columns": "infer, _rescued_data string"}, "is the column of what no other"),
        ({"bad_values": "skip"}, "rescue, fail or null"),
        ({"columns": "value", "bad_values": "rescue"}, "with columns='infer' it may be rescue"),
        ({"columns": "value", "schema_location": "x"}, "no columns are found"),
    ],
)
def test_ci20_words_that_contradict_each_other_are_refused(words: dict[str, Any], text: str) -> None:
    with pytest.raises(ScanRefused, match=text):
        scan_request("t", **{"value": "json", "columns": "infer", **words})


def test_ci21_kept_columns_are_found_again_and_new_fields_are_added(
    store: TableWorld, tmp_path: Path
) -> None:
    """The types stay; a field that comes later is a column after the next start, and until then it is rescued."""
    (stream,) = store.kept()
    place = tmp_path / "query"
    store.append_values(stream, '{"n": 1}', '{"n": 2}')
    request = scan_request("t", value="json", columns="infer", tail="committed", schema_location=place)
    first = settle_values(store.context, request)
    assert first is not None and first.found is not None and [each.kind for each in first.found] == ["long"]
    store.append_values(stream, '{"n": 2.5, "x": "a"}')
    running = scanned(store, schema_location=place).plan
    assert running.news == ("new field x: string",)
    assert [(each.name, each.kind) for each in running.value_format.found or ()] == [
        ("n", "long"), ("x", "string"),
    ]  # fmt: skip
    assert rows_of(scanned(store, schema_location=place))[2] == {"x": "a", "_rescued_data": '{"n":2.5}'}
    again = scanned(store, schema_location=place).plan
    assert again.news == () and again.value_format == running.value_format
    assert sorted(each.name for each in (place / "siltstone-columns").iterdir()) == [
        "00000000000000000001.json", "00000000000000000002.json",
    ]  # fmt: skip


def test_ci21_the_newest_records_are_sampled_too(store: TableWorld) -> None:
    (stream,) = store.kept()
    store.append_values(stream, *('{"n": 1}' for _ in range(15_000)))
    store.append_values(stream, *('{"n": 1}' for _ in range(8_000)), '{"last": true}')
    assert "new field last: boolean" in scanned(store).plan.news


def test_a_topic_without_records_has_the_two_columns_that_are_always_there(store: TableWorld) -> None:
    store.kept()
    assert scanned(store).schema.names == ["_rescued_data", "kafka"]


def test_rule_14_a_time_beyond_microseconds_stops_no_scan_whose_columns_are_found(store: TableWorld) -> None:
    (stream,) = store.kept()
    store.append_records(stream, Record(timestamp_ms=2**60, value=b'{"a": 1}'))
    (row,) = scanned(store).to_arrow().to_pylist()
    assert row["a"] == 1 and row["kafka"]["timestamp"] is None
