"""After each round the table has the records that a consumer sees, each record once."""

from datetime import UTC, datetime
from random import Random

import pytest

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.metadata.commands import RemoveKey
from siltstone.model.limits import HOUR_MS
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.offline.topic_streams import topic_streams
from siltstone.tables import joining
from siltstone.tables.orphans import delete_orphans
from siltstone.tables.progress import exported_offset, key_of
from support.maintenance.table_world import TableWorld


def fill(world: TableWorld, streams: list[int], seed: int = 1) -> None:
    for number, stream_id in enumerate(streams):
        world.fill(stream_id, seed + number, count=60)


def test_tb1_three_partitions_of_all_codecs_are_rows_of_the_table(world: TableWorld) -> None:
    streams = world.kept(partitions=3)
    for codec in Codec:
        for stream_id in streams:
            world.append_pairs(stream_id, [("a", "1"), (None, "2"), ("b", None)], codec=codec)
    unit = world.export_now()
    assert unit.text == "45 rows in 1 file appended to table kafka.t"
    assert world.rows() == world.expected(streams)
    assert (world.progress().rows, world.progress().dead_letters) == (45, 0)
    fill(world, streams)
    world.export_now()
    assert world.rows() == world.expected(streams)
    assert world.export().units == ()


def test_a_round_takes_a_share_of_each_partition_and_says_that_there_is_more(world: TableWorld) -> None:
    streams = world.kept(partitions=2)
    fill(world, streams)
    rounds = 0
    while True:
        report = world.export(round_bytes=1_500)
        if not report.units:
            break
        rounds += 1
        assert report.is_well
        left = any(
            world.stream(each).end_offset > world.progress().offsets[n] for n, each in enumerate(streams)
        )
        assert report.has_remaining == left
    assert rounds > 2
    assert world.rows() == world.expected(streams)


def test_tb6_what_was_trimmed_before_its_export_is_a_gap_that_is_told(world: TableWorld) -> None:
    (stream,) = world.kept()
    world.append_pairs(stream, [("a", "1"), ("b", "2")])
    world.trim(stream, 1)
    world.export_now()
    assert world.places() == [(0, 1)], "the first export begins at the log start, and that is no gap"
    assert world.progress().lost == 0
    world.append_pairs(stream, [("c", "3"), ("d", "4"), ("e", "5")])
    world.trim(stream, 4)
    assert "2 offsets had been removed before the export" in world.export_now().text
    assert world.places() == [(0, 1), (0, 4)]
    with world.table_of() as table:
        assert [(gap.partition, gap.start_offset, gap.end_offset) for gap in table.ledger.gaps] == [(0, 2, 4)]
    assert world.progress().lost == 2


def test_tb6_a_round_that_finds_everything_trimmed_notes_it_and_goes_on(world: TableWorld) -> None:
    (stream,) = world.kept()
    world.append_pairs(stream, [("a", "1")])
    world.export_now()
    world.append_pairs(stream, [("b", "2")], [("c", "3")])
    world.trim(stream, 2)
    world.export_now()
    world.append_pairs(stream, [("d", "4")])
    world.trim(stream, 4)
    world.clock.advance_ms(1)
    assert world.export().units == (), "nothing is in objects that the table lacks"
    world.append_pairs(stream, [("e", "5")])
    world.export_now()
    assert world.places() == [(0, 0), (0, 2), (0, 4)]
    assert world.progress().lost == 2


def test_tb6_offsets_that_key_compaction_removed_are_no_gap(world: TableWorld) -> None:
    (stream,) = world.topic("t", **{"siltstone.table.format": world.table_format})
    world.append_pairs(stream, [("a", "1"), ("a", "2"), ("b", "3"), ("a", "4")])
    world.roll(stream)
    world.compact_now()
    world.export_now()
    assert world.places() == [(0, 2), (0, 3)]
    assert world.progress().lost == 0


def test_tb6_with_retention_held_a_gap_pauses_the_export(plain: TableWorld) -> None:
    (stream,) = plain.kept(retention="true")
    plain.append_pairs(stream, [("a", "1")])
    plain.export_now()
    plain.append_pairs(stream, [("b", "2"), ("c", "3")])
    plain.trim(stream, 2)
    assert "RecordsRemoved: the offsets 1 to 2 of partition 0 were removed" in plain.why_failed()
    plain.set_table(retention="false")
    plain.export_now()
    assert plain.places() == [(0, 0), (0, 2)]


