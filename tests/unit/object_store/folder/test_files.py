"""Large objects are written past the page cache where the file system allows it, and are whole where it does not."""

import errno
import fcntl
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from siltstone.model.limits import KIB, MIB
from siltstone.object_store.folder import files
from siltstone.object_store.folder.files import DIRECT_BYTES_MIN, SLAB_BYTES, SLABS_KEPT_MAX, ObjectWriter
from siltstone.runtime.files import DIRECT_UNIT_BYTES, Slabs, opened, set_direct

Write = Callable[..., int]
SIZES = [
    [1],
    [DIRECT_BYTES_MIN - 1],
    [DIRECT_BYTES_MIN],
    [DIRECT_BYTES_MIN + 1],
    [72, SLAB_BYTES - 72, 72, SLAB_BYTES],
    [SLAB_BYTES + DIRECT_UNIT_BYTES + 9],
    [72, 128 * KIB] * 20,
]


def written(path: Path, buffers: list[bytes], writer: ObjectWriter | None = None) -> bytes:
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
        (writer or ObjectWriter()).write(descriptor, buffers)
        os.fdatasync(descriptor)
    return path.read_bytes()


def buffers_of(sizes: list[int]) -> list[bytes]:
    rng = random.Random(7)
    return [rng.randbytes(size) for size in sizes]


@pytest.mark.parametrize("sizes", SIZES)
def test_the_file_has_the_bytes_of_the_buffers(tmp_path: Path, sizes: list[int]) -> None:
    buffers = buffers_of(sizes)
    assert written(tmp_path / "object", buffers) == b"".join(buffers)


def test_all_but_the_last_part_of_a_unit_is_written_directly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "probe", os.O_WRONLY | os.O_CREAT) as probe:
        if not set_direct(probe, True):
            pytest.skip("this file system has no direct writes")
    direct_bytes, other_bytes = watched_writes(monkeypatch)

    written(tmp_path / "object", buffers_of([2 * MIB + 5]))

    assert (sum(direct_bytes), sum(other_bytes)) == (2 * MIB, 5)
    assert max(direct_bytes) == SLAB_BYTES, "a sync of the log never stands behind more"


@pytest.mark.parametrize("position", [0, 1, DIRECT_UNIT_BYTES - 1, DIRECT_UNIT_BYTES, 5 * MIB + 77])
@pytest.mark.parametrize("sizes", SIZES)
def test_a_part_is_written_at_its_position_and_nothing_beside_it(
    tmp_path: Path, sizes: list[int], position: int
) -> None:
    buffers, around = buffers_of(sizes), b"around"
    path, size_bytes = tmp_path / "upload", sum(sizes)
    path.write_bytes(bytes(position) + around)
    with opened(path, os.O_WRONLY) as descriptor:
        os.pwrite(descriptor, around, position + size_bytes)
        assert ObjectWriter().write(descriptor, buffers, position) == size_bytes
    assert path.read_bytes() == bytes(position) + b"".join(buffers) + around


def test_the_units_that_two_parts_share_go_through_the_page_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct_bytes, other_bytes = watched_writes(monkeypatch)
    path = tmp_path / "upload"
    with opened(path, os.O_WRONLY | os.O_CREAT) as descriptor:
        if not set_direct(descriptor, True):
            pytest.skip("this file system has no direct writes")
        set_direct(descriptor, False)
        ObjectWriter().write(descriptor, buffers_of([2 * MIB]), 100)
    assert sum(direct_bytes) == 2 * MIB - DIRECT_UNIT_BYTES
    assert sorted(other_bytes) == [100, DIRECT_UNIT_BYTES - 100]


