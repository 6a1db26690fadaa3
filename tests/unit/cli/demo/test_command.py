"""What the demo refuses before it begins. The whole of it: tests/integration, make demo."""

from pathlib import Path

import pytest

from siltstone.cli.compacting import runners
from support.cli import assert_one_line, run


def test_without_what_spark_needs_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "find_spec", lambda _: None)
    outcome = run("demo", "--store", tmp_path / "store", "--flights", "10")
    assert_one_line(outcome, 2, "pip install 'siltstone[spark]'")
    assert not (tmp_path / "store").exists()
