"""What commands show of tables: counts from the metadata, and the table itself."""

import pytest

from siltstone.tables.failures import LedgerLost, TableNotThere
from siltstone.tables.inspecting import export_of, file_urls, opened_table, table_rows
from siltstone.tables.progress import TableProgress, put_progress
from support.maintenance.table_world import TableWorld


def put(world: TableWorld, **counts: int) -> None:
    progress = TableProgress(table="kafka.t", table_format="parquet", offsets={0: 1}, **counts)
    world.metadata.execute(put_progress(world.topic_named().topic_id, progress))


def test_a_topic_that_was_never_exported_has_zeros_and_its_lag(plain: TableWorld) -> None:
    (stream,) = plain.kept()
    plain.append_pairs(stream, [("a", "1"), ("b", "2")])
    (row,) = table_rows(plain.image)
    assert (row.topic, row.table, row.table_format, row.trouble) == ("t", "kafka.t", "parquet", "")
    assert (row.rows, row.dead_letters, row.lost, row.exported_ms) == (0, 0, 0, 0)
    assert row.lag_offsets == 2 and row.lag_bytes > 0


def test_counts_are_those_of_its_progress(plain: TableWorld) -> None:
    (stream,) = plain.kept()
    plain.append_pairs(stream, [("a", "1"), ("b", "2")])
    put(plain, rows=7, dead_letters=5, lost=3, exported_ms=11)
    (row,) = table_rows(plain.image)
    assert (row.rows, row.dead_letters, row.lost, row.exported_ms, row.lag_offsets) == (7, 5, 3, 11, 1)


def test_why_the_last_export_failed_is_told_and_first_why_there_can_be_none(plain: TableWorld) -> None:
    (stream,) = plain.kept(value="json", errors="pause")
    plain.append_values(stream, "garbage")
    assert plain.why_failed().startswith("RecordsNotDecodable")
    (row,) = table_rows(plain.image)
    assert row.trouble.startswith("RecordsNotDecodable")
    plain.set_table(value="string", columns="a int")
    (row,) = table_rows(plain.image)
    assert row.trouble.startswith("siltstone.table.columns names fields of JSON values")


def test_a_table_is_opened_with_the_urls_of_its_files(plain: TableWorld) -> None:
    (stream,) = plain.kept(value="json")
    for dead_letters in (False, True):
        why = "no record was bad" if dead_letters else "maintain run --kind table-export --flush makes it"
        with (
            pytest.raises(TableNotThere, match=f"there is no table kafka.*{why}"),
            opened_table(plain.context, plain.settings, "t", dead_letters=dead_letters),
        ):
            pass
    plain.append_values(stream, "{}", "garbage")
    plain.export_now()
    with opened_table(plain.context, plain.settings, "t") as table:
        (url,) = file_urls(table, plain.settings)
    assert url.startswith(f"{plain.settings.location}/kafka/t/data/") and url.endswith(".parquet")
    with opened_table(plain.context, plain.settings, "t", dead_letters=True) as table:
        assert (table.name, table.rows) == ("kafka.t__errors", 1)


def test_a_table_that_is_gone_since_its_export_is_a_lost_ledger_and_one_without_rows_is_not(
    plain: TableWorld,
) -> None:
    plain.kept()
    progress = TableProgress(table="kafka.t", table_format="parquet")
    plain.metadata.execute(put_progress(plain.topic_named().topic_id, progress))
    with pytest.raises(TableNotThere), opened_table(plain.context, plain.settings, "t"):
        pass
    put(plain)
    with (
        pytest.raises(LedgerLost, match=r"kafka\.t is lost: the table is gone"),
        opened_table(plain.context, plain.settings, "t"),
    ):
        pass


def test_a_topic_that_is_no_table_is_refused_with_those_that_are(plain: TableWorld) -> None:
    with pytest.raises(
        TableNotThere, match=r"topic x is not kept as a table: .*; no topic is kept as a table"
    ):
        export_of(plain.image, "x")
    plain.kept("a")
    plain.kept("b")
    with pytest.raises(TableNotThere, match="kept as tables are a, b"):
        export_of(plain.image, "x")
    assert export_of(plain.image, "b").table == "kafka.b"
