"""Erasure from topics that are kept as tables: rows of the keys leave the table, its dead letters and its older states.

Files of tables are compressed, so what a file holds is read: the rows of each Parquet file in the folder, and the
bounds in each manifest, whether a state of the table still needs the file or not.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fastavro
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyiceberg.catalog.sql import SqlCatalog

from siltstone.metadata.commands import UnpinScan
from siltstone.offline.settings import TableSettings
from siltstone.server.embedded import Broker
from siltstone.tables import erasure_round
from siltstone.tables.failures import CommitOvertaken
from siltstone.tables.formats.choosing import open_format
from support.broker.erased_store import FAST, OTHER, Killed, Steps, produce, store_of
from support.maintenance.compacted_store import maintained
from support.processes.cli import run

KEY = "user-00000-of-the-test"
BOUND = KEY[:10]
"""The smallest key of each file, so statistics name it. Iceberg cuts them to 16 characters."""

FORMATS = ("parquet", "delta", "iceberg")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "store", settings=FAST) as made:
        yield made


class Tables:
    """The tables of a store, in a folder of their own."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "tables"
        self.folder.mkdir()
        self.uri = f"sqlite:///{self.folder / 'catalog.sqlite'}"
        self.store = store_of(
            tmp_path,
            **{
                "tables.location": self.folder.as_uri(),
                "tables.catalog.type": "sql",
                "tables.catalog.uri": self.uri,
            },
        )

    def export(self) -> None:
        done = run("maintain", "run", "--kind", "table-export", "--flush", "--force", *self.store)
        assert done.status == 0, done

    def erase(self, *more: str) -> Any:
        done = run("erase", "orders", "--key", KEY, "--yes", "--json", *more, *self.store)
        assert done.status == 0, done
        return done.json

    def resume(self, erasure: str) -> Any:
        done = run("erasures", "resume", erasure, "--wait", "--json", *self.store)
        assert done.status == 0, done
        return done.json

    def opened(self, table_format: str) -> Any:
        catalog = {"type": "sql", "uri": self.uri}
        return open_format(table_format, TableSettings(location=self.folder.as_uri(), catalog=catalog))

    def erasures(self) -> Any:
        return run("erasures", "--json", *self.store[:2]).json["erasures"]

    def rows(self, topic: str) -> list[Any]:
        found = run("tables", "show", topic, "--files", *self.store[:-2])
        assert found.status == 0, found
        return [row for line in found.out.split() for row in pq.read_table(urlsplit(line).path).to_pylist()]

    def end_pins(self) -> None:
        """Ends the pins of exports, which would hold replaced objects for an hour."""
        with maintained(self.folder.parent / "store") as context:
            for token in list(context.metadata.image.pins):
                context.metadata.execute(UnpinScan(token))

    def keys_in_files(self, name: str = "*") -> set[str]:
        """Returns the keys in all files of all states."""
        found: set[str] = set()
        for path in self.folder.glob(f"kafka/{name}/data/*.parquet"):
            rows = pq.read_table(path)
            column = (
                rows["kafka"].combine_chunks().field("key") if "kafka" in rows.column_names else rows["key"]
            )
            found |= {each.decode() if isinstance(each, bytes) else each for each in column.to_pylist()}
        return found

    def text(self) -> str:
        """Returns everything that is in logs, commit files and manifests."""
        logs = [*self.folder.rglob("*.json")]
        texts = [each.read_bytes().decode("latin-1") for each in logs]
        texts += [str(pq.read_table(each).to_pylist()) for each in self.folder.rglob("*.checkpoint.parquet")]
        for each in self.folder.rglob("*.avro"):
            with each.open("rb") as file:
                texts.append(str(list(fastavro.reader(file))))
        return "".join(texts)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def topic(broker: Broker, table_format: str, **table: str) -> None:
    config = {
        "siltstone.table.format": table_format,
        "siltstone.table.key": "string",
        "siltstone.table.value": "string",
        "cleanup.policy": "delete",
    }
    if table.get("mode") == "upsert":
        config["cleanup.policy"] = "compact"
    config |= {f"siltstone.table.{name}": text for name, text in table.items()}
    broker.create_topic("orders", partitions=2, config=config)


