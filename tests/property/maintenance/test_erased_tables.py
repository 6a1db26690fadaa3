"""Tables of topics that are exported, compacted and erased by key in any order have the rows of a plain model after
each step, and after the last erasure no file holds a name (ER20).

A failure prints its seed; ``SILTSTONE_SEEDS=<seed> pytest tests/property/maintenance/test_erased_tables.py -k replay``
runs it again.
"""

from pathlib import Path

import pytest

from support.maintenance.erased_tables import ErasedSequence
from support.maintenance.played_sequences import play_random_seeds, played, seeds_to_replay
from support.processes.tried import RecordTried

STEPS = 14
SEEDS = range(8)
NIGHTLY_SEEDS = 60
pytestmark = pytest.mark.usefixtures("small_joins")


def tried(seed: int, folder: Path) -> ErasedSequence:
    return played(ErasedSequence, seed, folder, STEPS, __file__)


@pytest.mark.parametrize("seed", SEEDS)
def test_er20_the_rows_are_those_of_the_model_and_no_file_holds_a_name(tmp_path: Path, seed: int) -> None:
    sequence = tried(seed, tmp_path)
    assert sequence.counts["steps"] == STEPS and sequence.counts["erasures"]


def test_replay(tmp_path: Path) -> None:
    """Replays the seeds of the environment variable; without it, shows that a seed draws the same twice."""
    for seed in seeds_to_replay():
        tried(seed, tmp_path)
    assert ErasedSequence(7).rng.random() == ErasedSequence(7).rng.random()


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_er20_from_random_seeds(tmp_path: Path, record_tried: RecordTried) -> None:
    play_random_seeds(NIGHTLY_SEEDS, lambda seed: tried(seed, tmp_path), record_tried)
