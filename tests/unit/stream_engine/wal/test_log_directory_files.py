"""Log files by their names and headers: what an earlier start left is read, kept, deleted or refused."""

import os
from pathlib import Path

import psutil
import pytest

from siltstone.object_formats.identity import DamagedIdentity, LogIdentity
from siltstone.object_formats.log_file import (
    LOG_FILE_HEADER_BYTES,
    DamagedWal,
    LogFileHeader,
    encode_log_file_header,
)
from siltstone.stream_engine.wal.log_directory import SPARES_MAX, KeptLogFile, LogDirectory, LogFile
from siltstone.stream_engine.wal.port import WalInUse, WalOfAnotherNode
from support.engine.batches import batch
from support.engine.wal_bytes import record_bytes

NODE = 3
SIZE = 4096


@pytest.fixture
def log(tmp_path: Path):
    directory = LogDirectory(tmp_path / "log", NODE)
    yield directory
    directory.close()


@pytest.fixture
def folder(tmp_path: Path, log: LogDirectory) -> Path:
    return tmp_path / "log"


def name_of(position: int) -> str:
    return f"{position:020d}.wal"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "LOCK")


def write_file(
    folder: Path,
    position: int,
    count: int = 2,
    *,
    confirmed: int = 0,
    node_id: int = NODE,
    named: int | None = None,
    missing_bytes: int = 0,
) -> int:
    """A log file of ``count`` records. → The log position behind the last one."""
    data = b""
    for number in range(count):
        data += record_bytes(batch(number), position + len(data), confirmed)
    header = encode_log_file_header(LogFileHeader(node_id, 1, position, SIZE))
    whole = (header + data).ljust(SIZE, b"\0")
    (folder / name_of(position if named is None else named)).write_bytes(whole[: SIZE - missing_bytes])
    return position + len(data)


def positions(log: LogDirectory) -> list[list[int]]:
    return [[record.position for record in records] for records in log.recover()]


# -- the folder


