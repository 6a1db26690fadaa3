"""A process keeps its locks on the metadata database when its other code reads the files (decision 77)."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from siltstone.metadata.store.port import LogReplaced
from siltstone.metadata.store.sqlite import SqliteLog
from support.metadata.log_entries import append_values, entry_after


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "metadata.sqlite"


def _version(path: Path) -> int:
    log = SqliteLog(path, create=False)
    version = log.head().version
    log.close()
    return version


def _append_two(path: Path) -> int:
    log = SqliteLog(path, create=False)
    version = append_values(log, b"c", b"d").version
    log.close()
    return version


def in_another_process(call: Callable[[Path], int], path: Path) -> int:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        return processes.submit(call, path).result(60)


@pytest.mark.parametrize("file", ["metadata.sqlite", "metadata.sqlite-wal", "metadata.sqlite-shm"])
def test_a_process_that_reads_the_files_keeps_its_locks(path: Path, file: str) -> None:
    """Its record locks are gone when it closes the file, and the other process would delete the WAL."""
    log = SqliteLog(path)
    head = append_values(log, b"a")
    path.with_name(file).read_bytes()
    assert in_another_process(_version, path) == 1
    log.append(entry_after(head, b"b"), head)
    assert in_another_process(_version, path) == 2
    log.close()
    assert [each.name for each in path.parent.iterdir()] == ["metadata.sqlite"], "the last one tidies up"


def test_of_two_logs_of_a_process_either_may_be_closed_first(path: Path) -> None:
    first, second = SqliteLog(path), SqliteLog(path)
    first.close()
    head = append_values(second, b"a")
    assert in_another_process(_version, path) == 1
    second.append(entry_after(head, b"b"), head)
    assert in_another_process(_version, path) == 2
    second.close()


def test_a_wal_that_was_deleted_takes_no_appends_and_is_not_written_back(path: Path) -> None:
    log = SqliteLog(path)
    head = append_values(log, b"a")
    for end in ("-wal", "-shm"):
        path.with_name(f"metadata.sqlite{end}").unlink()
    with pytest.raises(LogReplaced, match="-wal, a part"):
        log.append(entry_after(head, b"b"), head)
    assert in_another_process(_append_two, path) == 2
    log.close()
    assert in_another_process(_version, path) == 2, (
        "of c and d: what the first one had is not copied over them"
    )


def test_a_forked_process_leaves_the_locks_of_its_parent(path: Path) -> None:
    """It has the same descriptions: an unlock there would be one in the parent."""
    log = SqliteLog(path)
    head = append_values(log, b"a")
    child = os.fork()
    if not child:
        log.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    path.read_bytes()
    assert in_another_process(_version, path) == 1
    log.append(entry_after(head, b"b"), head)
    assert in_another_process(_version, path) == 2
    log.close()
