"""``siltstone tables`` on a store that a broker has left, with tables that were exported in this process."""

import json
from pathlib import Path

import pytest

import siltstone
from siltstone.offline.opening.store import open_store
from siltstone.server.embedded import Broker
from siltstone.server.settings.node import load_node_settings
from support.processes.cli import Outcome, run

CONFIG = {"siltstone.table.format": "parquet", "siltstone.table.value": "json"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``flights`` was exported, and one of its records is a dead letter; ``fresh`` was not; ``other`` is no table."""
    folder = tmp_path_factory.mktemp("tables") / "store"
    with Broker(folder) as broker:
        for name, config in {"flights": CONFIG, "fresh": CONFIG, "other": {}}.items():
            broker.create_topic(name, partitions=1, config=config)
        lines = b'{"a": 1}\ngarbage\n{"a": 2}\n'
        sent = run("produce", "flights", "-b", broker.bootstrap_servers, stdin=lines)
        assert sent.status == 0, sent
    with siltstone.open_store(folder) as store:
        report = siltstone.maintenance.plan(store, kinds=["table-export"], topics=["flights"]).run()
        assert report.is_well, report
    return folder


@pytest.fixture
def tables(folder: Path):
    def called(*words: object) -> Outcome:
        return run("tables", *words, "--store", folder, COLUMNS=None)

    return called


def test_the_list(tables) -> None:
    said = tables()
    assert said.status == 0
    rows = [line.split("\t") for line in said.out.splitlines()]
    assert rows[0] == ["topic", "table", "format", "rows", "dead letters", "lag", "last export (UTC)"]
    assert rows[1][:6] == ["flights", "kafka.flights", "parquet", "2", "1", "0"]
    assert rows[2] == ["fresh", "kafka.fresh", "parquet", "0", "0", "0", "-"]
    assert tables("list").out == said.out
    listed = json.loads(tables("--json").out)["tables"]
    assert [(each["topic"], each["rows"], each["trouble"]) for each in listed] == [
        ("flights", 2, ""),
        ("fresh", 0, ""),
    ]


def test_a_store_without_tables_says_so(tmp_path: Path) -> None:
    open_store(load_node_settings(tmp_path, environment={}), create=True).close()
    for words in (["tables"], ["tables", "list"]):
        assert run(*words, "--store", tmp_path).out == "No topic is kept as a table.\n"
    assert run("tables", "--json", "--store", tmp_path).json == {"tables": []}


def test_a_table_with_its_columns_files_and_offsets(tables, folder: Path) -> None:
    said = tables("show", "flights")
    assert "rows\t2\n" in said.out and "value\tstring\n" in said.out
    assert "0\t3\n" in said.out, "exported up to offset 3"
    (url,) = tables("show", "flights", "--files").out.split()
    assert Path(url.removeprefix("file://")).is_file()
    shown = json.loads(tables("show", "flights", "--json").out)
    assert (shown["rows"], shown["offsets"], shown["files"]) == (2, {"0": 3}, [url])
    assert shown["partition_by"] == ["timestamp_day"]
    errors = json.loads(tables("show", "flights", "--errors", "--json").out)
    assert errors["rows"] == 1 and errors["columns"]["reason"] == "string"


def test_why_a_topic_is_not_exported(tables) -> None:
    assert (
        "now\tis not exported: all that is in objects is in table kafka.flights\n"
        in tables("explain", "flights").out
    )
    told = json.loads(tables("explain", "fresh", "--json").out)
    assert told["format"] == "parquet" and told["exported"] == "at 64.0 MiB, or every 5 minutes"


def test_what_is_not_there(tables) -> None:
    for words in (("show", "other"), ("explain", "nosuch"), ("forget", "other", "--yes")):
        said = tables(*words)
        assert said.status == 2 and "is not kept as a table: set siltstone.table.format" in said.err, said
    said = tables("show", "fresh")
    assert said.status == 2 and "siltstone maintain run --kind table-export --flush makes it" in said.err


def test_a_table_of_dead_letters_that_never_had_one_stays_when_its_table_is_forgotten(tmp_path: Path) -> None:
    """It was made beside the table. After the table was dropped it kept ``forget`` from being carried out, although it
    holds nothing."""
    store = tmp_path / "store"

    def dropped() -> None:
        files = [path for path in (store / "tables/kafka/t").rglob("*") if path.is_file()]
        assert files
        for path in files:
            path.unlink()

    def exported(lines: bytes, config: dict[str, str] | None = None) -> None:
        with Broker(store) as broker:
            if config:
                broker.create_topic("t", partitions=1, config=config)
            sent = run("produce", "t", "-b", broker.bootstrap_servers, stdin=lines)
            assert sent.status == 0, sent
        with siltstone.open_store(store) as opened:
            report = siltstone.maintenance.plan(opened, kinds=["table-export"]).run()
            assert report.is_well, report

    def shown(*words: str) -> int:
        return int(json.loads(run("tables", "show", "t", *words, "--json", "--store", store).out)["rows"])

    exported(b'{"a": 1}\n', CONFIG)
    assert shown("--errors") == 0
    dropped()
    said = run("tables", "forget", "t", "--yes", "--store", store)
    assert said.status == 0 and "the next export of t begins a new table" in said.out, said
    exported(b'{"a": 2}\ngarbage\n')
    assert (shown(), shown("--errors")) == (2, 1), (
        "the new table has all records, and the one of dead letters is used"
    )
    dropped()
    said = run("tables", "forget", "t", "--yes", "--store", store)
    assert said.status == 2 and "table kafka.t__errors is still there, and has dead letters" in said.err, said


def test_a_table_that_is_there_is_not_forgotten_and_one_that_is_gone_is(
    tables, folder: Path, tmp_path: Path
) -> None:
    said = tables("forget", "flights", "--yes")
    assert said.status == 2 and "table kafka.flights is still there: drop or rename it first" in said.err
    moved = [folder / "tables/kafka" / name for name in ("flights", "flights__errors")]
    for path in moved:
        path.rename(tmp_path / path.name)
    try:
        gone = tables("show", "flights")
        assert gone.status != 0 and "LedgerLost" not in gone.out and "the table is gone" in gone.err
        assert "add --yes to confirm" in tables("forget", "flights").err
    finally:
        for path in moved:
            (tmp_path / path.name).rename(path)
    said = tables("forget", "fresh", "--yes")
    assert said.status == 0 and "the next export of fresh begins a new table" in said.out
