"""The demo's own check must not be fooled: it reports every way in which a record can be wrong."""

import msgspec
import pytest

from siltstone.cli.demo.flights import Flight
from siltstone.cli.demo.verifying import Mismatch, Sent, compare, verify
from support.kafka.flights import consumed, flight_line, flights

KEY = ("flights", b"N1")
A, B, C, D, X = (Sent(number, letter) for number, letter in enumerate((b"a", b"b", b"c", b"d", b"x")))
SOURCE = [A, B, C]


def test_what_is_equal_is_equal() -> None:
    assert compare(KEY, SOURCE, [A, B, C]) == []


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ([A, C], [(1, B, C), (2, C, None)]),
        ([A, X, C], [(1, B, X)]),
        ([A, Sent(9, b"b"), C], [(1, B, Sent(9, b"b"))]),
        ([A, B, B, C], [(2, C, B), (3, None, C)]),
        ([A, B, C, D], [(3, None, D)]),
        ([B, A, C], [(0, A, B), (1, B, A)]),
        ([], [(0, A, None), (1, B, None), (2, C, None)]),
    ],
    ids=["lost", "altered", "another time", "twice", "added", "exchanged", "all lost"],
)
def test_what_is_wrong_is_told(found, wrong) -> None:
    assert compare(KEY, SOURCE, found) == [Mismatch("flights", "N1", *each) for each in wrong]


def test_a_mismatch_reads_well() -> None:
    assert str(Mismatch("flights", "N1", 3, Sent(0, b"a"), None)) == (
        "flights, plane N1, record 3: nothing instead of a at 1970-01-01 00:00:00"
    )


@pytest.fixture
def year() -> list[Flight]:
    lines = [flight_line(day, 5, 0, f"N{day % 3}", delay="200" if day == 9 else "2") for day in range(1, 28)]
    return flights(*lines)


def test_order_is_that_of_offsets_however_records_came(year: list[Flight]) -> None:
    found = verify(year, reversed(consumed(year)))
    assert (found.records_equal, found.records_expected, found.mismatches) == (28, 28, [])


def test_a_record_in_the_wrong_topic_or_under_the_wrong_key_is_told(year: list[Flight]) -> None:
    records = consumed(year)
    for change in ({"topic": "late-flights"}, {"key": b"N9"}):
        changed = msgspec.structs.replace(records[0], **change)
        found = verify(year, [changed, *records[1:]])
        assert found.mismatches and found.records_equal < 28
