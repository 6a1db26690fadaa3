"""Which board and which copy belong to a URL. Nothing is connected to."""

from pathlib import Path

import pytest

from siltstone.metadata.leases.board import Beat, time_of
from siltstone.metadata.opening import newest_beats, open_board, open_copy
from siltstone.metadata.store.port import LogUrlMalformed
from siltstone.runtime.clock import ManualClock

POSTGRES = "postgresql://user:secret@127.0.0.1:1/database?schema=ours"
BEAT = Beat(0, 1, 1, "life")


def test_a_board_beside_a_file_is_a_file_that_all_processes_of_the_machine_share(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/metadata.sqlite"
    one, other = open_board(url, ManualClock()), open_board(url, ManualClock())
    assert not any(tmp_path.iterdir()), "it is made when it is used"
    one.beat(BEAT)
    assert other.beats() == (BEAT,)
    assert [path.name for path in tmp_path.iterdir()] == ["metadata.sqlite-leases"]
    for each in (one, other):
        each.close()


def test_with_a_log_in_postgresql_board_and_copy_are_there_too() -> None:
    pytest.importorskip("psycopg")
    board, copy = open_board(POSTGRES, ManualClock()), open_copy(POSTGRES, ManualClock())
    assert (type(board).__name__, type(copy).__name__) == ("PostgresBoard", "PostgresCopy")
    board.close()
    copy.close()


def test_a_copy_is_written_to_postgresql_only() -> None:
    for url in ("sqlite:///x/metadata.sqlite", "file:///x", "nothing"):
        with pytest.raises(LogUrlMalformed, match="is no place for a copy of the metadata"):
            open_copy(url, ManualClock())


@pytest.mark.parametrize("url", ["file:///x", "postgresql://host/database?schema=no-name"])
def test_a_url_that_names_no_log_names_no_board_either(url: str) -> None:
    with pytest.raises(LogUrlMalformed, match="names no metadata log"):
        open_board(url, ManualClock())


def test_who_only_looks_at_the_beats_makes_no_board(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/metadata.sqlite"
    assert newest_beats(url, ManualClock()) == ()
    assert not any(tmp_path.iterdir())
    open_board(url, ManualClock()).beat(BEAT)
    assert newest_beats(url, ManualClock()) == (BEAT,)


def test_the_number_of_a_beat_is_its_time_unless_an_older_version_counted() -> None:
    assert time_of(Beat(0, 1, 1_700_000_000_000, "life")) == 1_700_000_000_000
    assert time_of(BEAT) is None
