"""How the requests of a store are counted or held."""

import os
from pathlib import Path

import pytest

from siltstone.model.limits import KIB, MIB
from siltstone.object_store.bandwidth.limiter import Limiter
from siltstone.object_store.bandwidth.passage import UNCOUNTED, Piece, in_pieces, is_in_pieces, piece_passes
from siltstone.object_store.bandwidth.turns import BandwidthSettings, Direction, Grade
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.opening import open_store
from siltstone.object_store.retrying import RetryingStore, passing
from siltstone.runtime.clock import ManualClock


class Noting:
    pieces = None

    def __init__(self) -> None:
        self.said: list[tuple[str, int]] = []

    def read(self, size_bytes: int) -> None:
        self.said.append(("read", size_bytes))

    def write(self, size_bytes: int) -> None:
        self.said.append(("write", size_bytes))

    def copy(self, size_bytes: int) -> None:
        self.said.append(("copy", size_bytes))


def use(store) -> None:
    store.put("a", [b"12345"])
    store.put_if_absent("b", [b"1234"])
    assert store.get_range("a", 1, 4) == b"234"
    upload = store.start_multipart("c")
    parts = [store.upload_part(upload, 1, 0, [b"123"]), store.copy_part(upload, 2, 3, "a", 0, 2)]
    store.complete_multipart(upload, parts)
    assert store.head("c").size_bytes == 5
    assert [each.key for each in store.list()] == ["a", "b", "c"]
    store.abort_multipart(store.start_multipart("d"))
    assert not [*store.list_multipart()]
    store.delete(["a", "b", "c"])


SAID = [("write", 5), ("write", 4), ("read", 3), ("write", 3), ("copy", 2)]


def test_every_request_that_moves_bytes_passes_whatever_the_adapter(tmp_path: Path) -> None:
    for store in (open_store(tmp_path.as_uri()), open_store("memory:passing")):
        passage = Noting()
        use(passing(store, passage))
        assert passage.said == SAID
        assert passing(store, passage).url == store.url


def test_the_buckets_count_what_goes_to_and_from_them(tmp_path: Path) -> None:
    """Bytes to a bucket that is opened later count, too. They are never held, however low the limit is."""
    limiter = Limiter(BandwidthSettings(1, 1), ManualClock())
    buckets = Buckets.open({0: tmp_path.as_uri()}, limiter=limiter)
    use(buckets.store(0))
    counts = limiter.statistics()
    assert counts.of(Direction.OUT, Grade.UPLOAD).size_bytes == 12
    assert counts.of(Direction.IN, Grade.UPLOAD).size_bytes == 3
    use(passing(buckets.store(0), UNCOUNTED))
    assert limiter.statistics() == counts
    buckets.close()


def test_another_passage_shares_counts_and_breaker_with_the_store(tmp_path: Path) -> None:
    store = open_store(tmp_path.as_uri())
    other = store.passing(UNCOUNTED)
    other.put("a", [b"1"])
    assert isinstance(other, RetryingStore)
    assert store.statistics().requests_of("put") == 1 and other.breaker is store.breaker


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
