"""docs/testing-your-code.md works: each of its blocks is run, tests by pytest and programs by python."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.pages.documents import ROOT, blocks

PAGE = ROOT / "docs" / "testing-your-code.md"
RUN = PROGRAMS = blocks(PAGE, "python")
FIXTURES = ROOT / "src" / "siltstone" / "pytest_plugin" / "fixtures.py"


def test_every_block_of_the_page_is_one_of_those() -> None:
    assert PAGE.read_text().count("\n```") == 2 * len(PROGRAMS) and len(PROGRAMS) == 6


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_block_runs(number: int, tmp_path: Path) -> None:
    program = PROGRAMS[number]
    tests = re.findall(r"^def (test_\w+)", program, re.MULTILINE)
    file = tmp_path / "test_block.py"
    file.write_text(program)
    command = (
        ["-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", file]
        if tests
        else ["-W", "error", file]
    )
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if tests:
        assert f"{len(tests)} passed" in done.stdout


def test_every_fixture_is_on_the_page() -> None:
    fixtures = re.findall(r"^@pytest\.fixture.*\ndef (\w+)", FIXTURES.read_text(), re.MULTILINE)
    assert len(fixtures) == 8
    assert sorted(re.findall(r"^\| `(siltstone_\w+)` \|", PAGE.read_text(), re.MULTILINE)) == sorted(fixtures)
