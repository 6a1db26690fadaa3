"""Tables that deltalake and pyiceberg change between exports have the rows of a plain model after each step (rule 16).

A failure prints its seed; ``SILTSTONE_SEEDS=<seed> pytest tests/property/maintenance/test_foreign_sequences.py -k
replay`` runs it again.
"""

from pathlib import Path

import pytest

from support.maintenance.foreign_sequences import Sequence
from support.maintenance.played_sequences import play_random_seeds, played, seeds_to_replay
from support.processes.tried import RecordTried

STEPS = 14
SEEDS = range(5)
"""Tables of each format and mode; some of them find deletes that are not applied, columns found by
name, views of Arrow, and a vector or a restore that is overlooked, each put in on purpose."""
NIGHTLY_SEEDS = 80
pytestmark = pytest.mark.usefixtures("small_joins")


def tried(seed: int, folder: Path) -> Sequence:
    return played(Sequence, seed, folder, STEPS, __file__)


@pytest.mark.parametrize("seed", SEEDS)
def test_rule_16_what_others_do_between_exports_is_kept(tmp_path: Path, seed: int) -> None:
    sequence = tried(seed, tmp_path)
    assert sequence.counts["steps"] == STEPS


def test_replay(tmp_path: Path) -> None:
    """Replays the seeds of the environment variable; without it, shows that a seed draws the same twice."""
    for seed in seeds_to_replay():
        tried(seed, tmp_path)
    assert Sequence(7).rng.random() == Sequence(7).rng.random()


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_rule_16_what_others_do_from_random_seeds(tmp_path: Path, record_tried: RecordTried) -> None:
    play_random_seeds(NIGHTLY_SEEDS, lambda seed: tried(seed, tmp_path), record_tried)
