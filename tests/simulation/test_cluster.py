"""Whole clusters, each from one seed.

A failure prints its seed; ``SILTSTONE_SEEDS=<seed> pytest tests/simulation/test_cluster.py -k replay`` runs it again.
"""

import asyncio
import os
from random import SystemRandom

import pytest

from siltstone.maintenance.blocks import indexes
from siltstone.maintenance.stream_set_compaction import task as rewriting
from support.cluster.cluster_simulation import ClusterSimulation
from support.engine.wal_disk import put_disk_in
from support.processes.inline_executor import put_inline_in


class QuickDisk:
    """An ``os`` that syncs nothing: no power is lost here."""

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def fdatasync(self, descriptor: int) -> None:
        return None

    def fsync(self, descriptor: int) -> None:
        return None


FIXED_SEEDS = range(12)
NIGHTLY_SEEDS, NIGHTLY_TESTS = int(os.environ.get("CLUSTER_SEEDS", "300")), 30
REPLAYED_SEED = 3


@pytest.fixture
def simulate(tmp_path, monkeypatch):
    def run(seed: int, *, name: str = "") -> ClusterSimulation:
        put_inline_in(monkeypatch, indexes, rewriting)
        put_disk_in(monkeypatch, QuickDisk())
        folder = tmp_path / (name or f"{seed}")
        simulation = ClusterSimulation(seed, folder)
        try:
            asyncio.run(simulation.run())
        except BaseException:
            print("\n".join(simulation.trace[-60:]))
            print(
                f"seed {seed}: SILTSTONE_SEEDS={seed} .venv/bin/pytest tests/simulation/test_cluster.py -k replay"
            )
            raise
        return simulation

    return run


@pytest.mark.parametrize("seed", FIXED_SEEDS)
def test_a_cluster_from_a_fixed_seed(simulate, seed):
    simulate(seed)


def test_replay(simulate):
    """The seeds of the environment variable; without it, that a seed does the same twice."""
    seeds = os.environ.get("SILTSTONE_SEEDS")
    if seeds is None:
        once, twice = (simulate(REPLAYED_SEED, name=name) for name in ("once", "twice"))
        assert once.trace == twice.trace
        assert once.history.acknowledged == twice.history.acknowledged
    else:
        for seed in seeds.split(","):
            simulate(int(seed))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(NIGHTLY_TESTS))
def test_many_clusters(simulate, record_tried, part):
    """Other seeds each night. In parts, so that workers share them."""
    first = SystemRandom().randrange(2**40)
    for seed in range(first, first + NIGHTLY_SEEDS // NIGHTLY_TESTS):
        record_tried("seeds", 1)
        simulation = simulate(seed)
        record_tried("records acknowledged", len(simulation.history.acknowledged))
