"""What the demo refuses before it begins, and paths as it shows them. The whole of it: tests/integration, make demo."""

import shlex
from pathlib import Path

import pytest

from siltstone.cli.compacting import runners
from siltstone.cli.demo import flights, kafka_client
from siltstone.cli.demo.command import shown_path
from support.cli import assert_one_line, run


@pytest.mark.parametrize("missing", ["Spark", "the client", "the data"])
def test_without_what_it_needs_nothing_is_made(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, attribute, value, extra = {
        "Spark": (runners, "find_spec", lambda _: None, "spark"),
        "the client": (kafka_client, "Producer", None, "demo"),
        "the data": (flights, "find_spec", lambda _: None, "demo"),
    }[missing]
    monkeypatch.setattr(module, attribute, value)
    outcome = run("demo", "--store", tmp_path / "store", "--flights", "100")
    assert_one_line(outcome, 2, f"pip install 'siltstone[{extra}]'")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("path", ["a store", "siltstone-data", "-x", "/tmp/it's"])
def test_paths_are_shown_as_a_shell_takes_them(path: str) -> None:
    (word,) = shlex.split(shown_path(Path(path)))
    assert Path(word) == Path(path) and not word.startswith("-")