def test_parts_of_one_file_that_are_written_side_by_side_are_whole(tmp_path: Path) -> None:
    writer, path = ObjectWriter(), tmp_path / "upload"
    parts = [buffers_of([MIB + 72 * number + 1]) for number in range(8)]
    starts = [sum(len(part[0]) for part in parts[:number]) for number in range(len(parts))]
    path.touch()

    def write(number: int) -> None:
        with opened(path, os.O_WRONLY) as descriptor:
            writer.write(descriptor, parts[number], starts[number])

    threads = [Thread(target=write, args=(number,)) for number in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert path.read_bytes() == b"".join(part[0] for part in parts)


def test_a_small_object_goes_through_the_page_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    direct_bytes, other_bytes = watched_writes(monkeypatch)
    written(tmp_path / "object", buffers_of([DIRECT_BYTES_MIN - 1]))
    assert (sum(direct_bytes), sum(other_bytes)) == (0, DIRECT_BYTES_MIN - 1)


@pytest.mark.parametrize("sizes", SIZES)
def test_a_slab_is_not_read_after_it_was_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    """The next writer may use the slab then, and the end of the object would have bytes of another object."""
    taken = Slabs.taken

    @contextmanager
    def spoilt_afterwards(slabs: Slabs) -> Iterator[memoryview]:
        with taken(slabs) as slab:
            yield slab
            slab[:] = b"x" * len(slab)

    monkeypatch.setattr(Slabs, "taken", spoilt_afterwards)
    buffers = buffers_of(sizes)
    assert written(tmp_path / "object", buffers) == b"".join(buffers)


def test_objects_that_are_written_side_by_side_are_whole(tmp_path: Path) -> None:
    writer = ObjectWriter()
    buffers = {number: buffers_of([MIB + 72 * number, MIB, 999 + number]) for number in range(8)}
    threads = [
        Thread(target=written, args=(tmp_path / str(number), buffers[number], writer)) for number in buffers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number, expected in buffers.items():
        assert (tmp_path / str(number)).read_bytes() == b"".join(expected)


def test_a_file_system_without_direct_writes_takes_the_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "set_direct", lambda _, is_direct: not is_direct)
    buffers = buffers_of([2 * MIB + 5])
    assert written(tmp_path / "object", buffers) == b"".join(buffers)


@pytest.mark.parametrize("write_refused", [0, 1, 2])
def test_a_direct_write_that_is_refused_is_made_again_through_the_page_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_refused: int
) -> None:
    """A disk may need larger units than a file system says, which only the first write shows."""
    calls = iter(range(100))

    def refuse(descriptor: int, buffers: list[memoryview], position: int) -> int:
        if next(calls) == write_refused:
            raise OSError(errno.EINVAL, "the units are too small")
        return pwritev(descriptor, buffers, position)

    pwritev = os.pwritev
    monkeypatch.setattr(os, "pwritev", refuse)
    buffers = buffers_of([2 * MIB + 5])
    assert written(tmp_path / "object", buffers) == b"".join(buffers)


@pytest.mark.parametrize("taken", [DIRECT_UNIT_BYTES, 3 * DIRECT_UNIT_BYTES, 10])
def test_a_write_that_stops_in_the_middle_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    def short(descriptor: int, buffers: list[memoryview], position: int) -> int:
        return pwritev(descriptor, [memoryview(buffers[0])[:taken]], position)

    pwritev = os.pwritev
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", short)
        buffers = buffers_of([DIRECT_BYTES_MIN + 5]) if taken > 10 else buffers_of([999])
        assert written(tmp_path / "object", buffers) == b"".join(buffers)


def test_a_failure_of_the_disk_is_not_taken_for_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "pwritev", fail)
    writer = ObjectWriter()
    with pytest.raises(OSError, match="broken"):
        written(tmp_path / "object", buffers_of([2 * MIB]), writer)
    assert writer.slabs.kept_bytes == SLAB_BYTES


def test_the_slabs_that_are_kept_have_a_limit(tmp_path: Path) -> None:
    writer = ObjectWriter()
    for number in range(3 * SLABS_KEPT_MAX):
        written(tmp_path / str(number), buffers_of([2 * MIB]), writer)
    assert writer.slabs.kept_bytes <= SLABS_KEPT_MAX * SLAB_BYTES


def watched_writes(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[int]]:
    """Notes the sizes of direct and of other writes, as they are made."""
    direct_bytes: list[int] = []
    other_bytes: list[int] = []

    def watch(descriptor: int, buffers: list[memoryview], position: int) -> int:
        count = pwritev(descriptor, buffers, position)
        is_direct = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT
        (direct_bytes if is_direct else other_bytes).append(count)
        return count

    pwritev = os.pwritev
    monkeypatch.setattr(os, "pwritev", watch)
    return direct_bytes, other_bytes
