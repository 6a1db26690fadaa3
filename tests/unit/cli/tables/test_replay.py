"""``siltstone tables replay`` on a store that a broker has left."""

from pathlib import Path

import pytest

import siltstone
from siltstone.server.embedded import Broker
from siltstone.tables.replaying import SOURCE_BYTES_MAX, MendingRefused, mending_of
from support.processes.cli import Outcome, run

CONFIG = {
    "siltstone.table.format": "iceberg",
    "siltstone.table.value": "json",
    "siltstone.table.columns": "id long",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``flights`` was exported, and two of its records are dead letters; ``other`` is no table."""
    folder = tmp_path / "store"
    with Broker(folder) as broker:
        broker.create_topic("flights", partitions=1, config=CONFIG)
        broker.create_topic("other", partitions=1)
        lines = b'{"id": 1}\n{"id": "2"}\ngarbage\n'
        assert run("produce", "flights", "-b", broker.bootstrap_servers, stdin=lines).status == 0
    with siltstone.open_store(folder) as store:
        assert siltstone.maintenance.plan(store, kinds=["table-export"]).run().is_well
    return folder


def replay(folder: Path, *words: str) -> Outcome:
    return run("tables", "replay", *words, "--runner", "in-process", "--store", folder, COLUMNS=None)


def test_dead_letters_are_shown_then_mended_and_moved(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mend_ids.py").write_text(
        'def fixed(letter):\n    return letter.value.replace(b\'"2"\', b"2")\n'
    )
    monkeypatch.chdir(tmp_path)
    shown = replay(folder, "flights", "--dead-letters", "--dry-run", "--with", "mend_ids:fixed")
    assert shown.status == 0, shown
    assert shown.out.startswith("1 dead letter fit table kafka.flights, 1 dead letter stay")
    done = replay(folder, "flights", "--dead-letters", "--with", "mend_ids:fixed", "--json")
    assert done.status == 0 and done.json["units"][0]["outcome"] == "done", done
    rows = run("tables", "--store", folder, COLUMNS=None).out.splitlines()
    assert rows[1].split("\t")[3:5] == ["2", "1"]
    again = replay(folder, "flights", "--dead-letters")
    assert again.out.startswith("0 dead letters moved to table kafka.flights, 1 dead letter stay"), again


def test_what_cannot_be_replayed_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--dead-letters" in replay(folder, "flights").err
    assert "topic other is not kept as a table" in replay(folder, "other", "--dead-letters").err
    for name, words in {
        "nothing": "write MODULE:FUNCTION",
        "no_such_module:f": "No module named",
        "broken_mend:f": "invalid syntax",
        "empty_mend:f": "has no function f",
    }.items():
        (tmp_path / "broken_mend.py").write_text("def\n")
        (tmp_path / "empty_mend.py").write_text("x = 1\n")
        monkeypatch.chdir(tmp_path)
        said = replay(folder, "flights", "--dead-letters", "--with", name)
        assert said.status == 2 and words in said.err, said


def test_a_module_that_is_too_large_to_travel_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large_mend.py").write_text(f"f = len\nX = '{'x' * SOURCE_BYTES_MAX}'\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MendingRefused, match="larger than 1 MiB"):
        mending_of("large_mend:f")
