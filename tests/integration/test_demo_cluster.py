"""``siltstone demo --cluster``, with shorter waits between its steps: three real processes, one of which is killed."""

import re
import shlex
from pathlib import Path

import pytest

from siltstone.cli.demo.cluster import playing
from support.processes.cli import assert_one_line, run


@pytest.mark.clients
@pytest.mark.xdist_group("cluster")
@pytest.mark.nightly(tried="demos with a killed broker")
def test_a_broker_is_killed_and_nothing_is_lost_or_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playing, "STEADY_MS", 200)
    outcome = run("demo", "--cluster", "--flights", "500", "--store", tmp_path / "store")
    assert outcome.status == 0, outcome
    told = r"([\d,]+) records acknowledged, ([\d,]+) read ✓ 0 lost, 0 doubled, 0 out of order"
    count = re.search(told, outcome.words)
    assert count is not None and int(count[1].replace(",", "")) > 1_000, outcome.words
    assert count[1] == count[2]
    assert "siltstone check: clean" in outcome.words
    steps = [line.split(maxsplit=1)[1] for line in outcome.out.splitlines() if re.match(r"\d+  ", line)]
    assert [re.sub(r"\d", "N", step).rstrip() for step in steps] == [
        "Start N brokers on one store",
        "Produce flights to N partitions, until the end",
        "Take one of two buckets away, and give it back",
        "Move partition N to broker N, while records flow",
        "Kill broker N with SIGKILL",
        "Start broker N again, and move its partitions back",
        "Read everything back, and count",
        "What clients felt: the longest pause of each partition",
        "Try next",
    ]
    commands = [line.split("$ siltstone ")[1] for line in outcome.out.splitlines() if "$ siltstone " in line]
    assert any(command.startswith("topics move") for command in commands)
    for command in commands:
        refused = run(*shlex.split(command), "--help")
        assert refused.status == 0, f"{command}: {refused.err}"
    rows = [line for line in outcome.out.splitlines() if re.match(r" +\d [█▏▎▍▌▋▊▉ ]", line)]
    assert [int(line.split()[0]) for line in rows] == [*range(playing.PARTITIONS)]
    assert sum(line.rstrip().endswith("its broker was killed") for line in rows) == 2
    too_wide = [line for line in outcome.out.splitlines() if len(line) > 80 and "$" not in line]
    assert too_wide == [] and outcome.err == ""
    assert "Traceback" not in (tmp_path / "store" / "nodes.log").read_text()


def test_a_runner_is_for_the_other_demo(tmp_path: Path) -> None:
    refused = run("demo", "--cluster", "--runner", "in-process", "--store", tmp_path / "store")
    assert_one_line(refused, 2, "--runner is for maintenance, and --cluster shows none.")
    assert not (tmp_path / "store").exists()
