"""The demo's own check must not be fooled: each way a record can be wrong is told."""

import pytest

from siltstone.cli.demo.flights import StreamName
from siltstone.cli.demo.verifying import Mismatch, compare

NAME = StreamName("UA", "EWR")
SOURCE = [b"a", b"b", b"c"]


def test_what_is_equal_is_equal() -> None:
    assert compare(NAME, SOURCE, [(0, b"a"), (1, b"b"), (2, b"c")]) == []


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ([(0, b"a"), (2, b"c")], [(1, b"b", None)]),
        ([(0, b"a"), (1, b"x"), (2, b"c")], [(1, b"b", b"x")]),
        ([(0, b"a"), (1, b"b"), (1, b"b"), (2, b"c")], [(1, None, b"b")]),
        ([(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")], [(3, None, b"d")]),
        ([(0, b"b"), (1, b"a"), (2, b"c")], [(0, b"a", b"b"), (1, b"b", b"a")]),
        ([], [(0, b"a", None), (1, b"b", None), (2, b"c", None)]),
    ],
    ids=["lost", "altered", "twice", "added", "exchanged", "all lost"],
)
def test_what_is_wrong_is_told(found, wrong) -> None:
    assert compare(NAME, SOURCE, found) == [Mismatch(NAME, *each) for each in wrong]


def test_a_mismatch_reads_well() -> None:
    assert str(Mismatch(NAME, 3, b"a", None)) == "UA from EWR, offset 3: None instead of b'a'"
