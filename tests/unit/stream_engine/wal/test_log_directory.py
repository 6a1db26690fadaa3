"""What the names in the folder promise when the power fails right after a call."""

from pathlib import Path

import pytest

from siltstone.stream_engine.wal import log_directory
from siltstone.stream_engine.wal.log_directory import LogDirectory


@pytest.fixture
def durable_names(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The segments whose names have reached the disk."""
    names: set[str] = set()

    def sync(directory: Path) -> None:
        names.clear()
        names.update(path.name for path in directory.glob("*.wal"))

    monkeypatch.setattr(log_directory, "sync_directory", sync)
    return names


def name_of(position: int) -> str:
    return f"{position:020d}.wal"


def test_rule_1_the_name_of_a_new_segment_is_durable_before_it_is_written_to(tmp_path, durable_names) -> None:
    """Else synced, acknowledged records lie in a file that no directory names after a power failure."""
    segments = LogDirectory(tmp_path, 0)
    first = segments.new_file(1, 0, 4096)
    assert durable_names == {name_of(0)}
    first.close()
    segments.retire(first)
    segments.new_file(1, 1000, 4096).close()  # the same file under another name
    assert durable_names == {name_of(1000)}
    assert not list(tmp_path.glob("*.spare"))
    segments.close()


def test_what_was_cleared_does_not_come_back(tmp_path, durable_names) -> None:
    """Positions begin at 0 again in the next life: segments of two lives must never stand side by side."""
    segments = LogDirectory(tmp_path, 0)
    for position in (0, 1000):
        segments.new_file(1, position, 4096).close()
    assert durable_names == {name_of(0), name_of(1000)}
    segments.clear()
    assert durable_names == set()
    segments.close()
