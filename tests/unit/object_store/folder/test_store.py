"""What is special to the folder: the order of syncs, file modes, left-over files, partial writes."""

import errno
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from siltstone.object_store.folder import multipart
from siltstone.object_store.folder.files import os_errors_translated, read_at
from siltstone.object_store.folder.store import PIECE_BYTES_MIN, FolderStore, ReadingOrder
from siltstone.object_store.port import ObjectAlreadyExists, StoreDenied, StoreTransient
from siltstone.runtime.clock import ManualClock, SystemClock
from siltstone.runtime.file_systems import FileSystem
from siltstone.runtime.randomness import seeded_randomness, system_randomness

KEY = "a5/objects/1"


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "new" / "bucket", SystemClock(), system_randomness())


class Recorder:
    """The system calls that matter, in order, with the paths they concern below the root."""

    def __init__(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        self.calls: list[str] = []
        self._root = root
        for name in ("fsync", "fdatasync", "rename", "link", "mkdir"):
            patch.setattr(os, name, self._recorded(name, getattr(os, name)))

    def _recorded(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(first: Any, *others: Any, **options: Any) -> Any:
            result = call(first, *others, **options)
            subject = Path(os.readlink(f"/proc/self/fd/{first}")) if isinstance(first, int) else Path(first)
            self.calls.append(f"{name} {self._shown(subject)}")
            return result

        return recorded

    def _shown(self, path: Path) -> str:
        shown = str(path.relative_to(self._root)) if path != self._root else "root"
        return shown.split("/")[0] if shown.startswith(".") else shown


def test_a_put_syncs_the_bytes_then_publishes_then_syncs_the_names(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(monkeypatch, tmp_path / "new" / "bucket")

    store.put(KEY, [b"1"])
    first, recorder.calls = recorder.calls, []
    store.put("a5/objects/2", [b"2"])

    put = ["fdatasync .temporary", "link .temporary", "fsync a5/objects"]
    made = ["mkdir a5", "fsync root", "mkdir a5/objects", "fsync a5"]
    own = ["mkdir .temporary", "fsync root"]
    assert first == [*own, put[0], *made, *put[1:]]
    assert recorder.calls == put  # the directories are known to be durable


def test_directories_another_process_made_are_synced_before_they_are_relied_upon(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "new" / "bucket"
    (root / "a5" / "objects").mkdir(parents=True)
    recorder = Recorder(monkeypatch, root)

    store.put(KEY, [b"1"])

    published = recorder.calls.index("link .temporary")
    assert {"fsync root", "fsync a5"} <= set(recorder.calls[:published])


def test_a_folder_that_somebody_removed_is_made_again_and_the_root_is_not(
    store: FolderStore, tmp_path: Path
) -> None:
    """Such as the folder of a table; a root that is gone may be on a disk that is not mounted."""
    root = tmp_path / "new" / "bucket"
    store.put(KEY, [b"1"])
    shutil.rmtree(root / "a5")
    store.put(KEY, [b"2"])
    assert store.get_range(KEY, 0, 1) == b"2"
    upload = store.start_multipart(KEY + "0")
    part = store.upload_part(upload, 1, 0, [b"3"])
    shutil.rmtree(root / "a5")
    store.complete_multipart(upload, [part])
    assert store.get_range(KEY + "0", 0, 1) == b"3"
    shutil.rmtree(root)
    with pytest.raises(StoreDenied):
        store.put(KEY, [b"4"])
    assert not root.exists()


def test_a_conditional_put_links_and_both_winner_and_loser_sync_the_name(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a5/objects/0", [b"0"])
    recorder = Recorder(monkeypatch, tmp_path / "new" / "bucket")

    store.put_if_absent(KEY, [b"1"])
    assert recorder.calls == ["fdatasync .temporary", "link .temporary", "fsync a5/objects"]

    recorder.calls = []
    with pytest.raises(ObjectAlreadyExists):
        store.put_if_absent(KEY, [b"2"])
    assert recorder.calls == ["fdatasync .temporary", "fsync a5/objects"]


def test_each_part_is_synced_and_completing_moves_no_bytes(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a5/objects/0", [b"source"])
    upload = store.start_multipart(KEY)
    recorder = Recorder(monkeypatch, tmp_path / "new" / "bucket")

    parts = [store.upload_part(upload, 1, 0, [b"first"]), store.copy_part(upload, 2, 5, "a5/objects/0", 1, 6)]
    assert recorder.calls == ["fdatasync .uploads"] * 2

    recorder.calls = []
    store.complete_multipart(upload, parts)
    assert recorder.calls == ["link .uploads", "fsync a5/objects"]
    assert store.get_range(KEY, 0, 10) == b"firstource"


@pytest.mark.parametrize("write_bytes_max", [1, 7, 4096])
def test_writes_that_take_only_a_part_go_on(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, write_bytes_max: int
) -> None:
    whole = os.pwritev

    def short(descriptor: int, buffers: list[memoryview], position: int) -> int:
        assert len(buffers) <= os.sysconf("SC_IOV_MAX")
        return whole(descriptor, [memoryview(b"".join(buffers))[:write_bytes_max]], position)

    monkeypatch.setattr(os, "pwritev", short)
    pieces = [bytes([index]) * (index % 5 * 13) for index in range(60)]
    store.put(KEY, pieces)

    content = b"".join(pieces)
    assert store.get_range(KEY, 0, len(content)) == content


def test_reads_and_copies_that_take_only_a_part_go_on(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, copy = os.pread, os.copy_file_range
    store.put(KEY, [bytes(range(200))])
    monkeypatch.setattr(os, "pread", lambda fd, size, position: read(fd, min(size, 9), position))
    monkeypatch.setattr(
        os,
        "copy_file_range",
        lambda source, target, size, *positions: copy(source, target, min(size, 9), *positions),
    )
    upload = store.start_multipart("a5/objects/2")
    store.complete_multipart(upload, [store.copy_part(upload, 1, 0, KEY, 3, 150)])

    assert store.get_range("a5/objects/2", 0, 147) == bytes(range(3, 150))


def test_the_umask_decides_who_may_read(store: FolderStore, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        store.put(KEY, [b"1"])
        upload = store.start_multipart("a5/objects/2")
        store.complete_multipart(upload, [store.upload_part(upload, 1, 0, [b"2"])])
    finally:
        os.umask(before)

    folder = tmp_path / "new" / "bucket" / "a5" / "objects"
    assert [path.stat().st_mode & 0o777 for path in sorted(folder.iterdir())] == [0o640, 0o640]


def test_a_failed_put_leaves_nothing(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(StoreTransient, match="No space left"):
        store.put(KEY, [b"1"])

    assert [*store.list()] == []
    assert [*(tmp_path / "new" / "bucket" / ".temporary").iterdir()] == []


def test_temporary_files_of_killed_puts_are_removed_when_old(tmp_path: Path) -> None:
    clock = ManualClock(SystemClock().now_ms())
    store = FolderStore(tmp_path, clock, seeded_randomness(1))
    assert store.remove_stale(older_than_ms=0) == 0, "none was ever put"
    (tmp_path / ".temporary").mkdir()
    (tmp_path / ".temporary" / "left").write_bytes(b"half an obj")
    upload = store.start_multipart(KEY)

    assert store.remove_stale(older_than_ms=60_000) == 0
    clock.advance_ms(70_000)
    assert store.remove_stale(older_than_ms=60_000) == 1

    assert [*(tmp_path / ".temporary").iterdir()] == []
    assert [*store.list_multipart()] == [upload]


def test_a_key_below_another_key_is_refused_without_harm(store: FolderStore) -> None:
    store.put(KEY, [b"1"])

    with pytest.raises(StoreDenied):
        store.put(KEY + "/below", [b"2"])
    with pytest.raises(StoreDenied):
        store.put("a5/objects", [b"2"])

    assert store.get_range(KEY, 0, 1) == b"1"


def test_a_denied_file_is_named_once() -> None:
    for action, expected in (
        ("put k", r"^put k: Permission denied \(/b/k\); check the folder"),
        ("open the folder /b/k", "^open the folder /b/k: Permission denied; check the folder"),
    ):
        with pytest.raises(StoreDenied, match=expected), os_errors_translated(action):
            raise PermissionError(errno.EACCES, "Permission denied", "/b/k")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(StoreDenied, match="check the folder"):
        FolderStore(tmp_path / "file" / "bucket", SystemClock(), system_randomness())


def test_a_large_copy_is_synced_piece_by_piece(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync of the write-ahead log on the same disk would stand behind all of it."""
    monkeypatch.setattr(multipart, "COPIED_BYTES_MAX", 1000)
    content = os.urandom(2500)
    store.put(KEY, [content])
    upload = store.start_multipart("a5/objects/2")
    recorder = Recorder(monkeypatch, tmp_path / "new" / "bucket")
    part = store.copy_part(upload, 1, 0, KEY, 0, len(content))

    assert recorder.calls == ["fdatasync .uploads"] * 3
    store.complete_multipart(upload, [part])
    assert store.get_range("a5/objects/2", 0, len(content)) == content


def test_files_that_are_not_the_stores_own_names_stay_out_of_listings(
    store: FolderStore, tmp_path: Path
) -> None:
    store.put(KEY, [b"1"])
    (tmp_path / "new" / "bucket" / ".DS_Store").write_bytes(b"")
    (tmp_path / "new" / "bucket" / "a5" / ".hidden").write_bytes(b"")

    assert [summary.key for summary in store.list()] == [KEY]


def test_what_nobody_may_delete_keeps_nothing_else(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ["a/1", "a/2", "b/1"]
    for key in keys:
        store.put(key, [b"1"])
    unlink = Path.unlink

    def held(path: Path) -> None:
        if path.name == "2":
            raise PermissionError(1, "Operation not permitted")
        unlink(path)

    monkeypatch.setattr(Path, "unlink", held)
    with pytest.raises(StoreDenied, match="Operation not permitted"):
        store.delete(keys)
    assert [each.key for each in store.list()] == ["a/2"]


def test_the_size_of_an_empty_object(store: FolderStore) -> None:
    store.put(KEY, [])

    assert store.head(KEY).size_bytes == 0


def test_a_deletion_syncs_each_folder_that_lost_a_name_once(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the objects could be back after the machine has lost its power."""
    keys = ["a5/objects/1", "a5/objects/2", "b6/objects/3", "c7/objects/never-there"]
    for key in keys[:3]:
        store.put(key, [b"x"])
    recorder = Recorder(monkeypatch, tmp_path / "new" / "bucket")
    store.delete(keys)
    assert sorted(recorder.calls) == ["fsync a5/objects", "fsync b6/objects"]
    assert list(store.list()) == []


@pytest.mark.parametrize(("piece_bytes", "reads"), [(PIECE_BYTES_MIN, 3), (1_000, 1)])
def test_large_pieces_are_read_into_their_memory_and_the_file_is_opened_once(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, piece_bytes: int, reads: int
) -> None:
    """A system call costs more than the copy of so small a piece as the second one."""
    store.put(KEY, [bytes(3 * piece_bytes)])
    calls: list[str] = []
    for name in ("open", "pread"):
        call = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given, name=name, call=call: calls.append(name) or call(*given))

    assert (
        store.get_pieces(KEY, 0, [piece_bytes, 2 * piece_bytes, 3 * piece_bytes]) == [bytes(piece_bytes)] * 3
    )
    assert calls == ["open", *["pread"] * reads]


@pytest.mark.parametrize("is_remote", [False, True])
def test_pieces_that_continue_other_pieces_are_read_after_them_on_this_machines_disks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_remote: bool
) -> None:
    file_system = FileSystem("nfs4" if is_remote else "ext4", "/")
    monkeypatch.setattr("siltstone.object_store.folder.store.file_system_of", lambda _: file_system)
    store = FolderStore(tmp_path, SystemClock(), system_randomness())
    store.put(KEY, [bytes(4 * PIECE_BYTES_MIN)])
    has_begun, may_end, begun = Event(), Event(), list[int]()

    def read(descriptor: int, size_bytes: int, position: int) -> bytes:
        begun.append(position)
        if position == 0:
            has_begun.set()
            assert may_end.wait(30)
        return read_at(descriptor, size_bytes, position)

    monkeypatch.setattr("siltstone.object_store.folder.store.read_at", read)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(store.get_pieces, KEY, 0, [PIECE_BYTES_MIN, 2 * PIECE_BYTES_MIN])
        assert has_begun.wait(30)
        second = pool.submit(store.get_pieces, KEY, 2 * PIECE_BYTES_MIN, [4 * PIECE_BYTES_MIN])
        if is_remote:
            assert second.result(30) == [bytes(2 * PIECE_BYTES_MIN)] and not first.done()
        may_end.set()
        assert first.result(30) == [bytes(PIECE_BYTES_MIN)] * 2 and second.result(30) == [
            bytes(2 * PIECE_BYTES_MIN)
        ]
    in_order = [0, PIECE_BYTES_MIN, 2 * PIECE_BYTES_MIN]
    assert (begun == in_order) is not is_remote


SECONDS = 30


class Read:
    """A read in a thread of its own, which ends when ``end`` is called."""

    def __init__(self, order: ReadingOrder, key: str, start: int, end: int, fails: bool = False) -> None:
        self.has_begun, self._may_end, self._fails = Event(), Event(), fails

        def read() -> None:
            with order.turn(key, start, end):
                self.has_begun.set()
                assert self._may_end.wait(SECONDS)
                if self._fails:
                    raise OSError("the disk")

        self._thread = Thread(target=_quiet(read))
        self._thread.start()

    def end(self) -> None:
        self._may_end.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


def _quiet(read: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        try:
            read()
        except OSError:
            return

    return run


@pytest.mark.parametrize("fails", [False, True])
def test_a_read_waits_for_the_one_that_it_continues(fails: bool) -> None:
    order = ReadingOrder()
    first = Read(order, "a", 0, 10, fails)
    assert first.has_begun.wait(SECONDS)
    second = Read(order, "a", 10, 20)
    third = Read(order, "a", 20, 30)
    assert not second.has_begun.wait(0.05) and not third.has_begun.is_set()
    first.end()
    assert second.has_begun.wait(SECONDS) and not third.has_begun.wait(0.05)
    second.end()
    assert third.has_begun.wait(SECONDS)
    third.end()


def test_reads_of_other_places_and_of_other_files_do_not_wait() -> None:
    order = ReadingOrder()
    reads = [
        Read(order, "a", 0, 10),
        Read(order, "b", 10, 20),
        Read(order, "a", 15, 20),
        Read(order, "a", 0, 10),
    ]
    assert all(each.has_begun.wait(SECONDS) for each in reads)
    for each in reads:
        each.end()


def test_nothing_is_kept_of_reads_that_have_ended() -> None:
    order = ReadingOrder()
    for _ in range(3):
        with order.turn("a", 0, 10), order.turn("a", 0, 10):
            pass
    with pytest.raises(KeyError), order.turn("a", 10, 20):
        raise KeyError
    assert not order._under_way
