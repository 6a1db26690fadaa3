"""The findings of a check about tables."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.maintenance.checking.check import check
from siltstone.maintenance.checking.findings import FindingKind
from siltstone.maintenance.checking.table_check import _size_elsewhere
from siltstone.offline.settings import TableSettings
from siltstone.tables.failures import CatalogFailed, TablesMissing
from support.maintenance.foreign_writers import delta_table
from support.maintenance.table_world import TableWorld, table_world


@pytest.fixture(params=["parquet", "iceberg", "delta"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TableWorld]:
    with table_world(tmp_path, request.param) as made:
        (stream,) = made.kept(value="json")
        made.append_values(stream, "{}", "garbage")
        yield made


def findings(world: TableWorld) -> list[tuple[FindingKind, str]]:
    found = check(world.context, tables=world.settings).findings
    return [(each.kind, each.text) for each in found if each.kind.name.startswith("TABLE_")]


def test_a_table_that_is_whole_has_no_finding_nor_has_one_that_was_never_made(world: TableWorld) -> None:
    assert findings(world) == []
    world.export_now()
    assert findings(world) == []


def test_data_files_that_are_gone_or_have_another_size_are_named(world: TableWorld) -> None:
    world.export_now()
    for name, size in (("t", None), ("t__errors", 3)):
        (path,) = (world.folder / "tables/kafka" / name / "data").iterdir()
        if size is None:
            path.unlink()
        else:
            path.write_bytes(b"x" * size)
    (gone, short) = findings(world)
    assert gone[0] is short[0] is FindingKind.TABLE_WRONG
    assert gone[1].endswith(" of table kafka.t is missing")
    assert "of table kafka.t__errors has 3 bytes and not " in short[1]


def test_a_table_of_another_topic_and_one_that_is_gone(world: TableWorld) -> None:
    world.export_now()
    world.delete_topic()
    world.kept()
    ((kind, text),) = findings(world)
    assert kind is FindingKind.TABLE_WRONG and "holds the records of another topic" in text


def test_what_cannot_be_opened_is_a_note(world: TableWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    from siltstone.maintenance.checking import table_check

    world.export_now()
    for failure in (TablesMissing("pyiceberg"), CatalogFailed("no answer")):

        def refuse(*_: object, failure: Exception = failure) -> None:
            raise failure

        monkeypatch.setattr(table_check, "open_format", refuse)
        ((kind, text),) = findings(world)
        assert kind is FindingKind.TABLE_NOT_CHECKED and str(failure) in text


@pytest.mark.parametrize("world", ["delta"], indirect=True)
def test_files_that_another_program_wrote_into_the_folder_of_the_table_are_found_there(
    world: TableWorld,
) -> None:
    world.export_now()
    world.append_values(world.image.topics[world.topic_named().topic_id].partitions[0].data_stream_id, "{}")
    world.export_now()
    delta_table(world).optimize.compact()
    with world.table_of() as table:
        (path,) = [each.path for each in table.files()]
    assert not path.startswith("data/") and findings(world) == []
    (world.folder / "tables/kafka/t" / path).unlink()
    ((kind, text),) = findings(world)
    assert kind is FindingKind.TABLE_WRONG and text.endswith("of table kafka.t is missing")


def test_files_outside_the_folder_of_the_table_are_looked_for_there(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"123")
    settings = TableSettings(location=(tmp_path / "tables").as_uri())
    assert _size_elsewhere(f"{tmp_path.as_uri()}/x.parquet", settings) == 3
    assert _size_elsewhere(f"{tmp_path.as_uri()}/y.parquet", settings) is None
    assert _size_elsewhere(f"{tmp_path.as_uri()}/gone/y.parquet", settings) is None
