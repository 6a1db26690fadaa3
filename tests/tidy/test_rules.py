"""The page of the rules: every rule has a row, and tests that carry its number."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "rules.md").read_text()
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("number", [*range(1, 13), 16])
def test_every_rule_has_a_row_and_tests(number: int) -> None:
    assert re.search(rf"^\| {number} \| \w", PAGE, re.MULTILINE)
    assert re.search(rf"def test_rule_{number}_", TESTS)


def test_the_files_named_exist() -> None:
    floors = "broker|cli|maintenance|metadata|object_formats|object_store|stream_engine"
    named = re.findall(rf"`((?:{floors})/[\w/.]*)`", PAGE)
    assert len(named) > 10
    for name in named:
        assert (ROOT / "src" / "siltstone" / name).exists(), name
