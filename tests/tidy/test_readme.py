"""Every command and program in the README works: shell lines are run in order in an empty folder, ``make`` targets are
looked up (the suite runs inside one of them), programs are run, links are followed."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from siltstone.metadata.entities import JobState
from siltstone.server.opening import open_store
from siltstone.spark.java import find_java
from support.engine.small_store import small_store
from support.processes.cli import run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
LINES = [line for kind, block in BLOCKS if kind == "sh" for line in block.splitlines() if line]
PROGRAMS = [block for kind, block in BLOCKS if kind == "python"]


def cheap(words: list[str]) -> list[str]:
    """The demo with fewer flights and no JVM: ``make demo`` is the whole one."""
    return [*words, "--flights", "6000", "--runner", "in-process"] if words[0] == "demo" else words


def test_there_is_something_to_test() -> None:
    assert {kind for kind, _ in BLOCKS} == {"sh", "python"}
    assert len(LINES) >= 7 and len(PROGRAMS) == 2
    assert all(line.startswith(("make ", ".venv/bin/siltstone ")) for line in LINES)


def test_every_make_target_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    wanted = [line.removeprefix("make ") for line in LINES if line.startswith("make ")]
    wanted += re.findall(r"`make ([a-z-]+)`", README)
    assert wanted and set(wanted) <= set(targets)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readme")


def test_the_commands_work_in_the_order_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for line in LINES:
        if line.startswith(".venv/bin/siltstone "):
            words = shlex.split(line)[1:]
            outcome = run(*cheap(words))
            assert outcome.status == 0, f"{line}: {outcome}"
            assert outcome.out and outcome.err == ""


def test_the_first_program_shows_data_flowing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAMS[0])
    runpy.run_path("program.py", run_name="__main__")
    assert capsys.readouterr().out == "b'world' b'hello'\n"


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_second_program_compacts_on_a_spark_of_ones_own(tmp_path: Path) -> None:
    """In a process of its own: whoever runs it has no Spark of ours, only a Java."""
    small_store(tmp_path / "my-store")
    (tmp_path / "program.py").write_text(PROGRAMS[1])
    variables = os.environ | {
        "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert shown[0] == "kind unit outcome what"
    assert re.match(r"sso-compaction objects done [3-9] objects became \d+, ", shown[1]), done.stdout
    with open_store(tmp_path / "my-store") as store:
        (job,) = store.metadata.image.jobs.values()
    assert (job.kind, job.state) == ("sso-compaction", JobState.SUCCEEDED)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_named_files_exist() -> None:
    """In the table of promises: where they are kept, what shows them."""
    rows = [line for line in README.splitlines() if line.startswith("| ") and "`" in line]
    paths = [path for row in rows for path in re.findall(r"`([a-z_]+/[a-z_/.]+)`", row)]
    assert len(paths) >= 8
    for path in paths:
        assert (ROOT / path).exists() or (ROOT / "src" / "siltstone" / path).exists(), path
