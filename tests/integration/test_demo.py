"""The demo with fewer flights and without Spark; ``make demo`` is the whole of it."""

from pathlib import Path

import pytest

from siltstone.cli.demo import command, verifying
from siltstone.cli.demo.verifying import Verification
from support.cli import Outcome, assert_one_line, run

FEW = ("demo", "--flights", "6000", "--runner", "in-process")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A store that stays, and what was said."""
    folder = tmp_path_factory.mktemp("demo") / "store"
    return folder, run(*FEW, "--store", folder)


def test_the_demo_ends_with_every_record_right_and_fewer_requests(demo: tuple[Path, Outcome]) -> None:
    _, outcome = demo
    assert outcome.status == 0, outcome
    assert "6,000 of 6,000 records are as in the source" in outcome.words
    assert "siltstone check: clean" in outcome.words
    assert outcome.out.count("█") > 40
    reads = [line.split() for line in outcome.out.splitlines() if "GETs to read" in line and "×" in line]
    assert len(reads) == 2
    for *_, before, after, fewer, _times in reads:
        assert int(after) < int(before) / 3
        assert float(fewer) > 3


def test_it_fits_80_columns_and_needs_no_terminal(demo: tuple[Path, Outcome]) -> None:
    _, outcome = demo
    too_wide = [line for line in outcome.out.splitlines() if len(line) > 80 and "$" not in line]
    assert too_wide == [] and outcome.err == ""
    assert "\x1b" not in outcome.out


def test_the_store_that_stays_can_be_looked_at(demo: tuple[Path, Outcome]) -> None:
    folder, outcome = demo
    lines = [line for line in outcome.out.splitlines() if "$ siltstone" in line]
    commands = [line.split("$ siltstone ")[1].split() for line in lines]
    assert [words[0] for words in commands] == ["streams", "inspect", "check", "maintain"]
    for words in commands:
        assert run(*words).status == 0
    rows = run("streams", "--store", folder, "--json").json["streams"]
    assert sum(row["end_offset"] for row in rows) == 6_000
    assert {"carrier": "UA", "origin": "EWR"} in [row["tags"] for row in rows]


def test_a_temporary_store_is_removed_unless_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run(*FEW).status == 0
    assert list(tmp_path.glob("siltstone-demo-*")) == []
    assert run(*FEW, "--keep").status == 0
    (kept,) = tmp_path.glob("siltstone-demo-*")
    assert run("check", "--store", kept).status == 0


def test_any_record_that_differs_is_told_with_exit_status_1(tmp_path: Path, monkeypatch) -> None:
    async def lies(settings, streams, flights, on_progress) -> Verification:
        found = await verifying.verify(settings, streams, flights[1:], on_progress)
        assert found.mismatches
        return found

    monkeypatch.setattr(command, "verify", lies)
    outcome = run(*FEW, "--store", tmp_path / "store")
    assert outcome.status == 1
    assert "✗" in outcome.out and "instead of" in outcome.out


def test_t35_a_folder_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert_one_line(run(*FEW, "--store", tmp_path), 2, "name another folder")
    assert (tmp_path / "file").read_text() == "mine"


def test_t35_no_flights_is_no_number() -> None:
    assert_one_line(run("demo", "--flights", "0"), 2, "--flights")
