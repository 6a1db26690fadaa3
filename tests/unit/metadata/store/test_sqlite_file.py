"""The file itself: its permissions, what is durable when it has been created, and why it cannot be opened."""

import os
import sqlite3
from pathlib import Path

import pytest

from siltstone.metadata.store import sqlite_file
from siltstone.metadata.store.port import LogUnavailable, LogVersionUnknown, NotMetadataLog
from siltstone.metadata.store.sqlite_file import connect


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "metadata.sqlite"


def test_its_ids_are_those_of_every_file_that_was_ever_made(path: Path) -> None:
    connection = connect(path, create=True).connection
    assert connection.execute("PRAGMA application_id").fetchone() == (0x53494C54,)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()


def test_the_file_and_its_name_are_durable_before_it_is_used(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        place = os.readlink(f"/proc/self/fd/{handle}")
        synced.append("folder" if place == str(path.parent) else f"draft, {path.exists()}")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    connect(path, create=True).connection.close()
    assert synced == ["draft, False", "folder"]
    connect(path, create=True).connection.close()
    assert len(synced) == 2


def test_ab12_only_its_owner_may_read_it_and_what_belongs_to_it(path: Path) -> None:
    first = connect(path, create=True).connection
    first.execute("INSERT INTO entries VALUES (1, x'00')")
    files = [path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")]
    for each in files:
        each.chmod(0o644)
    connect(path, create=False).connection.close()
    assert [oct(each.stat().st_mode & 0o777) for each in files] == ["0o600"] * 3
    first.close()


def test_of_two_that_create_it_at_once_both_use_one_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sqlite_file._write_tables
    others: list[sqlite3.Connection] = []

    def overtaken(draft: Path) -> None:
        monkeypatch.setattr(sqlite_file, "_write_tables", real)
        others.append(connect(path, create=True).connection)
        others[0].execute("INSERT INTO entries VALUES (1, x'00')")
        real(draft)

    monkeypatch.setattr(sqlite_file, "_write_tables", overtaken)
    connection = connect(path, create=True).connection
    assert connection.execute("SELECT version FROM entries").fetchall() == [(1,)]
    assert {each.name for each in path.parent.iterdir()} == {
        path.name, f"{path.name}-wal", f"{path.name}-shm"
    }  # fmt: skip
    connection.close()
    others[0].close()


def test_a_file_that_cannot_be_opened_says_what_to_look_at(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(path, create=True).connection.close()

    def refuse(_: Path) -> sqlite3.Connection:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(sqlite_file, "_open", refuse)
    with pytest.raises(
        LogUnavailable, match=f"{path} cannot be opened: unable to open .* check the permissions"
    ):
        connect(path, create=False)


@pytest.mark.parametrize(
    ("pragma", "failure"), [("user_version = 2", LogVersionUnknown), ("application_id = 1", NotMetadataLog)]
)
def test_a_file_that_is_refused_is_closed(
    path: Path, monkeypatch: pytest.MonkeyPatch, pragma: str, failure: type[Exception]
) -> None:
    connection = connect(path, create=True).connection
    connection.execute(f"PRAGMA {pragma}")
    connection.close()
    opened: list[sqlite3.Connection] = []
    real = sqlite_file._open
    monkeypatch.setattr(sqlite_file, "_open", lambda place: (opened.append(real(place)), opened[-1])[1])
    with pytest.raises(failure):
        connect(path, create=False)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")