def test_tb12_a_pruned_read_finds_all_rows_and_opens_only_their_files(iceberg: TableWorld) -> None:
    for layout in ({"value": "json", "columns": "carrier string"}, {"value": "json"}):
        name = "fields" if "columns" in layout else "records"
        by = (
            "hour(timestamp),identity(carrier)"
            if "columns" in layout
            else "hour(timestamp),identity(partition)"
        )
        (stream,) = iceberg.kept(name, **layout)
        iceberg.configure(name, **{"siltstone.table.partition.by": by})
        for _ in range(3):
            iceberg.append_values(stream, '{"carrier": "AA"}', '{"carrier": "UA"}', None)
            iceberg.clock.advance_ms(HOUR_MS)
    iceberg.export()
    with iceberg.table_of("kafka.fields") as table:
        scanned = table._table.scan(row_filter="carrier = 'AA'")  # type: ignore[attr-defined]
        partitions = sorted((each.file.partition[0], each.file.partition[1]) for each in scanned.plan_files())
        first = partitions[0][0]
        assert partitions == [(first, "AA"), (first + 1, "AA"), (first + 2, "AA")]
        assert scanned.to_arrow().num_rows == 3
        hour = datetime.fromtimestamp((first + 1) * 3600, UTC).isoformat()
        later = table._table.scan(row_filter=f"kafka.timestamp >= '{hour}'")  # type: ignore[attr-defined]
        assert (len(list(later.plan_files())), later.to_arrow().num_rows) == (6, 6)
    with iceberg.table_of("kafka.records") as table:
        scanned = table._table.scan(row_filter="partition = 0 and offset >= 3 and offset < 6")  # type: ignore[attr-defined]
        (only,) = scanned.plan_files()
        assert only.file.partition[1] == 0 and scanned.to_arrow()["offset"].to_pylist() == [3, 4, 5]


def test_tb16_a_topic_that_was_made_anew_is_not_appended_to_the_old_rows(world: TableWorld) -> None:
    (stream,) = world.kept()
    world.append_pairs(stream, [("a", "1")])
    world.export_now()
    world.delete_topic()
    (stream,) = world.kept()
    world.append_pairs(stream, [("b", "2")])
    assert world.why_failed().startswith(
        "TableOfAnotherTopic: table kafka.t holds the records of another topic"
    )
    assert [row[2] for row in world.rows()] == [b"a"]
    assert [key for key in world.image.keys if key.startswith("table-progress/")] == [], (
        "that of the old topic is gone"
    )
    world.set_table(name="kafka.t2")
    world.export_now()
    assert [row[2] for row in world.rows("kafka.t2")] == [b"b"]


def test_a_topic_with_another_table_or_another_format_begins_that_from_its_start(plain: TableWorld) -> None:
    (stream,) = plain.kept(retention="true")
    plain.append_pairs(stream, [("a", "1")])
    plain.export_now()
    plain.set_table(name="kafka.other")
    assert exported_offset(plain.image, topic_streams(plain.image)[stream]) == 0, (
        "it is not in that table yet"
    )
    plain.export_now()
    assert plain.places("kafka.t") == plain.places("kafka.other") == [(0, 0)]
    plain.table_format = "iceberg"
    plain.set_table(format="iceberg")
    plain.append_pairs(stream, [("b", "2")])
    plain.export_now()
    assert plain.places("kafka.other") == [(0, 0), (0, 1)]
    plain.table_format = "parquet"
    plain.set_table(format="parquet")
    plain.export_now()
    assert plain.places("kafka.other") == [(0, 0), (0, 1)], "the older table continues where it was"


def test_tb22_a_table_that_is_gone_is_not_begun_again(world: TableWorld) -> None:
    (stream,) = world.kept()
    world.append_pairs(stream, [("a", "1")])
    world.export_now()
    _drop(world)
    world.append_pairs(stream, [("b", "2")])
    assert (
        "LedgerLost: the ledger of table kafka.t is lost: the table is gone, 1 rows of it"
        in world.why_failed()
    )
    world.metadata.execute(RemoveKey(key_of(world.topic_named().topic_id)))
    world.export_now()
    assert world.places() == [(0, 0), (0, 1)]


