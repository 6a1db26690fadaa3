from array import array

import pytest

from siltstone.model.buffers import is_buffer, split, total_bytes
from support.processes.case_names import name_of


def test_total_bytes_counts_every_kind():
    assert total_bytes([b"abc", bytearray(5), memoryview(b"1234")[1:]]) == 11
    assert total_bytes([]) == 0


@pytest.mark.parametrize("size_bytes", range(10))
def test_split_gives_the_first_bytes_and_the_rest(size_bytes):
    buffers = [b"ab", b"", bytearray(b"cde"), memoryview(b"xfgh")[1:]]
    before, rest = split(buffers, size_bytes)
    assert (b"".join(before), b"".join(rest)) == (b"abcdefgh"[:size_bytes], b"abcdefgh"[size_bytes:])


@pytest.mark.parametrize("value", [b"", bytearray(2), memoryview(b"abc"), memoryview(bytearray(3))[1:]])
def test_what_has_as_many_bytes_as_it_is_long_is_a_buffer(value):
    assert is_buffer(value)


@pytest.mark.parametrize(
    "value",
    ["text", 3, None, [1], array("b", [1]), memoryview(array("i", [1, 2])), memoryview(b"abcd")[::2]],
    ids=name_of,
)
def test_what_has_not_is_none(value):
    assert not is_buffer(value)
