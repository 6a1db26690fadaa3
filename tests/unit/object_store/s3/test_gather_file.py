from io import SEEK_CUR, SEEK_END

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.object_store.s3.gather_file import JOINED_BYTES_MAX, GatherFile, body_of

BUFFERS = [b"", b"abc", b"", memoryview(b"defg"), bytearray(b"h"), b""]


@given(st.lists(st.binary(max_size=9), max_size=6), st.integers(1, 12))
def test_reads_of_any_size_give_all_bytes_in_order(buffers: list[bytes], size: int) -> None:
    file = GatherFile(buffers)
    pieces = list(iter(lambda: bytes(file.read(size)), b""))

    assert b"".join(pieces) == b"".join(buffers)
    assert all(len(piece) <= size for piece in pieces)
    assert file.tell() == len(file)
    assert file.read(size) == b""


@given(st.lists(st.binary(max_size=9), max_size=6), st.integers(0, 60))
def test_a_file_can_be_read_again_from_anywhere(buffers: list[bytes], position: int) -> None:
    file = GatherFile(buffers)
    whole = b"".join(buffers)
    file.read(5)

    assert file.seek(position) == min(position, len(whole)) == file.tell()
    assert file.read() == whole[position:]


def test_seeking_from_the_end_and_from_here() -> None:
    file = GatherFile(BUFFERS)

    assert file.seek(0, SEEK_END) == 8
    assert file.seek(-3, SEEK_CUR) == 5
    assert file.read(None) == b"fgh"


def test_pieces_are_views_and_not_copies() -> None:
    large = bytearray(1_000)
    piece = GatherFile([large]).read(100)
    large[0] = 7

    assert isinstance(piece, memoryview)
    assert piece[0] == 7


def test_small_buffers_are_read_together_and_a_large_one_by_itself() -> None:
    """The log of a node in the bucket has two buffers for each record, and each read becomes a call of its own."""
    large = bytes(1_000)
    file = GatherFile([b"a" * 10, b"b" * 20, large, b"c" * 5])
    sizes = [len(piece) for piece in iter(lambda: file.read(100), b"")]
    assert sizes == [30, *[100] * 10, 5]


def test_a_small_body_is_sent_at_once_and_a_large_one_is_not_copied() -> None:
    assert body_of([b"ab", memoryview(b"c")]) == b"abc"
    assert body_of([]) == b""
    assert isinstance(body_of([bytes(JOINED_BYTES_MAX)]), bytes)
    assert isinstance(body_of([bytes(JOINED_BYTES_MAX), b"1"]), GatherFile)


@pytest.mark.parametrize(("buffers", "size"), [([], 0), ([b""], 0), (BUFFERS, 8)])
def test_the_length_is_known_and_an_empty_file_is_a_file(buffers: list[bytes], size: int) -> None:
    assert len(GatherFile(buffers)) == size
    assert GatherFile(buffers)
