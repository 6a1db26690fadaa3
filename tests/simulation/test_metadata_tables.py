"""The tables of the metadata of simulated nodes and clusters, at three versions each, against a plain model of the
records; a snapshot in the middle makes the log forget the older versions. A failure prints its seed."""

import asyncio
from pathlib import Path
from random import Random, SystemRandom

import pytest

from siltstone.maintenance.stream_set_compaction import task as rewriting
from siltstone.metadata.history import VersionNotHeld, entries_after, image_at, oldest_version
from siltstone.metadata.snapshot import encode_snapshot
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata_tables.catalog import tables_of
from siltstone.metadata_tables.moment import Moment
from siltstone.offline.blocks import indexes
from support.cluster.cluster_simulation import ClusterSimulation
from support.engine.losing_disk import LosingDisk
from support.engine.node_simulation import NodeSimulation
from support.engine.wal_disk import put_disk_in
from support.metadata.plain_metadata import PlainMetadata
from support.processes.inline_executor import put_inline_in

VERSIONS = 3
NIGHTLY_SEEDS, NIGHTLY_TESTS = 50, 5


def truncated(log: MemoryLog, rng: Random) -> MemoryLog:
    """The same log after a client has saved a snapshot at some version, and few entries were kept before it."""
    made = MemoryLog(entries_kept=rng.choice([1, 20, 10_000]))
    head = log.head().version
    position = image_at(log, 0).position
    for _, entry in log.read_after(0, head, 1 << 40):
        position = made.append(entry, position)
    image = image_at(made, rng.randint(1, head))
    made.save_snapshot(image.position, encode_snapshot(image))
    return made


def check_tables(log: MemoryLog, rng: Random) -> int:
    """Compares three versions; returns how many rows were compared."""
    head, compared = log.head().version, 0
    entries = [entry.records for _, entry in entries_after(log, 0, head)]
    held = truncated(log, rng)
    oldest = oldest_version(held)
    if oldest:
        with pytest.raises(VersionNotHeld, match=f"the oldest possible is {oldest}"):
            image_at(held, oldest - 1)
    for version in {head, *(rng.randint(oldest, head) for _ in range(VERSIONS - 1))}:
        plain = PlainMetadata()
        for records in entries[:version]:
            plain.apply(records)
        tables = tables_of(Moment(image_at(held, version), 0))
        for table, rows in (
            (tables.objects, plain.object_rows()),
            (tables.object_ranges, plain.range_rows()),
            (tables.streams, plain.stream_rows()),
            (tables.partitions, plain.partition_rows()),
            (tables.nodes, plain.node_rows()),
            (tables.jobs, plain.job_rows()),
        ):
            columns = list(rows[0]) if rows else None
            key = lambda row: [*map(str, row.values())]  # noqa: E731
            assert sorted(table.rows(columns), key=key) == sorted(rows, key=key), (table, version)
            compared += len(rows)
    return compared


@pytest.fixture
def simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def run(seed: int) -> MemoryLog:
        print(f"seed {seed}")
        put_inline_in(monkeypatch, indexes, rewriting)
        disk = LosingDisk(Random(seed + 5))
        put_disk_in(monkeypatch, disk)
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        try:
            if seed % 2:
                cluster = ClusterSimulation(seed, folder)
                asyncio.run(cluster.run())
                return cluster.log
            node = NodeSimulation(seed, folder, disk)
            asyncio.run(node.run())
            return node.log.log
        finally:
            disk.forget()

    return run


@pytest.mark.parametrize("seed", range(4))
def test_tables_are_those_of_a_plain_model(simulated, seed: int) -> None:
    assert check_tables(simulated(seed), Random(seed)) > 20


@pytest.mark.nightly(tried="seeds")
@pytest.mark.parametrize("number", range(NIGHTLY_TESTS))
def test_tables_of_many_seeds_are_those_of_a_plain_model(simulated, number: int, record_tried) -> None:
    for _ in range(NIGHTLY_SEEDS // NIGHTLY_TESTS):
        seed = SystemRandom().randrange(2**40)
        check_tables(simulated(seed), Random(seed))
        record_tried("seeds", 1)
