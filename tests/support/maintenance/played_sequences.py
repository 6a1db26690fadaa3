"""Plays drawn sequences of steps on a table, and says how one that failed is played again."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom
from typing import Protocol, TypeVar

from support.processes.tried import RecordTried


class DrawnSequence(Protocol):
    """``counts`` of what was done, and ``said`` of the last step."""

    table_format: str
    mode: str
    said: object
    counts: Counter[str]

    def play(self, folder: Path, steps: int) -> None: ...


S = TypeVar("S", bound=DrawnSequence)


def played(draw: Callable[[int], S], seed: int, folder: Path, steps: int, file: str) -> S:
    """Plays the sequence of a seed in a folder of its own. ``file`` is the test that failed, if it does."""
    sequence, place = draw(seed), folder / str(seed)
    place.mkdir()
    try:
        sequence.play(place, steps)
    except BaseException:
        again = f"SILTSTONE_SEEDS={seed} .venv/bin/pytest {Path(file).name} -k replay"
        print(f"seed {seed}: {sequence.table_format}, {sequence.mode}, {sequence.said}: {again}")
        raise
    return sequence


def seeds_to_replay() -> list[int]:
    """Returns the seeds of the environment variable SILTSTONE_SEEDS."""
    return [*map(int, filter(None, os.environ.get("SILTSTONE_SEEDS", "").split(",")))]


def play_random_seeds(count: int, play: Callable[[int], DrawnSequence], record_tried: RecordTried) -> None:
    counts: Counter[str] = Counter()
    for _ in range(count):
        counts += play(SystemRandom().randrange(2**40)).counts
    for name, number in counts.items():
        record_tried(name, number)
