"""A night of tests says what it has tried, summed over parameters and workers; a test that says nothing fails."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes.night import drawn_tonight

TESTS = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
CONFTEST = (
    "from support.processes.tried import pytest_runtest_call, record_tried\n"
    "from support.processes.tried import summarize_tried as pytest_terminal_summary\n"
)
NIGHT = """
import pytest

@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4))
def test_kills(record_tried, seed):
    record_tried("seeds", 1)
    for _ in range(500):
        record_tried("kills", 1)

@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2))
def test_that_fails_half_way(record_tried, seed):
    record_tried("frames", 7)
    assert seed

@pytest.mark.nightly(tried="clusters")
def test_that_is_only_too_long_for_the_day():
    pass

@pytest.mark.nightly
def test_that_says_nothing():
    pass

def test_that_is_short():
    pass
"""


def test_the_summary_of_a_night(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_night.py").write_text(NIGHT)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = nightly: long\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist", "-n", "2", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    said = re.sub(r"\d+ s\)", "0 s)", done.stdout)
    assert "2 failed, 7 passed" in said, done.stdout + done.stderr
    for line in (
        "test_night.py::test_kills: 4 seeds, 2,000 kills (4 passed, 0 s)",
        "test_night.py::test_that_is_only_too_long_for_the_day: 1 clusters (1 passed, 0 s)",
        "test_night.py::test_that_fails_half_way: 14 frames (1 passed, 1 FAILED, 0 s)",
        "test_night.py::test_that_says_nothing: nothing (0 passed, 1 FAILED, 0 s)",
    ):
        assert line in said, said
    assert "test_that_is_short:" not in said
    assert 'a nightly test says what it has tried: record_tried("seeds", 20)' in said


def test_a_run_without_long_tests_has_no_such_summary(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_day.py").write_text("def test_that_is_short():\n    pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout
    assert "what was tried" not in done.stdout


def test_a_night_draws_other_cases_than_the_one_before_and_all_if_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def drawn(night: str) -> list[int]:
        monkeypatch.setenv("NIGHT", night)
        return drawn_tonight(range(100), 10)

    assert drawn("2026-11-27") == drawn("2026-11-27") != drawn("2026-11-28")
    assert len({*drawn("2026-11-27")}) == 10
    assert drawn("all") == [*range(100)]
