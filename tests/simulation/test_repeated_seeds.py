"""A history that was drawn from a seed is repeated by that seed, in another process: all that happens in it is the same,
turn by turn, whatever the order of sets is there."""

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SEED = 20029
"""It had one outcome or another: markers left in the order of a set of partitions."""

HISTORY = """
import logging
import sys
from support.broker.turns import traced_turns
from tests.simulation.test_transactional_clusters import run_history

logging.disable(logging.CRITICAL)
path, noise, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open(path, "w") as trace:
    run_history(seed, traced_turns(trace, noise))
"""
TURNS_MIN = 100_000


def test_tg21_a_seed_is_the_same_history_in_two_processes(tmp_path: Path) -> None:
    traces = [tmp_path / "one", tmp_path / "other"]
    running = [_started(trace, number) for number, trace in enumerate(traces, 1)]
    for process in running:
        assert process.communicate(timeout=300)[0] == b""
        assert process.returncode == 0
    one, other = (trace.read_text().splitlines() for trace in traces)
    differs = next((each for each in range(min(len(one), len(other))) if one[each] != other[each]), None)
    assert differs is None, "\n".join(["they part:", *islice(one, differs - 5, differs + 1), other[differs]])
    assert len(one) == len(other) > TURNS_MIN


def _started(trace: Path, number: int) -> "subprocess.Popen[bytes]":
    paths = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "tests")])
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", HISTORY, str(trace), str(number), str(SEED)],
        env={**os.environ, "PYTHONHASHSEED": str(number), "PYTHONPATH": paths}, stdout=subprocess.PIPE,
    )  # fmt: skip