@pytest.mark.parametrize(
    ("by", "row_filter"),
    [
        ("bucket(carrier,8)", "carrier = 'AA'"),
        ("truncate(carrier,1)", "carrier = 'AA'"),
        ("truncate(delay,10)", "delay = 5"),
        ("bucket(key,4)", "delay = 5"),
    ],
)
def test_tb12_a_table_is_divided_by_buckets_and_truncated_values(
    iceberg: TableWorld, by: str, row_filter: str
) -> None:
    (stream,) = iceberg.kept(value="json", columns="carrier string, delay int")
    iceberg.configure("t", **{"siltstone.table.partition.by": by})
    values = [
        f'{{"carrier": "{carrier}", "delay": {delay}}}'
        for carrier in ("AA", "AB", "UA", "Ü")
        for delay in (5, 17, -3)
    ]
    iceberg.append_values(stream, *values, None)
    iceberg.export_now()
    assert len(iceberg.rows()) == 13
    with iceberg.table_of() as table:
        raw = table._table  # type: ignore[attr-defined]
        assert table.partition_by[0].text == by
        scanned = raw.scan(row_filter=row_filter)
        assert scanned.to_arrow().num_rows == (3 if "carrier" in row_filter else 4)
        if "key" not in by:
            assert 0 < len(list(scanned.plan_files())) < len(list(raw.scan().plan_files()))


def _drop(world: TableWorld) -> None:
    if world.table_format == "iceberg":
        with world.tables() as tables:
            tables._catalog.drop_table("kafka.t")  # type: ignore[attr-defined]
    else:
        log = "_delta_log" if world.table_format == "delta" else "_siltstone"
        for path in (world.folder / f"tables/kafka/t/{log}").iterdir():
            path.unlink()


def test_tb22_a_table_that_was_rolled_back_is_not_appended_to(iceberg: TableWorld) -> None:
    (stream,) = iceberg.kept()
    iceberg.append_pairs(stream, [("a", "1")])
    iceberg.export_now()
    with iceberg.table_of() as table:
        first = table._table.current_snapshot().snapshot_id  # type: ignore[attr-defined]
    iceberg.append_pairs(stream, [("b", "2")])
    iceberg.export_now()
    with iceberg.table_of() as table:
        table._table.manage_snapshots().rollback_to_snapshot(first).commit()  # type: ignore[attr-defined]
    iceberg.append_pairs(stream, [("c", "3")])
    assert "TableRolledBack: table kafka.t was rolled back or restored: snapshot" in iceberg.why_failed()
    assert iceberg.places() == [(0, 0)]


@pytest.mark.parametrize("lost", ["newest", "middle"])
def test_tb22_a_parquet_table_without_one_of_its_commits_is_not_appended_to(
    plain: TableWorld, lost: str
) -> None:
    (stream,) = plain.kept()
    for number in range(3):
        plain.append_pairs(stream, [("a", str(number))])
        plain.export_now()
    commits = sorted((plain.folder / "tables/kafka/t/_siltstone").iterdir())
    assert len(commits) == 4
    commits[-1 if lost == "newest" else 2].unlink()
    plain.append_pairs(stream, [("b", "2")])
    assert plain.why_failed().startswith("TableRolledBack: table kafka.t was rolled back or restored: ")


def test_tb22_a_ledger_that_was_removed_is_never_guessed(iceberg: TableWorld) -> None:
    (stream,) = iceberg.kept()
    iceberg.append_pairs(stream, [("a", "1")])
    iceberg.export_now()
    with iceberg.table_of() as table, table._table.transaction() as transaction:  # type: ignore[attr-defined]
        transaction.remove_properties("siltstone.offsets")
    iceberg.append_pairs(stream, [("b", "2")])
    assert (
        "LedgerLost: the ledger of table kafka.t is lost: its property siltstone.offsets"
        in iceberg.why_failed()
    )


def test_a_table_of_somebody_else_is_left_alone(iceberg: TableWorld) -> None:
    import pyarrow as pa

    with iceberg.tables() as tables:
        tables._catalog.create_namespace("kafka")  # type: ignore[attr-defined]
        tables._catalog.create_table(
            "kafka.t", pa.schema([("x", pa.int32())]), location=f"{iceberg.folder}/x"
        )  # type: ignore[attr-defined]
    (stream,) = iceberg.kept()
    iceberg.append_pairs(stream, [("a", "1")])
    assert iceberg.why_failed().startswith("TableNotOurs: table kafka.t exists and was not made by Siltstone")


