"""A folder stops before each piece, so that a large request is no burst on the disk."""

import os
from pathlib import Path

import pytest

from siltstone.model.limits import KIB, MIB
from siltstone.object_store.bandwidth.pieces import Piece, in_pieces, is_in_pieces, piece_passes
from siltstone.object_store.opening import open_store
from siltstone.object_store.retrying import RetryingStore, passing


class Told:
    """A passage with pieces. ``said``: each piece, and each system call that moves bytes, in order."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.said: list[tuple[str, int]] = []
        self.whole = 0
        for name in ("pread", "pwritev", "copy_file_range"):
            self._watch(patch, name)

    def _watch(self, patch: pytest.MonkeyPatch, name: str) -> None:
        call = getattr(os, name)

        def watched(*given):
            result = call(*given)
            count = result if isinstance(result, int) else len(result)
            if count:
                self.said.append((name, count))
            return result

        patch.setattr(os, name, watched)

    @property
    def pieces(self) -> "Told":
        return self

    def read(self, size_bytes: int) -> None:
        self.whole += size_bytes

    write = copy = read

    def passes(self, what: Piece, size_bytes: int) -> None:
        self.said.append((what.value, size_bytes))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> RetryingStore:
    return open_store(tmp_path.as_uri())


SIZE = 2 * MIB + 300 * KIB
PASSED = [MIB, MIB, 300 * KIB]


def test_a_read_stops_before_each_piece(store: RetryingStore, told: Told) -> None:
    content = os.urandom(SIZE)
    store.put("a", [content])
    told.said.clear()
    assert passing(store, told).get_range("a", 0, SIZE) == content
    assert told.said == [each for size in PASSED for each in (("read", size), ("pread", size))]
    assert told.whole == SIZE


@pytest.mark.parametrize("is_part", [False, True])
def test_a_write_stops_before_each_piece(is_part: bool, store: RetryingStore, told: Told) -> None:
    content = os.urandom(SIZE)
    paced = passing(store, told)
    if is_part:
        upload = paced.start_multipart("a")
        paced.complete_multipart(upload, [paced.upload_part(upload, 1, 0, [content])])
    else:
        paced.put("a", [content])
    assert told.said == [each for size in PASSED for each in (("written", size), ("pwritev", size))]
    assert store.get_range("a", 0, SIZE) == content


def test_a_copy_stops_before_each_piece(store: RetryingStore, told: Told) -> None:
    store.put("a", [bytes(SIZE)])
    paced = passing(store, told)
    upload = paced.start_multipart("b")
    told.said.clear()
    paced.copy_part(upload, 1, 0, "a", 0, SIZE)
    assert told.said == [("copied", SIZE), ("copy_file_range", SIZE)], "synced by 16 MiB"


def test_outside_of_the_block_nothing_waits(told: Told) -> None:
    with in_pieces(told):
        assert is_in_pieces()
        with in_pieces(None):
            piece_passes(Piece.READ, 1)
        piece_passes(Piece.READ, 2)
    piece_passes(Piece.READ, 4)
    assert not is_in_pieces()
    assert told.said == [("read", 2)]
