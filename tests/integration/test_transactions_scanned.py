"""Scans of partitions with transactions (TP49): they read what a consumer of committed records gets, whether they lie
in objects, in the tail of a broker, or in both."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

import siltstone
from siltstone.scanning.from_python import Scan
from siltstone.server.embedded import Broker
from siltstone.tables.failures import TableNotThere
from siltstone.tables.inspecting import opened_table
from support.kafka.partition_writers import LEVELS, Writers, consumed

TABLE = {"siltstone.table.format": "delta", "siltstone.table.value": "string"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with siltstone.Broker(tmp_path / "store") as running:
        yield running


def scanned(store: Path | Broker, topic: str, **how: object) -> list[bytes]:
    folder = store if isinstance(store, Path) else store.folder
    scan: Scan = siltstone.scan(topic, store=folder, columns=["value"], **how)
    values: list[bytes] = scan.to_arrow().column("value").to_pylist()
    return values


def assert_same(broker: Broker, topic: str) -> None:
    for isolation in LEVELS:
        expected = consumed(broker, topic, isolation)
        for tail in ("auto", "fetch"):
            assert scanned(broker, topic, isolation=isolation, tail=tail) == expected, (isolation, tail)


def test_tp49_a_scan_reads_what_is_decided_and_no_aborted_record(broker: Broker) -> None:
    writers = Writers(broker)
    writers.write("t", count=2)
    writers.write("t", "a", 2)
    writers.end("a", commits=True)
    writers.write("t", "b", 3)
    writers.end("b", commits=False)
    writers.write("t")
    writers.write("t", "c", 2)
    writers.write("t")
    assert_same(broker, "t")
    committed = scanned(broker, "t", isolation="committed")
    assert len(committed) == 5 and len(scanned(broker, "t", isolation="uncommitted")) == 11
    broker.flush()
    assert_same(broker, "t")
    assert scanned(broker, "t", tail="committed") == committed
    writers.end("c", commits=True)
    assert_same(broker, "t")
    assert scanned(broker, "t", tail="flush") == consumed(broker, "t", "committed")
    assert scanned(broker, "t", tail="committed") == consumed(broker, "t", "committed")


@pytest.mark.parametrize("commits", [True, False])
def test_tp49_a_marker_in_the_tail_decides_what_lies_in_objects(broker: Broker, commits: bool) -> None:
    writers = Writers(broker)
    writers.write("t", "a", 3)
    writers.write("t", "b", 1)
    broker.flush()
    before = scanned(broker, "t", tail="committed")
    assert before == scanned(broker, "t") == []
    writers.end("a", commits=commits)
    assert scanned(broker, "t", tail="committed") == []
    assert_same(broker, "t")
    assert len(scanned(broker, "t")) == (3 if commits else 0)


def test_tp49_without_a_broker_the_objects_say_it_all(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with siltstone.Broker(folder) as broker:
        writers = Writers(broker)
        writers.write("t", "a", 2)
        writers.end("a", commits=False)
        writers.write("t", "b", 2)
        writers.end("b", commits=True)
        writers.write("t", "c", 2)
        writers.write("t")
        committed, everything = (consumed(broker, "t", level) for level in LEVELS)
    assert len(committed) == 2 and len(everything) == 7
    assert scanned(folder, "t") == scanned(folder, "t", tail="committed") == committed
    assert scanned(folder, "t", isolation="uncommitted") == everything


@pytest.mark.parametrize("seed", range(3))
def test_tp49_random_transactions_are_read_as_a_consumer_reads_them(broker: Broker, seed: int) -> None:
    rng, writers = Random(seed), Writers(broker)
    for _ in range(60):
        match rng.randrange(6):
            case 0:
                broker.flush()
            case 1 | 2 if writers.open_names:
                writers.end(rng.choice(writers.open_names), commits=rng.random() < 0.5)
            case _:
                writers.write("t", rng.choice(["", "a", "b", "c"]), rng.randrange(1, 4))
    assert_same(broker, "t")
    for name in writers.open_names:
        writers.end(name, commits=rng.random() < 0.5)
    assert_same(broker, "t")
    broker.flush()
    assert scanned(broker, "t", tail="committed") == consumed(broker, "t", "committed")


def test_tp52_a_table_waits_for_a_transaction_and_the_plan_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with siltstone.Broker(folder) as broker:
        broker.create_topic("t", config=TABLE)
        writers = Writers(broker)
        writers.write("t")
        writers.write("t", "a")
        writers.write("t")
        broker.flush()
        assert "1 offset" in exported(folder)
        assert "t-0 has a transaction that is open since offset 1" in exported(folder)
        assert in_table(folder) == [b"plain-0"]
        writers.end("a", commits=True)
        broker.flush()
        exported(folder)
        assert in_table(folder) == [b"plain-0", b"a-1", b"plain-2"]


@pytest.mark.parametrize("seed", range(2))
def test_tp52_a_table_has_each_committed_record_once_and_in_order(tmp_path: Path, seed: int) -> None:
    rng, folder = Random(seed), tmp_path / "store"
    with siltstone.Broker(folder) as broker:
        broker.create_topic("t", config=TABLE)
        writers = Writers(broker)
        for _ in range(50):
            match rng.randrange(8):
                case 0:
                    broker.flush()
                    exported(folder)
                    assert in_table(folder) == scanned(folder, "t", tail="committed")
                case 1 | 2 | 3 if writers.open_names:
                    writers.end(rng.choice(writers.open_names), commits=rng.random() < 0.5)
                case _:
                    writers.write("t", rng.choice(["", "a", "b", "c"]), rng.randrange(1, 4))
        for name in writers.open_names:
            writers.end(name, commits=rng.random() < 0.5)
        broker.flush()
        while "done" in exported(folder):
            pass
        assert in_table(folder) == consumed(broker, "t", "committed")


@pytest.mark.parametrize("seed", range(2))
def test_tp52_readers_of_iceberg_find_each_committed_record_once(tmp_path: Path, seed: int) -> None:
    """pyiceberg by the catalog, and DuckDB by the files that the newest snapshot names."""
    rng, folder = Random(seed), tmp_path / "store"
    with siltstone.Broker(folder) as broker:
        broker.create_topic("t", config={**TABLE, "siltstone.table.format": "iceberg"})
        writers = Writers(broker)
        for first in ("open", "aborted", "committed"):  # each kind is there before the first round
            writers.write("t", first, 2)
        writers.end("aborted", commits=False)
        writers.end("committed", commits=True)
        broker.flush()
        exported(folder)
        assert in_iceberg(folder) == [], "all waits for the open transaction, which is the first"
        writers.end("open", commits=True)
        for _ in range(40):
            match rng.randrange(8):
                case 0:
                    broker.flush()
                    exported(folder)
                    assert in_iceberg(folder) == scanned(folder, "t", tail="committed")
                case 1 | 2 | 3 if writers.open_names:
                    writers.end(rng.choice(writers.open_names), commits=rng.random() < 0.5)
                case _:
                    writers.write("t", rng.choice(["", "a", "b", "c"]), rng.randrange(1, 4))
        for name in writers.open_names:
            writers.end(name, commits=rng.random() < 0.5)
        broker.flush()
        while "done" in exported(folder):
            pass
        assert in_iceberg(folder) == consumed(broker, "t", "committed")


def in_iceberg(folder: Path) -> list[bytes]:
    """The values that both readers find, in the order of the offsets."""
    import duckdb  # at its end, each process that has imported it complains about leaks of DuckDB's

    if not (folder / "tables/catalog.sqlite").exists():
        return []
    catalog = load_catalog("siltstone", type="sql", uri=f"sqlite:///{folder}/tables/catalog.sqlite")
    try:
        table = catalog.load_table(("kafka", "t"))
    except NoSuchTableError:
        return []
    rows = table.scan().to_arrow().select(["offset", "value"])
    found = sorted(zip(*rows.to_pydict().values(), strict=True))
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    by_duckdb = (
        duckdb.read_parquet(files).select('"offset", "value"').order('"offset"').fetchall() if files else []
    )
    assert by_duckdb == found
    return [value.encode() for _, value in found]


def exported(folder: Path) -> str:
    """Runs a round, and returns what the plan or the report says of the topic."""
    with siltstone.open_store(folder) as store:
        plan = siltstone.maintenance.plan(store, kinds=["table-export"], force=True)
        reasons = [each.reason for kind in plan.kinds for each in kind.unplanned]
        return f"{plan} {reasons} {plan.run()}"


def in_table(folder: Path) -> list[bytes]:
    with siltstone.open_store(folder) as store:
        try:
            with opened_table(store.context, store.kind_settings.tables, "t") as table:
                rows = DeltaTable(table.place).to_pyarrow_table()
        except TableNotThere:
            return []
    found = sorted(zip(rows["offset"].to_pylist(), rows["value"].to_pylist(), strict=True))
    return [value.encode() for _, value in found]
