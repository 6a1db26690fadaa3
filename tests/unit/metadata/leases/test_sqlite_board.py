import sqlite3
import threading
from pathlib import Path

import pytest

from siltstone.metadata.leases.board import Beat, BoardUnavailable
from siltstone.metadata.leases.sqlite_board import SqliteBoard, board_path
from siltstone.metadata.store.sqlite import SqliteLog

BEAT = Beat(0, 1, 1, "life")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return board_path(tmp_path / "metadata.sqlite")


def test_n19_beats_go_on_while_an_append_to_the_metadata_log_hangs(tmp_path, path) -> None:
    metadata_path = tmp_path / "metadata.sqlite"
    log, board = SqliteLog(metadata_path), SqliteBoard(path)
    writer = sqlite3.connect(metadata_path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    board.beat(BEAT)
    assert board.beats() == (BEAT,)
    writer.execute("ROLLBACK")
    for each in (writer, log, board):
        each.close()


def test_a_board_that_another_process_holds_is_given_up_at_the_deadline(path) -> None:
    board = SqliteBoard(path, deadline_ms=20)
    board.beat(BEAT)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(BoardUnavailable, match="locked; check the disk"):
        board.beat(BEAT)
    assert board.beats() == (BEAT,), "readers do not wait"
    holder.execute("ROLLBACK")
    board.beat(Beat(0, 1, 2, "life"))
    assert board.beats()[0].number == 2
    holder.close()
    board.close()


def test_a_call_waits_for_another_call_of_its_process_no_longer_than_the_deadline(path) -> None:
    board = SqliteBoard(path, deadline_ms=20)
    with board._lock, pytest.raises(BoardUnavailable, match="busy with another call"):
        board.beat(BEAT)
    board.beat(BEAT)
    board.close()


def test_a_board_that_was_deleted_is_made_anew_by_whoever_beats_first(path) -> None:
    one, other = SqliteBoard(path), SqliteBoard(path)
    one.beat(BEAT)
    other.beat(Beat(1, 1, 1, "other"))
    path.unlink()
    assert one.beats() == ()
    other.beat(Beat(1, 1, 2, "other"))
    one.beat(BEAT)
    assert one.beats() == other.beats() == (BEAT, Beat(1, 1, 2, "other"))
    for each in (one, other):
        each.close()


def test_a_damaged_board_is_made_anew(path) -> None:
    path.write_bytes(b"not a database at all, but long enough to be read as one" * 40)
    board = SqliteBoard(path)
    board.beat(BEAT)
    assert board.beats() == (BEAT,)
    board.close()


def test_another_file_at_its_place_is_left_alone(path) -> None:
    stranger = sqlite3.connect(path)
    stranger.execute("CREATE TABLE mine (a)")
    stranger.close()
    before = path.read_bytes()
    board = SqliteBoard(path)
    with pytest.raises(BoardUnavailable, match="is not a lease board of this version"):
        board.beat(BEAT)
    assert path.read_bytes() == before


def test_without_its_folder_a_board_is_out_until_the_folder_is_back(tmp_path) -> None:
    path = board_path(tmp_path / "mounted" / "metadata.sqlite")
    board = SqliteBoard(path)
    with pytest.raises(BoardUnavailable, match="check the disk and the permissions"):
        board.beats()
    path.parent.mkdir()
    board.beat(BEAT)
    assert board.beats() == (BEAT,)
    board.close()


def test_the_file_is_its_user_s_alone_and_beside_the_metadata(path) -> None:
    board = SqliteBoard(path)
    board.beat(BEAT)
    assert path.name == "metadata.sqlite-leases"
    assert {each.stat().st_mode & 0o777 for each in path.parent.iterdir()} == {0o600}
    assert not [each for each in path.parent.iterdir() if each.name.startswith(".")], "no draft is left"
    board.close()


def test_two_that_create_it_at_once_use_one_file(path) -> None:
    boards = [SqliteBoard(path) for _ in range(4)]
    together = threading.Barrier(4)

    def beat(node_id: int) -> None:
        together.wait()
        boards[node_id].beat(Beat(node_id, 1, 1, "life"))
        boards[node_id].beat(Beat(node_id, 1, 2, "life"))

    threads = [threading.Thread(target=beat, args=(node_id,)) for node_id in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [beat.number for beat in boards[0].beats()] == [2, 2, 2, 2]
    for board in boards:
        board.close()
