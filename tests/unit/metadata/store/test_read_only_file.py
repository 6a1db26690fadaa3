"""A database that cannot be written is read as it is at one moment, with what is in its ``-wal`` file."""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from siltstone.metadata.store import read_only_file, sqlite_file
from siltstone.metadata.store.port import LogReadOnly, LogUnavailable
from siltstone.metadata.store.read_only_file import can_be_written, note_of, open_unwritten
from siltstone.metadata.store.sqlite import SqliteLog
from support.metadata.log_entries import append_values, entry_after


def written(path: Path, entries: int) -> SqliteLog:
    log = SqliteLog(path)
    append_values(log, *(b"%d" % number for number in range(entries)))
    return log


def rows(connection: sqlite3.Connection) -> int:
    ((count,),) = connection.execute("SELECT count(*) FROM entries").fetchall()
    return int(count)


def test_a_closed_database_is_read_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    written(path, 3).close()
    connection, copy = open_unwritten(path)
    assert (rows(connection), copy) == (3, None)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM entries")
    assert [each.name for each in tmp_path.iterdir()] == ["metadata.sqlite"]


def test_a_database_with_a_wal_file_is_copied_and_the_copy_is_deleted(tmp_path: Path) -> None:
    log = written(tmp_path / "metadata.sqlite", 3)
    path = tmp_path / "snapshot" / "metadata.sqlite"
    path.parent.mkdir()
    for end in ("", "-wal"):
        shutil.copyfile(tmp_path / f"metadata.sqlite{end}", path.with_name(f"metadata.sqlite{end}"))
    log.close()
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    connection, copy = open_unwritten(path)
    assert rows(connection) == 3 and copy is not None
    assert "is read as it is at this moment: what is written" in note_of(path)
    connection.close()
    copy.cleanup()
    assert not Path(copy.name).exists()
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before


def test_a_live_process_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    written(path, 1).close()
    program = (
        f"import sqlite3, sys; opened = sqlite3.connect({str(path)!r})\n"
        "opened.execute('select * from entries').fetchall(); print(1, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"1\n"
        assert "another process has it open" in note_of(path)
        other.communicate()
    assert "another process" not in note_of(path)


def test_a_torn_copy_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metadata.sqlite"
    log = written(path, 1)
    copied = shutil.copyfile

    def write_meanwhile(source: Path, target: Path) -> None:
        copied(source, target)
        append_values(log, b"meanwhile")

    monkeypatch.setattr(read_only_file.shutil, "copyfile", write_meanwhile)
    with pytest.raises(LogUnavailable, match="use a snapshot"):
        open_unwritten(path)
    log.close()


def test_a_log_that_cannot_be_written_says_so_and_refuses_appends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metadata.sqlite"
    written(path, 2).close()
    assert can_be_written(path)
    monkeypatch.setattr(sqlite_file, "can_be_written", lambda _: False)
    log = SqliteLog(path, create=False)
    head = log.head()
    assert "cannot be written here" in log.read_only_note and head.version == 2
    with pytest.raises(LogReadOnly, match="permission to write"):
        log.append(entry_after(head, b"3"), head)
    log.close()
    assert not SqliteLog(path, create=True).read_only_note
