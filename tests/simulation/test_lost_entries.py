"""Metadata that lost its newest entries, any number of them, beside logs that did not (rule 13).

A failure prints its seed, which ``LOST_ENTRIES_SEED=<seed> pytest tests/simulation/test_lost_entries.py -k replay``
runs again.
"""

import asyncio
from random import SystemRandom

import pytest

from support.engine.lost_entries import LostEntries
from support.processes.seeds import seed_of_this_run

SEEDS = range(4)
NIGHTLY_SEEDS, NIGHTLY_TESTS = 200, 10


@pytest.fixture
def simulate(tmp_path):
    def run(seed: int, *, wal_in_bucket: bool) -> LostEntries:
        folder = tmp_path / f"{seed}-{wal_in_bucket}"
        folder.mkdir()
        simulation = LostEntries(seed, folder, wal_in_bucket=wal_in_bucket)
        try:
            asyncio.run(simulation.run())
        except BaseException:
            print("\n".join(simulation.trace))
            print(
                f"LOST_ENTRIES_SEED={seed} .venv/bin/pytest tests/simulation/test_lost_entries.py -k replay"
            )
            raise
        return simulation

    return run


@pytest.mark.parametrize("wal_in_bucket", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_rule_13_whatever_the_metadata_lost_nothing_acknowledged_is_dropped_in_silence(
    simulate, seed, wal_in_bucket
):
    simulate(seed, wal_in_bucket=wal_in_bucket)


def test_replay(simulate):
    seed = seed_of_this_run("LOST_ENTRIES_SEED", 4)
    for wal_in_bucket in (False, True):
        simulate(seed, wal_in_bucket=wal_in_bucket)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(NIGHTLY_TESTS))
def test_rule_13_many_histories(simulate, record_tried, part):
    first = SystemRandom().randrange(2**40)
    for seed in range(first, first + NIGHTLY_SEEDS // NIGHTLY_TESTS):
        for wal_in_bucket in (False, True):
            record_tried("histories", 1)
            record_tried("ends of the metadata log", simulate(seed, wal_in_bucket=wal_in_bucket).tries)