def test_a_store_that_was_restored_from_an_older_copy_is_not_exported(world: TableWorld) -> None:
    (stream,) = world.kept()
    world.append_pairs(stream, [("a", "1")], [("b", "2")])
    world.export_now()
    from siltstone.tables.failures import TableAhead
    from siltstone.tables.planning import exports, round_ranges

    export = exports(world.image)["t"]
    with world.table_of() as table:
        ledger = table.ledger
    ahead = ledger.after({0: 3}, "later", 1)
    with pytest.raises(TableAhead, match="holds the offsets of t-0 up to 3, and the partition ends at 2"):
        round_ranges(world.image, export, ahead, None, 1_000)


def test_tb8_a_field_that_is_added_becomes_a_column_and_older_rows_have_null(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="a int")
    world.append_values(stream, '{"a": 1, "b": "x"}')
    world.export_now()
    world.set_table(columns="a int, b string")
    world.append_values(stream, '{"a": 2, "b": "y"}', '{"a": 3}')
    world.export_now()
    assert [row[3] for row in world.rows()] == [(1, None), (2, "y"), (3, None)]
    with world.table_of() as table:
        names = table.schema.names
        assert sorted(names) == ["a", "b", "kafka"] and (
            names[-1] == "kafka" or world.table_format == "delta"
        )
    world.append_values(stream, '{"a": 4, "b": "z"}')
    world.export_now()
    assert len(world.rows()) == 4


def test_tb8_an_int_column_becomes_long_where_the_format_can_widen(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="a int")
    world.append_values(stream, '{"a": 1}')
    world.export_now()
    world.set_table(columns="a long")
    world.append_values(stream, '{"a": 5000000000}')
    if world.table_format == "iceberg":
        world.export_now()
        with world.table_of() as table:
            assert sorted(table._table.scan().to_arrow()["a"].to_pylist()) == [1, 5_000_000_000]  # type: ignore[attr-defined]
    elif world.table_format == "delta":  # which has long from the beginning
        world.export_now()
        assert [row[3] for row in world.rows()] == [(1,), (5_000_000_000,)]
    else:
        assert (
            "TableShapedOtherwise: table kafka.t does not fit the topic's configurations: column a is int32"
            in (world.why_failed())
        )


def test_tb8_a_layout_or_a_division_that_changes_is_refused(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="a int")
    world.append_values(stream, '{"a": 1}')
    world.export_now()
    world.append_values(stream, '{"a": 2}')
    world.configure("t", **{"siltstone.table.partition.by": "hour(timestamp)"})
    assert "it is divided by day(timestamp), which cannot be changed" in world.why_failed()
    world.configure("t", **{"siltstone.table.partition.by": "day(timestamp)"})
    world.set_table(columns="", value="string")
    assert "it has the columns of records where fields are wanted" in world.why_failed()


def test_tb9_records_that_cannot_be_decoded_are_dead_letters_with_a_reason(world: TableWorld) -> None:
    streams = world.kept(partitions=2, value="json", columns="a int")
    for stream_id in streams:
        world.append_values(stream_id, *['{"a": 1}'] * 5, "garbage", '{"a": "x"}', None)
    assert "4 records could not be decoded, in its dead letters" in world.export_now().text
    assert len(world.rows()) == 12
    dead = world.frame("kafka.t__errors")
    assert sorted(dead.select("partition", "offset").rows()) == [(0, 5), (0, 6), (1, 5), (1, 6)]
    assert dead["value"].to_list() == [b"garbage", b'{"a": "x"}'] * 2
    assert set(dead["reason"]) == {
        "JSON is malformed: invalid character (byte 0)",
        "Expected `int | null`, got `str` - at `$.a`",
    }
    assert world.progress().dead_letters == 4
    for stream_id in streams:
        world.append_values(stream_id, "more garbage", *['{"a": 2}'] * 3)
    world.export_now()
    assert (len(world.rows()), len(world.frame("kafka.t__errors"))) == (18, 6)


def test_tb9_a_topic_that_pauses_at_bad_records_is_exported_while_there_are_none(plain: TableWorld) -> None:
    (stream,) = plain.kept(value="json", errors="pause")
    plain.append_values(stream, "{}", "{}")
    plain.export_now()
    assert plain.places() == [(0, 0), (0, 1)]
    plain.append_values(stream, "{}", "garbage")
    assert plain.why_failed().startswith("RecordsNotDecodable")
    assert plain.places() == [(0, 0), (0, 1)]


