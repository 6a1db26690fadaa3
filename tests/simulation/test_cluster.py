"""Whole clusters, each from one seed.

A failure prints its seed; ``SILTSTONE_SEEDS=<seed> pytest tests/simulation/test_cluster.py -k replay`` runs it again.
"""

import asyncio
import os
from random import SystemRandom

import pytest

from siltstone.maintenance.stream_set_compaction import task as rewriting
from siltstone.offline.blocks import indexes
from support.cluster.buckets_simulation import BucketsSimulation
from support.cluster.cluster_simulation import ClusterSimulation
from support.cluster.forked_simulation import ForkedSimulation
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


FIXED_SEEDS = range(8)
BUCKET_SEEDS = range(2)
FORKED_SEEDS = (5, 20, 39)
"""Without marks of the entries, or without a node's last mark, these fail."""
NIGHTLY_SEEDS, NIGHTLY_TESTS = int(os.environ.get("CLUSTER_SEEDS", "30")), 10
NIGHTLY_OF_KIND, NIGHTLY_TESTS_OF_KIND = 12, 6
REPLAYED_SEED = 3


@pytest.fixture
def simulate(tmp_path, monkeypatch):
    def run(
        seed: int, *, name: str = "", kind: type[ClusterSimulation] = ClusterSimulation
    ) -> ClusterSimulation:
        put_inline_in(monkeypatch, indexes, rewriting)
        put_disk_in(monkeypatch, QuickDisk())
        folder = tmp_path / (name or f"{seed}")
        simulation = kind(seed, folder)
        try:
            asyncio.run(simulation.run())
        except BaseException:
            print("\n".join(simulation.trace[-60:]))
            print(
                f"seed {seed} of {kind.__name__}: "
                f"SILTSTONE_SEEDS={seed} .venv/bin/pytest tests/simulation/test_cluster.py -k replay"
            )
            raise
        return simulation

    return run


@pytest.mark.parametrize("seed", FIXED_SEEDS)
def test_a_cluster_from_a_fixed_seed(simulate, seed):
    simulate(seed)


@pytest.mark.parametrize("seed", FORKED_SEEDS)
def test_p09_a_cluster_whose_metadata_log_loses_entries_loses_nothing(simulate, seed):
    simulate(seed, kind=ForkedSimulation)


@pytest.mark.parametrize("seed", BUCKET_SEEDS)
def test_b21_a_cluster_with_several_buckets(simulate, seed):
    simulate(seed, kind=BucketsSimulation)


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
            for kind in (ForkedSimulation, BucketsSimulation):
                simulate(int(seed), name=f"{seed}-{kind.__name__}", kind=kind)


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


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(NIGHTLY_TESTS_OF_KIND))
@pytest.mark.parametrize("kind", [ForkedSimulation, BucketsSimulation])
def test_many_clusters_whose_log_loses_entries_or_with_several_buckets(simulate, record_tried, kind, part):
    first = SystemRandom().randrange(2**40)
    for seed in range(first, first + NIGHTLY_OF_KIND // NIGHTLY_TESTS_OF_KIND):
        record_tried("seeds", 1)
        simulate(seed, kind=kind)
