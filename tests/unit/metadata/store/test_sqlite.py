import sqlite3
from pathlib import Path

import pytest

from siltstone.metadata.log_entry import LogPosition
from siltstone.metadata.store.port import (
    AppendUncertain,
    LogDamaged,
    LogNotFound,
    LogReplaced,
    LogTruncated,
    LogUnavailable,
    LogVersionUnknown,
    NotMetadataLog,
)
from siltstone.metadata.store.sqlite import SqliteLog
from support.metadata.log_entries import append_values, entry_after

ENTRY = entry_after(LogPosition(), b"a")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "metadata.sqlite"


def test_it_is_durable_by_its_settings(path) -> None:
    log = SqliteLog(path)
    assert log._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert log._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    log.close()
    assert [file.name for file in path.parent.iterdir()] == ["metadata.sqlite"], "no draft is left behind"


def test_it_is_created_only_when_asked(path) -> None:
    with pytest.raises(LogNotFound, match="check the path"):
        SqliteLog(path, create=False)
    assert not path.parent.exists()
    SqliteLog(path).close()
    SqliteLog(path, create=False).close()


@pytest.mark.parametrize("content", [b"", b"x" * 5_000, b"SQLite format 3\x00" + b"\xff" * 5_000])
def test_other_files_are_told_apart(path, content) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(NotMetadataLog, match="not a metadata database"):
        SqliteLog(path)
    assert path.read_bytes() == content


def test_another_programs_database(path) -> None:
    path.parent.mkdir()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE entries (a)")
    other.commit()
    other.close()
    with pytest.raises(NotMetadataLog):
        SqliteLog(path)


def test_tables_of_another_version(path) -> None:
    SqliteLog(path).close()
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 2")
    newer.close()
    with pytest.raises(LogVersionUnknown, match="version 2"):
        SqliteLog(path)


def test_a_folder_that_cannot_be_made(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogUnavailable, match="cannot be created"):
        SqliteLog(tmp_path / "file" / "metadata.sqlite")


def test_a_closed_log_is_unavailable(path) -> None:
    log = SqliteLog(path)
    log.close()
    with pytest.raises(LogUnavailable):
        log.head()
    with pytest.raises(LogUnavailable):
        log.append(ENTRY, LogPosition())


class FailingConnection:
    """Passes everything on, but fails at one statement, before or after it was carried out."""

    def __init__(self, connection: sqlite3.Connection, statement: str, *, after: bool) -> None:
        self._connection, self._statement, self._after = connection, statement, after

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, sql: str, *values) -> sqlite3.Cursor:
        failing = sql.startswith(self._statement)
        if failing and not self._after:
            raise sqlite3.OperationalError("disk I/O error")
        cursor = self._connection.execute(sql, *values)
        if failing:
            raise sqlite3.OperationalError("disk I/O error")
        return cursor


@pytest.mark.parametrize(
    ("statement", "after", "raised", "written"),
    [
        ("BEGIN", False, LogUnavailable, 0),
        ("INSERT", False, LogUnavailable, 0),
        ("INSERT", True, LogUnavailable, 0),
        ("COMMIT", False, AppendUncertain, 0),
        ("COMMIT", True, AppendUncertain, 1),
    ],
)
def test_rule_5_only_a_failing_commit_is_uncertain(path, statement, after, raised, written) -> None:
    log = SqliteLog(path)
    sound = log._connection
    log._connection = FailingConnection(sound, statement, after=after)
    with pytest.raises(raised):
        log.append(ENTRY, LogPosition())
    log._connection = sound
    assert log.head().version == written
    assert append_values(log, b"b").version == written + 1
    log.close()


def test_a_snapshot_replaced_while_it_is_read_is_stale(path) -> None:
    log = SqliteLog(path)
    positions = [append_values(log, b"entry") for _ in range(3)]
    log.save_snapshot(positions[0], [b"a", b"b"])
    chunks = log.load_snapshot().chunks
    assert next(chunks) == b"a"
    log.save_snapshot(positions[1], [b"c"])
    with pytest.raises(LogTruncated):
        next(chunks)
    log.close()


def test_a_snapshot_overtaken_while_it_is_written_is_given_up(path) -> None:
    log = SqliteLog(path)
    positions = [append_values(log, b"entry") for _ in range(3)]

    def overtaken():
        yield b"old"
        log.save_snapshot(positions[2], [b"new"])
        yield b"old"

    log.save_snapshot(positions[1], overtaken())
    snapshot = log.load_snapshot()
    assert (snapshot.version, list(snapshot.chunks)) == (3, [b"new"])
    assert log._connection.execute("SELECT count(*) FROM chunks").fetchone() == (1,)
    log.close()


@pytest.mark.parametrize("successor", [False, True])
def test_a_file_that_was_deleted_or_replaced_takes_no_appends(path, successor) -> None:
    """SQLite would write on into the file that has no name any more, and every commit would be lost."""
    log = SqliteLog(path)
    head = append_values(log, b"a")
    for file in list(path.parent.iterdir()):
        file.unlink()
    if successor:
        SqliteLog(path).close()
    with pytest.raises(LogReplaced, match="restore it"):
        log.append(entry_after(head, b"b"), head)
    log.close()


def test_rule_8_a_damaged_file_is_not_one_to_be_tried_again(path) -> None:
    log = SqliteLog(path)
    head = append_values(log, *[bytes(1000)] * 100)
    log.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + bytes(len(whole) - 8192))
    damaged = SqliteLog(path)
    with pytest.raises(LogDamaged, match="restore it from a backup"):
        damaged.read_after(0, 1000)
    with pytest.raises(LogDamaged):
        damaged.append(entry_after(head, b"b"), head)
    damaged.close()


def test_of_several_snapshots_the_newest_is_all_that_is_kept(path) -> None:
    """Else the database of a broker that runs for years has a row for each."""
    log = SqliteLog(path)
    for position in [append_values(log, b"entry") for _ in range(3)]:
        log.save_snapshot(position, [b"a", b"b"])
    tables = [
        log._connection.execute(f"SELECT version FROM {name}").fetchall() for name in ("snapshots", "chunks")
    ]
    assert tables == [[(3,)], [(3,), (3,)]]
    log.close()
