"""A process keeps its locks on the metadata database when its other code reads the files (decision 77)."""

import sys
from pathlib import Path
from subprocess import run

import pytest

from siltstone.metadata.store.port import LogReplaced
from siltstone.metadata.store.sqlite import SqliteLog
from support.metadata.log_entries import append_values, entry_after


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "metadata.sqlite"


OF_ANOTHER_PROCESS = """
import sys
from pathlib import Path
from siltstone.metadata.store.sqlite import SqliteLog
log = SqliteLog(Path(sys.argv[1]), create=False)
print(log.head().version)
log.close()
"""


APPENDING = """
import sys
from pathlib import Path
from siltstone.metadata.store.sqlite import SqliteLog
from support.metadata.log_entries import append_values
log = SqliteLog(Path(sys.argv[1]), create=False)
append_values(log, b"c", b"d")
log.close()
"""


def version_in_another_process(path: Path) -> int:
    return int(run([sys.executable, "-c", OF_ANOTHER_PROCESS, path], capture_output=True, check=True).stdout)


@pytest.mark.parametrize("file", ["metadata.sqlite", "metadata.sqlite-wal", "metadata.sqlite-shm"])
def test_a_process_that_reads_the_files_keeps_its_locks(path: Path, file: str) -> None:
    """Its record locks are gone when it closes the file, and the other process would delete the WAL."""
    log = SqliteLog(path)
    head = append_values(log, b"a")
    path.with_name(file).read_bytes()
    assert version_in_another_process(path) == 1
    log.append(entry_after(head, b"b"), head)
    assert version_in_another_process(path) == 2
    log.close()
    assert [each.name for each in path.parent.iterdir()] == ["metadata.sqlite"], "the last one tidies up"


def test_of_two_logs_of_a_process_either_may_be_closed_first(path: Path) -> None:
    first, second = SqliteLog(path), SqliteLog(path)
    first.close()
    head = append_values(second, b"a")
    assert version_in_another_process(path) == 1
    second.append(entry_after(head, b"b"), head)
    assert version_in_another_process(path) == 2
    second.close()


def test_a_wal_that_was_deleted_takes_no_appends_and_is_not_written_back(path: Path) -> None:
    log = SqliteLog(path)
    head = append_values(log, b"a")
    for end in ("-wal", "-shm"):
        path.with_name(f"metadata.sqlite{end}").unlink()
    with pytest.raises(LogReplaced, match="-wal, a part"):
        log.append(entry_after(head, b"b"), head)
    assert run([sys.executable, "-c", APPENDING, path], check=True).returncode == 0
    log.close()
    assert version_in_another_process(path) == 2, "of c and d: what the first one had is not copied over them"


def test_a_process_without_such_locks_does_the_rest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("fcntl.F_OFD_SETLK")
    log = SqliteLog(path)
    append_values(log, b"a")
    log.close()
    assert SqliteLog(path).head().version == 1
