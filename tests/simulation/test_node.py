"""Whole nodes, each from one seed.

A failure prints its seed; ``SILTSTONE_SEEDS=<seed> pytest tests/simulation/test_node.py -k replay`` runs it again.
"""

import asyncio
import os
from random import Random, SystemRandom

import pytest

from siltstone.maintenance.stream_set_compaction import task as rewriting
from siltstone.metadata.store.sqlite import SqliteLog
from siltstone.offline.blocks import indexes
from support.engine.losing_disk import LosingDisk
from support.engine.node_simulation import NodeSimulation
from support.engine.wal_disk import put_disk_in
from support.processes.inline_executor import put_inline_in

FIXED_SEEDS = range(12)
RANDOM_SEEDS = 4
NIGHTLY_SEEDS, NIGHTLY_TESTS = 500, 20
REPLAYED_SEEDS = (7, 52, 230, 233)
"""Of 300 those that once differed: compaction read in threads, a new file got the inode of a deleted one."""


@pytest.fixture
def simulate(tmp_path, monkeypatch):
    def run(
        seed: int, *, name: str = "", sqlite: bool = False, wal_in_bucket: bool = False, **sizes: int
    ) -> NodeSimulation:
        disk = LosingDisk(Random(seed + 5))
        put_disk_in(monkeypatch, disk)
        put_inline_in(monkeypatch, indexes, rewriting)
        folder = tmp_path / (name or f"{seed}")
        folder.mkdir(exist_ok=True)
        log = SqliteLog(folder / "metadata.sqlite", create=True) if sqlite else None
        simulation = NodeSimulation(seed, folder, disk, log=log, wal_in_bucket=wal_in_bucket, **sizes)
        try:
            asyncio.run(simulation.run())
        except BaseException:
            print("\n".join(simulation.trace[-40:]))
            print(
                f"seed {seed}: SILTSTONE_SEEDS={seed} .venv/bin/pytest tests/simulation/test_node.py -k replay"
            )
            raise
        finally:
            disk.forget()
            if log is not None:
                log.close()
        return simulation

    return run


@pytest.mark.parametrize("seed", FIXED_SEEDS)
def test_a_node_from_a_fixed_seed(simulate, seed):
    simulate(seed)


def test_nodes_from_random_seeds(simulate):
    for _ in range(RANDOM_SEEDS):
        simulate(SystemRandom().randrange(2**40))


def test_a_node_on_sqlite(simulate):
    simulate(1_000, sqlite=True, lives=4, actions_per_life=30)


@pytest.mark.parametrize("seed", range(2_000, 2_002))
def test_a_node_with_its_log_in_the_bucket(simulate, seed):
    """Its puts fail, land late, or land and are not answered, as all requests to the bucket do."""
    simulate(seed, wal_in_bucket=True)


def test_replay(simulate):
    """The seeds of the environment variable; without it, that a seed does the same twice."""
    seeds = os.environ.get("SILTSTONE_SEEDS")
    if seeds is None:
        for seed in REPLAYED_SEEDS:
            once, twice = (simulate(seed, name=f"{seed}-{time}") for time in ("once", "twice"))
            assert once.trace == twice.trace, f"seed {seed}"
    else:
        for seed in seeds.split(","):
            simulate(int(seed))


SUMMED = ("append", "read", "crashed", "power lost with sectors", "compacted")
"""What the summary of a night tells of these nodes besides their number."""

EXPECTED_OF_THESE_SEEDS = {
    "append": 1000, "read": 40, "read all": 40, "crashed": 8, "closed": 4, "power lost with sectors": 1,
    "disk full": 1, "disk emptied": 1, "refused for a full disk": 1, "failed": 1,
    "delete": 1, "swept": 2, "close": 3, "trim": 5, "open_again": 3, "compacted": 1,
    "create_topic": 5, "delete_topic": 5, "deleted while open": 3, "another log": 3, "another log refused": 1,
}  # fmt: skip


def test_every_kind_of_thing_happens(simulate):
    """Else the simulation would hold because nothing continues in it."""
    counts: dict[str, int] = {}
    for seed in range(120, 146):
        for what, number in simulate(seed).counts.items():
            counts[what] = counts.get(what, 0) + number
    missing = {what for what, least in EXPECTED_OF_THESE_SEEDS.items() if counts.get(what, 0) < least}
    assert not missing, {what: counts.get(what, 0) for what in EXPECTED_OF_THESE_SEEDS}


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(NIGHTLY_TESTS))
def test_many_nodes_with_their_logs_in_the_bucket(simulate, record_tried, part):
    first = SystemRandom().randrange(2**40)
    for seed in range(first, first + NIGHTLY_SEEDS // NIGHTLY_TESTS // 4):
        record_tried("seeds", 1)
        simulate(seed, wal_in_bucket=True, lives=10)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(NIGHTLY_TESTS))
def test_many_nodes(simulate, record_tried, part):
    """Other seeds each night. In parts, so that workers share them."""
    first = SystemRandom().randrange(2**40)
    for seed in range(first, first + NIGHTLY_SEEDS // NIGHTLY_TESTS):
        record_tried("seeds", 1)
        for what, count in simulate(seed, lives=10).counts.items():
            if what in SUMMED:
                record_tried(what, count)