def test_only_the_owner_may_read_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "log"
    folder.mkdir(parents=True)
    for name in ("identity.json", name_of(0), "1.spare", "LOCK"):
        (folder / name).write_bytes(b"")
        (folder / name).chmod(0o644)
    LogDirectory(folder, NODE).close()
    assert {oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {"0o600"}


def test_a_new_folder_is_made_with_its_parents_and_locked(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    log = LogDirectory(folder, NODE)
    assert log.is_empty() and log.identity() is None
    with pytest.raises(WalInUse, match=f"the write-ahead log in {folder} is in use"):
        LogDirectory(folder, NODE)
    log.close()
    LogDirectory(folder, NODE).close()


def test_the_identity_is_the_one_that_was_claimed_last(log: LogDirectory, folder: Path) -> None:
    for epoch in (1, 2):
        log.claim(LogIdentity("a" * 32, NODE, epoch, 17))
    assert log.identity() == LogIdentity("a" * 32, NODE, 2, 17, files=())
    assert log.is_empty()
    (folder / "identity.json").write_bytes(b"{}")
    with pytest.raises(DamagedIdentity, match=rf"{folder}/identity.json: .*; restore it, or delete it"):
        log.identity()


# -- what is read


def test_the_records_of_each_file_in_the_order_of_their_positions(log: LogDirectory, folder: Path) -> None:
    middle = write_file(folder, 0)
    end = write_file(folder, middle, 1)
    size = end - middle
    write_file(folder, end, 0)
    write_file(folder, 10 * end, 0, named=11 * end)  # a spare that was being made into a log file
    (folder / name_of(12 * end)).write_bytes(bytes(SIZE))  # being created when the process ended
    assert not log.is_empty()
    assert positions(log) == [[0, size], [middle], []]


def test_a_gap_that_later_records_confirm_means_that_acknowledged_records_are_missing(
    log: LogDirectory, folder: Path
) -> None:
    end = write_file(folder, 0)
    write_file(folder, 2 * end, confirmed=end + 1)
    with pytest.raises(DamagedWal, match=f"acknowledged records .* after log position {end} are missing"):
        positions(log)


def test_what_was_never_confirmed_behind_a_gap_is_passed_over(log: LogDirectory, folder: Path) -> None:
    end = write_file(folder, 0)
    write_file(folder, 2 * end, confirmed=end)
    write_file(folder, 4 * end, confirmed=end)
    assert len(positions(log)) == 1
    write_file(folder, 6 * end, confirmed=2 * end)  # beyond the first gap, not beyond the last one
    with pytest.raises(DamagedWal, match=f"after log position {end} are missing"):
        positions(log)


@pytest.mark.parametrize(
    ("file", "failure", "words"),
    [
        ({"node_id": 4}, WalOfAnotherNode, "belongs to node 4, this is node 3"),
        ({"named": 99}, DamagedWal, f"begins at log position 100: it was renamed; .* {100:020d}.wal"),
        ({"missing_bytes": 1}, DamagedWal, "has 4,095 bytes, and 4,096 were reserved"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused(
    log: LogDirectory, folder: Path, file: dict, failure: type[Exception], words: str
) -> None:
    write_file(folder, 100, **file)
    with pytest.raises(failure, match=words):
        positions(log)


@pytest.mark.parametrize(("at", "words"), [(10, "the header"), (LOG_FILE_HEADER_BYTES + 40, "acknowledged")])
def test_damage_names_the_file(log: LogDirectory, folder: Path, at: int, words: str) -> None:
    write_file(folder, 0, confirmed=1)
    path = folder / name_of(0)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedWal, match=rf"{path}: .*{words}.*; restore the file"):
        positions(log)


@pytest.mark.parametrize("name", ["log.wal", "²3.wal"])
def test_a_file_with_a_name_of_its_own_is_not_touched(log: LogDirectory, folder: Path, name: str) -> None:
    header = encode_log_file_header(LogFileHeader(NODE, 1, 0, SIZE))
    (folder / name).write_bytes(header.ljust(SIZE, b"\0"))
    with pytest.raises(DamagedWal, match="is not named like a file of a write-ahead log: move it away"):
        positions(log)


# -- what is kept


def test_files_up_to_the_end_are_kept_and_all_else_is_deleted(log: LogDirectory, folder: Path) -> None:
    middle = write_file(folder, 0)
    end = write_file(folder, middle)
    write_file(folder, end)
    (folder / "1.spare").write_bytes(b"")
    kept = log.keep(end)
    assert [(each.path.name, each.first_position) for each in kept] == [
        (name_of(0), 0),
        (name_of(middle), middle),
    ]
    assert names(folder) == [name_of(0), name_of(middle)]


def test_files_that_are_kept_are_durable_first(log: LogDirectory, folder: Path, monkeypatch) -> None:
    synced = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda file: (synced.append(os.readlink(f"/proc/self/fd/{file}")), real(file))
    )
    end = write_file(folder, 0)
    log.keep(end)
    assert synced == [str(folder / name_of(0)), str(folder)]


def test_clearing_deletes_log_files_and_spares(log: LogDirectory, folder: Path) -> None:
    log.claim(LogIdentity("a" * 32, NODE, 1))
    write_file(folder, 0)
    (folder / "1.spare").write_bytes(b"")
    log.clear()
    assert names(folder) == ["identity.json"] and log.is_empty()


# -- new files


def is_open(path: Path) -> bool:
    return str(path) in [each.path for each in psutil.Process().open_files()]


def test_a_new_file_has_its_space_and_its_header(log: LogDirectory, folder: Path) -> None:
    file = log.new_file(5, 70, SIZE)
    path = folder / name_of(70)
    assert (file.path, file.first_position, file.size_bytes) == (path, 70, SIZE)
    assert path.read_bytes() == encode_log_file_header(LogFileHeader(NODE, 5, 70, SIZE)).ljust(SIZE, b"\0")
    assert file.has_room_for(SIZE - LOG_FILE_HEADER_BYTES)
    assert not file.has_room_for(SIZE - LOG_FILE_HEADER_BYTES + 1)
    file.write([b"ab", b"c"])
    file.write([b"d"])
    assert path.read_bytes()[LOG_FILE_HEADER_BYTES:][:5] == b"abcd\0"
    assert not file.has_room_for(SIZE - LOG_FILE_HEADER_BYTES - 3)
    assert is_open(path)
    file.close()
    file.close()
    file.sync()
    assert not is_open(path)


def test_a_file_is_never_smaller_than_its_header(log: LogDirectory, folder: Path) -> None:
    log.new_file(5, 0, 1).close()
    assert (folder / name_of(0)).stat().st_size == LOG_FILE_HEADER_BYTES


def test_space_is_reserved_before_the_header_is_written(tmp_path: Path, monkeypatch) -> None:
    """A spare that is large enough is neither extended nor synced for its size."""
    sizes = []
    real = LogFile.sync
    path = tmp_path / name_of(0)
    monkeypatch.setattr(
        LogFile,
        "sync",
        lambda file: (sizes.append((path.stat().st_size, any(path.read_bytes()))), real(file)),
    )
    header = LogFileHeader(NODE, 1, 0, SIZE)
    LogFile(path, header).close()
    assert sizes == [(SIZE, False), (SIZE, True)]
    sizes.clear()
    LogFile(path, header).close()
    assert sizes == [(SIZE, True)]


def test_trimmed_files_are_used_again_while_they_are_large_enough(log: LogDirectory, folder: Path) -> None:
    file = log.new_file(1, 0, SIZE)
    file.close()
    log.retire(file)
    assert names(folder) == ["1.spare"]
    inode = (folder / "1.spare").stat().st_ino
    log.new_file(1, 100, SIZE + 1).close()
    assert names(folder) == [name_of(100), "1.spare"]
    log.new_file(1, 200, SIZE).close()
    assert names(folder) == [name_of(100), name_of(200)]
    assert (folder / name_of(200)).stat().st_ino == inode


def test_no_more_spares_are_kept_than_will_be_used(log: LogDirectory, folder: Path) -> None:
    files = [log.new_file(1, position, SIZE) for position in range(SPARES_MAX + 1)]
    for file in files:
        file.close()
        log.retire(file)
    assert names(folder) == [f"{number}.spare" for number in range(1, SPARES_MAX + 1)]


def test_a_file_of_an_earlier_start_is_deleted_when_it_is_trimmed(log: LogDirectory, folder: Path) -> None:
    write_file(folder, 20)
    kept = KeptLogFile(folder / name_of(20))
    kept.sync()
    kept.close()
    log.retire(kept)
    assert names(folder) == []
