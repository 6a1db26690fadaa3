"""Tables of topics that are exported, compacted and erased by key in any order have the rows of a plain model after
each step, and after the last erasure no file holds a name (ER20).

A failure prints its seed; ``SILTSTONE_SEEDS=<seed> pytest tests/property/maintenance/test_erased_tables.py -k replay``
runs it again.
"""

import os
from collections import Counter
from pathlib import Path
from random import SystemRandom

import pytest

from siltstone.tables import joining
from support.maintenance.erased_tables import ErasedSequence
from support.processes.tried import RecordTried

STEPS = 14
SEEDS = range(8)
NIGHTLY_SEEDS = 60
_JOINED_FILES = 3


@pytest.fixture(autouse=True)
def small_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joins are tried in sequences of a few exports."""
    monkeypatch.setattr(joining, "SMALL_FILES_MAX", _JOINED_FILES)


def tried(seed: int, folder: Path) -> ErasedSequence:
    sequence, place = ErasedSequence(seed), folder / str(seed)
    place.mkdir()
    try:
        sequence.play(place, STEPS)
    except BaseException:
        again = f"SILTSTONE_SEEDS={seed} .venv/bin/pytest {Path(__file__).name} -k replay"
        print(f"seed {seed}: {sequence.table_format}, {sequence.mode}, {sequence.said}: {again}")
        raise
    return sequence


@pytest.mark.parametrize("seed", SEEDS)
def test_er20_the_rows_are_those_of_the_model_and_no_file_holds_a_name(tmp_path: Path, seed: int) -> None:
    sequence = tried(seed, tmp_path)
    assert sequence.counts["steps"] == STEPS and sequence.counts["erasures"]


def test_replay(tmp_path: Path) -> None:
    """Replays the seeds of the environment variable; without it, shows that a seed draws the same twice."""
    for seed in map(int, filter(None, os.environ.get("SILTSTONE_SEEDS", "").split(","))):
        tried(seed, tmp_path)
    assert ErasedSequence(7).rng.random() == ErasedSequence(7).rng.random()


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_er20_from_random_seeds(tmp_path: Path, record_tried: RecordTried) -> None:
    counts: Counter[str] = Counter()
    for _ in range(NIGHTLY_SEEDS):
        counts += tried(SystemRandom().randrange(2**40), tmp_path).counts
    for name, count in counts.items():
        record_tried(name, count)