def test_tb9_records_are_dropped_where_that_is_asked_for(plain: TableWorld) -> None:
    (stream,) = plain.kept(value="json", errors="drop")
    plain.append_values(stream, "{}", "garbage", "[]")
    assert plain.export_now().text.endswith("1 record could not be decoded, dropped")
    assert plain.places() == [(0, 0), (0, 2)]
    with plain.tables() as tables:
        assert tables.load("kafka.t__errors") is None


def test_tb10_a_round_of_mostly_garbage_writes_nothing_and_says_why(world: TableWorld) -> None:
    (stream,) = world.kept(value="json")
    world.append_values(stream, *["garbage"] * 60, *["{}"] * 40)
    text = world.why_failed()
    assert "RecordsNotDecodable: 60 of 100 records for table kafka.t cannot be decoded" in text
    assert "partition 0 offset 0: JSON is malformed" in text
    assert (world.rows(), world.rows("kafka.t__errors")) == ([], [])
    world.configure("t", **{"siltstone.table.value": "string"})
    world.export_now()
    assert len(world.rows()) == 100


def test_tb10_one_bad_record_of_one_does_not_stop_a_quiet_topic_unless_told_so(plain: TableWorld) -> None:
    (stream,) = plain.kept(value="json", errors="pause")
    plain.append_values(stream, "garbage")
    assert "siltstone.table.errors is pause" in plain.why_failed()
    plain.set_table(errors="dead-letter")
    plain.export_now()
    assert plain.places("kafka.t__errors") == [(0, 0)]


def test_keys_as_text(plain: TableWorld) -> None:
    (stream,) = plain.kept(key="string", value="json", columns="a int")
    plain.append_values(stream, '{"a": 1}')
    plain.export_now()
    assert plain.rows() == [(0, 0, "k0", (1,))]


def test_many_small_rounds_are_all_there(plain: TableWorld) -> None:
    (stream,) = plain.kept()
    rng = Random(1)
    for _ in range(20):
        plain.append_pairs(stream, [("k", str(rng.random())) for _ in range(5)])
        plain.export_now()
    assert plain.rows() == plain.expected([stream])


def test_snapshots_older_than_a_day_expire_but_the_newest_ten_and_their_files_are_deleted(
    iceberg: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "SMALL_FILES_MAX", 100)
    (stream,) = iceberg.kept()
    for number in range(14):
        iceberg.append_pairs(stream, [("k", str(number))])
        iceberg.export_now()
    folder, hour_ms = iceberg.folder / "tables/kafka/t", HOUR_MS
    with iceberg.table_of() as table:
        newest_ms = max(each.timestamp_ms for each in table._table.metadata.snapshots)  # type: ignore[attr-defined]
        table.expire(newest_ms + 23 * hour_ms)
    with iceberg.table_of() as table:
        assert len(table._table.metadata.snapshots) == 14  # type: ignore[attr-defined]
        table.expire(newest_ms + 25 * hour_ms)
    with iceberg.table_of() as table:
        assert len(table._table.metadata.snapshots) == 10  # type: ignore[attr-defined]
        before = len(list(folder.rglob("*.avro")))
        store = store_at(iceberg.settings.location)
        assert delete_orphans(store, table, iceberg.image.jobs, newest_ms + 23 * hour_ms) == 0
        deleted = delete_orphans(store, table, iceberg.image.jobs, newest_ms + 25 * hour_ms)
        assert deleted >= 4 and len(list(folder.rglob("*.avro"))) == before - deleted
        for snapshot in table._table.metadata.snapshots:  # type: ignore[attr-defined]
            assert table._table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows > 0  # type: ignore[attr-defined]
    iceberg.append_pairs(stream, [("k", "last")])
    iceberg.export_now()
    assert iceberg.rows() == iceberg.expected([stream])


def test_a_topic_that_is_gone_meanwhile_is_not_needed(plain: TableWorld) -> None:
    (stream,) = plain.kept()
    plain.append_pairs(stream, [("a", "1")])
    from siltstone.carrying.pipeline.kind import Attempt, Scope
    from siltstone.carrying.pipeline.watch import Watch
    from siltstone.tables.kind import TableExport

    kind, watch = TableExport(plain.settings), Watch("table-export", plain.clock)
    plan = kind.plan(plain.context, Scope(), watch)
    plain.delete_topic()
    (unit,) = kind.carry_out(plan, ["t"], Attempt(plain.context, lambda: None, 0, watch))  # type: ignore[arg-type, return-value]
    assert unit.outcome is Outcome.NOT_NEEDED
