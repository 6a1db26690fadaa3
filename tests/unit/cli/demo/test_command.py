"""What the demo refuses before it begins, and paths as it shows them. The whole of it: tests/integration, make demo."""

import shlex
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from siltstone.carrying.pipeline.kind import Outcome, UnitReport
from siltstone.cli import runner_options
from siltstone.cli.demo import command, flights, kafka_client
from siltstone.cli.demo.command import shown_path
from siltstone.cli.demo.stage import Stage
from siltstone.cli.demo.story import Story
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.runtime.clock import ManualClock
from siltstone.server.settings.node import load_node_settings
from support.processes.cli import assert_one_line, run


@pytest.mark.parametrize("missing", ["Spark", "the client", "the data"])
def test_without_what_it_needs_nothing_is_made(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, attribute, value, extra = {
        "Spark": (runner_options, "find_spec", lambda _: None, "spark"),
        "the client": (kafka_client, "Producer", None, "demo"),
        "the data": (flights, "find_spec", lambda _: None, "demo"),
    }[missing]
    monkeypatch.setattr(module, attribute, value)
    outcome = run("demo", "--store", tmp_path / "store", "--flights", "100")
    assert_one_line(outcome, 2, f"pip install 'siltstone[{extra}]'")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(("failed", "is_right"), [((), True), (("object 3",), False)])
def test_a_compaction_that_fails_in_part_is_told_and_is_the_end_of_the_demo(
    failed: tuple[str, ...], is_right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports of units that failed have no detail."""
    detail = {"tasks": "2", "read requests": "5", "write requests": "4"}
    done = UnitReport(name="objects", outcome=Outcome.DONE, text="", objects_before=9, detail=detail)
    wrong = [UnitReport(name=name, outcome=Outcome.FAILED, text="damaged") for name in failed]
    monkeypatch.setattr(command, "maintain", lambda *_: ([*wrong, done], not failed))
    written = StringIO()
    stage = Stage(
        settings=load_node_settings(tmp_path, environment={}), story=Story(Console(file=written, width=80)),
        clock=ManualClock(), broker=None, producer=None, flights=[], start_runner=InProcessRunner,
    )  # fmt: skip
    assert command._compact(stage, "in-process", "") is is_right
    assert written.getvalue().count("9 objects became 0 in 2 tasks") == 1
    assert "read in 5 requests" in written.getvalue()


@pytest.mark.parametrize("path", ["a store", "siltstone-data", "-x", "/tmp/it's"])
def test_paths_are_shown_as_a_shell_takes_them(path: str) -> None:
    (word,) = shlex.split(shown_path(Path(path)))
    assert Path(word) == Path(path) and not word.startswith("-")


@pytest.mark.parametrize(
    ("folder", "told"), [(".", ". .venv/bin/activate"), ("elsewhere", ". {there}/.venv/bin/activate")]
)
def test_a_shell_that_does_not_find_siltstone_is_told_what_to_type(
    folder: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / folder)
    monkeypatch.setattr("sys.executable", str(programs / "python"))
    written = StringIO()
    story = Story(Console(file=written, width=80))
    monkeypatch.setenv("PATH", str(tmp_path))
    command._what_next_of_cluster(story)
    assert "activate" not in written.getvalue(), "this Python is in no virtual environment"
    (programs / "activate").touch()
    command._what_next_of_cluster(story)
    assert f"$ {told.format(there=tmp_path)}" in written.getvalue()
    (programs / "siltstone").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(programs))
    command._what_next_of_cluster(story)
    assert written.getvalue().count("activate") == 1


@pytest.mark.parametrize("runner", ["spark", "in-process"])
def test_where_the_compaction_runs_is_told_and_that_nothing_was_to_do(
    runner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "maintain", lambda *_: ([], True))
    written, clock = StringIO(), ManualClock()

    def start() -> InProcessRunner:
        clock.advance_ms(4_000)
        return InProcessRunner()

    stage = Stage(
        settings=load_node_settings(tmp_path, environment={}), story=Story(Console(file=written, width=80)),
        clock=clock, broker=None, producer=None, flights=[], start_runner=start,
    )  # fmt: skip
    assert command._compact(stage, runner, "local[2]")
    text = written.getvalue()
    assert ("starting Spark (local[2])" in text) is ("Spark is up after 4" in text) is (runner == "spark")
    assert ("Compact on Spark" in text) is (runner == "spark")
    assert ("in threads of this process" in text) is (runner == "in-process")
    assert "nothing to compact" in text and " became " not in text