MODES: dict[str, dict[str, str]] = {
    "append": {},
    "upsert": {"mode": "upsert"},
    "scd2": {"mode": "upsert", "history": "scd2"},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("table_format", FORMATS)
def test_er15_rows_leave_the_table_and_its_older_states(
    table_format: str, mode: str, broker: Broker, tables: Tables
) -> None:
    if table_format == "parquet" and mode != "append":
        pytest.skip("a Parquet table has every record")
    topic(broker, table_format, **MODES[mode])
    for number in range(3):
        produce(broker, "orders", range(number, number + 1))
        tables.export()
    assert KEY in tables.keys_in_files()
    assert (BOUND in tables.text()) == (table_format != "parquet")
    report = tables.erase()
    assert report["state"] == "verified"
    assert KEY in tables.keys_in_files(), "readers of older states have the grace period"
    tables.end_pins()
    report = tables.resume(report["erasure"])
    assert report["state"] == "complete"
    assert report["table"]["rows"] == (1 if mode == "upsert" else 3)
    assert report["table"]["deleted"]
    assert KEY not in tables.keys_in_files()
    assert OTHER in tables.keys_in_files()
    assert BOUND not in tables.text()
    produce(broker, "orders", range(3, 4))
    tables.export()
    shown = run("tables", "show", "orders", "--json", *tables.store[:-2])
    assert shown.status == 0, shown
    assert shown.json["rows"] == {"append": 3 * 19 + 20, "upsert": 20, "scd2": 3 * 19 + 20}[mode]
    assert run("erasures", "forget", report["erasure"], "--yes", *tables.store[:2]).status == 0


def test_er16_dead_letters_of_the_keys(broker: Broker, tables: Tables) -> None:
    topic(broker, "iceberg", value="json")
    produce(broker, "orders", range(2))  # no value is JSON
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(45):
        producer.produce("orders", b"{}", key=b"user-%05d" % number)
    producer.flush(60)
    tables.export()
    assert KEY in tables.keys_in_files("orders__errors")
    report = tables.erase()
    assert report["table"]["rows"] == 2
    tables.end_pins()
    assert tables.resume(report["erasure"])["state"] == "complete"
    assert KEY not in tables.keys_in_files()
    assert OTHER in tables.keys_in_files("orders__errors")


def test_er17_a_tag_holds_an_older_state_and_is_named(broker: Broker, tables: Tables) -> None:
    topic(broker, "iceberg")
    produce(broker, "orders", range(1))
    tables.export()
    made = SqlCatalog("siltstone", uri=tables.uri).load_table("kafka.orders")
    made.manage_snapshots().create_tag(made.current_snapshot().snapshot_id, "audit").commit()
    report = tables.erase()
    tables.end_pins()
    done = run("erasures", "resume", report["erasure"], "--wait", *tables.store)
    assert done.status == 1
    assert (
        "older states are held by tag audit of kafka.orders: remove these, and resume the erasure" in done.err
    )
    report = run("erasures", "report", report["erasure"], "--json", *tables.store[:2]).json
    assert (report["state"], report["table"]["held_by"]) == ("verified", ["tag audit of kafka.orders"])
    assert KEY in tables.keys_in_files()
    SqlCatalog("siltstone", uri=tables.uri).load_table("kafka.orders").manage_snapshots().remove_tag(
        "audit"
    ).commit()
    tables.end_pins()
    assert tables.resume(report["erasure"])["state"] == "complete"
    assert KEY not in tables.keys_in_files()


@pytest.mark.parametrize("table_format", FORMATS)
def test_er18_an_export_that_is_late_is_refused(table_format: str, broker: Broker, tables: Tables) -> None:
    """It had the lock, and records of the keys, before the erasure; its commit comes afterwards."""
    topic(broker, table_format)
    produce(broker, "orders", range(1))
    tables.export()
    with tables.opened(table_format) as late:
        table = late.load("kafka.orders")
        assert table is not None
        after = table.ledger.after({0: 100}, "1-00000000000000ff", 1)
        tables.erase()
        with pytest.raises(CommitOvertaken):
            table.append((), after)


@pytest.mark.parametrize("is_after", [False, True], ids=["before the step", "after the step"])
def test_er19_killed_at_every_step_of_a_table(is_after: bool, broker: Broker, tables: Tables) -> None:
    """A commit of a table is a step, too."""
    for last in itertools.count(1):
        name = f"orders-{last}"
        config = {"siltstone.table.format": "delta"}
        broker.create_topic(name, partitions=1, config=config)
        produce(broker, name, range(1))
        tables.export()
        is_killed = False
        with pytest.MonkeyPatch.context() as patched:
            Steps(patched, last + 4, is_after=is_after).count(erasure_round, "commit_round")
            try:
                done = run("erase", name, "--key", KEY, "--yes", *tables.store)
            except Killed:
                is_killed = True
        if not is_killed:
            assert done.status == 0, done
            break
        left = [each["erasure"] for each in tables.erasures() if each["topic"] == name]
        again = ("erasures", "resume", *left) if left else ("erase", name, "--key", KEY, "--yes")
        done = run(*again, *tables.store)
        assert done.status == 0, done
    assert last > 10
    tables.end_pins()
    for each in tables.erasures():
        assert tables.resume(each["erasure"])["state"] == "complete"
    assert KEY not in tables.keys_in_files()
    assert len(tables.rows("orders-1")) == 19
