"""Slabs stay within their limit, and the gathered bytes are those of the buffers, whatever their sizes are."""

import ctypes
import errno
import fcntl
import os
import random
from pathlib import Path
from threading import Barrier, Thread

import pytest

from siltstone.runtime.files import DIRECT_UNIT_BYTES, Slabs, gathered, new_slab, opened, set_direct

UNIT = DIRECT_UNIT_BYTES


@pytest.mark.parametrize(
    "sizes",
    [
        [],
        [0],
        [1],
        [UNIT],
        [UNIT - 1, 1],
        [UNIT + 1],
        [3 * UNIT, 5],
        [100] * 200,
        [UNIT - 1, 2, 7 * UNIT, 0, 1],
    ],
)
def test_gathered_pieces_are_the_bytes_of_the_buffers_in_order(sizes: list[int]) -> None:
    rng = random.Random(3)
    buffers = [rng.randbytes(size) for size in sizes]
    slab = new_slab(UNIT)

    pieces = [bytes(piece) for piece in gathered(buffers, slab)]

    assert b"".join(pieces) == b"".join(buffers)
    assert all(len(piece) == UNIT for piece in pieces[:-1]), "only the last piece may be a part of the slab"
    assert all(pieces), "no piece is empty"


def test_a_slab_begins_at_a_page() -> None:
    slab = new_slab(3 * UNIT)
    assert ctypes.addressof(ctypes.c_char.from_buffer(slab)) % UNIT == 0


def test_a_slab_is_used_again_and_never_by_two_at_a_time() -> None:
    slabs = Slabs(UNIT, 2)
    with slabs.taken() as first, slabs.taken() as second:
        assert first is not second
    with slabs.taken() as again:
        assert again is first or again is second


def test_more_takers_than_slabs_are_served_and_the_kept_bytes_fall_back_to_the_limit() -> None:
    slabs, together = Slabs(UNIT, 2), Barrier(7)
    seen: list[int] = []

    def take() -> None:
        with slabs.taken() as slab:
            together.wait(60)
            seen.append(id(slab))
            together.wait(60)

    threads = [Thread(target=take) for _ in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(seen)) == 7, "each had one of its own"
    assert slabs.kept_bytes == 2 * UNIT


def test_a_slab_is_given_back_after_a_failure() -> None:
    slabs = Slabs(UNIT, 1)
    with pytest.raises(OSError), slabs.taken():
        raise OSError(errno.EIO, "broken")
    assert slabs.kept_bytes == UNIT


def test_a_file_is_made_direct_and_ordinary_again(tmp_path: Path) -> None:
    with opened(tmp_path / "file", os.O_RDWR | os.O_CREAT) as descriptor:
        if not set_direct(descriptor, True):
            pytest.skip("this file system has no direct writes")
        assert fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT
        assert set_direct(descriptor, False)
        assert not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT


def test_where_the_file_system_refuses_the_file_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.fcntl

    def refuse(descriptor: int, command: int, argument: int = 0) -> int:
        if command == fcntl.F_SETFL:
            raise OSError(errno.EINVAL, "no direct writes here")
        return real(descriptor, command, argument)

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    with opened(tmp_path / "file", os.O_RDWR | os.O_CREAT) as descriptor:
        assert not set_direct(descriptor, True)
        assert not real(descriptor, fcntl.F_GETFL) & os.O_DIRECT
