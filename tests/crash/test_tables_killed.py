"""Drivers of table export are killed with SIGKILL at any step, beside a broker whose topics grow. At the end every
record is a row of the table or of its dead letters, once."""

import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.maintenance.checking.check import check
from siltstone.offline.settings import TableSettings
from siltstone.server.settings.node import load_node_settings
from siltstone.tables.failures import TableNotThere
from siltstone.tables.inspecting import file_urls, opened_table
from support.maintenance.compacted_store import maintained
from support.maintenance.table_driver import export
from support.processes.killed import killed_in_the_end
from support.processes.tried import RecordTried

TESTS = Path(__file__).parents[1]
FORMAT, UPSERT = "siltstone.table.format", {"siltstone.table.mode": "upsert", "cleanup.policy": "compact"}
TOPICS = {name: {FORMAT: name} for name in ("parquet", "iceberg", "delta")}
TOPICS |= {f"newest-{name}": {FORMAT: name, **UPSERT} for name in ("iceberg", "delta")}
"""No two records of a topic have a key in common, so a table with the newest record of each key has them all."""
SETTINGS = {"engine.upload.cache_block_age_ms_max": "50ms"}
KILLS = 13
KILLS_BY_DAY = 3
BY_DAY = ("iceberg", "newest-delta")

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900)]

Key = tuple[int, bytes]
"""Returns a number that no other record of the topic has, and its value."""


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [100, 101])
def test_tb2_drivers_that_are_killed_lose_and_double_nothing(
    tmp_path: Path, seed: int, record_tried: RecordTried
) -> None:
    kill_drivers(tmp_path / "store", seed, KILLS, TOPICS, record_tried, records=60)


@pytest.mark.nightly
def test_tb2_some_killed_drivers(tmp_path: Path, record_tried: RecordTried) -> None:
    """Plays three of the eight kills that ``make test`` draws; the others are in ``test_sinks_killed``."""
    topics = {name: TOPICS[name] for name in BY_DAY}
    kill_drivers(tmp_path / "store", 100, KILLS_BY_DAY, topics, record_tried, records=30)


def kill_drivers(
    folder: Path,
    seed: int,
    kills: int,
    topics: dict[str, dict[str, str]],
    record_tried: RecordTried,
    *,
    records: int,
) -> None:
    rng = random.Random(seed)
    tables = load_node_settings(folder, environment={}).tables
    sent: dict[str, list[Key]] = {name: [] for name in topics}
    with siltstone.Broker(folder, settings=SETTINGS) as broker:
        for name, config in topics.items():
            broker.create_topic(name, partitions=2, config={"siltstone.table.value": "json", **config})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "linger.ms": 5})
        for _ in range(kills):
            for name, pairs in sent.items():
                for _ in range(records):
                    value = b"garbage" if rng.random() < 0.1 else b'{"a": 1}'
                    pairs.append((len(pairs), value))
                    producer.produce(name, key=str(pairs[-1][0]), value=value)
            assert producer.flush(60) == 0
            with driver(folder):
                time.sleep(rng.random())
            record_tried("kills", 1)
            for name, pairs in sent.items():
                assert_nothing_twice(folder, tables, name, pairs)
        del producer
    with maintained(folder, hours_ahead=1) as context:
        while export(context, tables).units:
            pass
        assert check(context, tables=tables).is_clean
    for name, pairs in sent.items():
        assert sorted(found(folder, tables, name)) == pairs


def assert_nothing_twice(folder: Path, tables: TableSettings, name: str, pairs: list[Key]) -> None:
    numbers = [number for number, value in found(folder, tables, name)]
    assert len(set(numbers)) == len(numbers), f"{name}: some rows are there twice"
    assert set(numbers) <= {number for number, _ in pairs}


def found(folder: Path, tables: TableSettings, name: str) -> list[Key]:
    """Returns the keys and values of the table and of its dead letters, each where it belongs."""
    rows: list[Key] = []
    with maintained(folder) as context:
        for is_bad in (False, True):
            try:
                with opened_table(context, tables, name, dead_letters=is_bad) as table:
                    urls = file_urls(table, tables)
            except TableNotThere:
                continue
            for url in urls:
                frame = pl.read_parquet(url.removeprefix("file://")).select("key", "value")
                for key, value in frame.rows():
                    as_bytes = value if isinstance(value, bytes) else value.encode()
                    assert (as_bytes == b"garbage") == is_bad, (key, value)
                    rows.append((int(key), as_bytes))
    return rows


@contextmanager
def driver(folder: Path) -> Iterator[None]:
    """Yields a driver that is killed where the body of the ``with`` ends."""
    command = [sys.executable, "-m", "support.maintenance.table_driver", str(folder)]
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    with killed_in_the_end(command, {**os.environ, "PYTHONPATH": path}):
        yield
