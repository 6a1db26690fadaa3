"""A copy of a log is the log: the same versions, the same entries, also while it is written."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from siltstone.metadata.history import image_at, oldest_entry, oldest_version
from siltstone.metadata.log_entry import LogEntry, encode_entry
from siltstone.metadata.snapshot import encode_snapshot
from siltstone.metadata.store.log_files import (
    LogFileExists,
    copy_log_entries,
    copy_sqlite_file,
    write_restored_log,
)
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store.port import LogDamaged, LogNotFound, LogTruncated
from siltstone.metadata.store.sqlite import SqliteLog
from support.metadata.log_entries import append_values
from support.metadata.queried_store import queried_world


def fill(log, snapshot: int = 0):
    for number, records in enumerate(queried_world().log):
        log.append(encode_entry(LogEntry(f"{number + 1:032x}", records, log.head().append_id)), log.head())
    if snapshot:
        image = image_at(log, snapshot)
        log.save_snapshot(image.position, encode_snapshot(image))
    return log


def same(one, other) -> None:
    assert one.head() == other.head()
    assert (oldest_version(one), oldest_entry(one)) == (oldest_version(other), oldest_entry(other))
    for version in range(oldest_version(one), one.head().version + 1):
        assert [*encode_snapshot(image_at(one, version))] == [*encode_snapshot(image_at(other, version))]


@pytest.mark.parametrize("snapshot", [0, 9])
def test_a_file_of_sqlite_is_copied_whole(tmp_path: Path, snapshot: int) -> None:
    with closing(fill(SqliteLog(tmp_path / "log", entries_kept=2), snapshot)) as log:
        copy_sqlite_file(tmp_path / "log", tmp_path / "copy")
        with closing(SqliteLog(tmp_path / "copy", create=False)) as copy:
            same(log, copy)
    assert (tmp_path / "copy").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("snapshot", [0, 9])
def test_entries_of_any_log_become_a_file(tmp_path: Path, snapshot: int) -> None:
    log = fill(MemoryLog(entries_kept=2), snapshot)
    copy_log_entries(log, oldest_entry(log), tmp_path / "copy")
    with closing(SqliteLog(tmp_path / "copy", create=False)) as copy:
        same(log, copy)


def test_a_file_is_copied_while_another_connection_writes_to_it(tmp_path: Path) -> None:
    written = threading.Event()

    def write() -> None:
        with closing(SqliteLog(tmp_path / "log")) as log:
            for number in range(300):
                append_values(log, b"x" * 5_000 + b"%d" % number)
                written.set()

    with closing(SqliteLog(tmp_path / "log")):
        writer = threading.Thread(target=write)
        writer.start()
        written.wait()
        copy_sqlite_file(tmp_path / "log", tmp_path / "copy")
        writer.join()
    with (
        closing(SqliteLog(tmp_path / "copy", create=False)) as copy,
        closing(SqliteLog(tmp_path / "log")) as log,
    ):
        head = copy.head()
        assert 1 <= head.version <= log.head().version == 300
        assert copy.read_after(0, 1_000, 1 << 30) == log.read_after(0, head.version, 1 << 30)


def test_a_restored_log_has_one_snapshot_and_goes_on(tmp_path: Path) -> None:
    log = fill(MemoryLog())
    image = image_at(log)
    ((version, entry),) = log.read_after(image.version - 1, 1)
    write_restored_log(tmp_path / "new", image.position, entry, encode_snapshot(image))
    with closing(SqliteLog(tmp_path / "new", create=False)) as made:
        assert made.head() == image.position and oldest_version(made) == version
        append_values(made, b"more")
        assert image_at(made).version == version + 1


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    log = fill(MemoryLog())
    (tmp_path / "there").write_bytes(b"precious")
    with closing(SqliteLog(tmp_path / "log")):
        for write in (
            lambda: copy_sqlite_file(tmp_path / "log", tmp_path / "there"),
            lambda: copy_log_entries(log, 1, tmp_path / "there"),
            lambda: write_restored_log(tmp_path / "there", log.head(), b"", ()),
        ):
            with pytest.raises(LogFileExists):
                write()
    assert (tmp_path / "there").read_bytes() == b"precious"
    with pytest.raises(LogNotFound):
        copy_sqlite_file(tmp_path / "nowhere", tmp_path / "copy")


def test_a_log_that_drops_entries_meanwhile_is_no_copy(tmp_path: Path) -> None:
    log = fill(MemoryLog(entries_kept=1), 9)
    with pytest.raises(LogTruncated):
        copy_log_entries(log, 1, tmp_path / "copy")


def test_a_damaged_page_is_seen(tmp_path: Path) -> None:
    with closing(SqliteLog(tmp_path / "log")) as log:
        append_values(log, *(b"%d" % number * 2_000 for number in range(50)))
    with closing(sqlite3.connect(tmp_path / "log")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray((tmp_path / "log").read_bytes())
    data[4096 * 3 : 4096 * 3 + 8] = b"\xff" * 8
    (tmp_path / "log").write_bytes(data)
    with pytest.raises(LogDamaged, match="is damaged"):
        copy_sqlite_file(tmp_path / "log", tmp_path / "copy")
