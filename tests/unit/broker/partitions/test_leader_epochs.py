import pytest

from siltstone.broker.partitions.leader_epochs import EpochEnd, epoch_end, epoch_of
from siltstone.metadata.entities import OwnerRange


def ranges(*rows: tuple[int, int, int]) -> list[OwnerRange]:
    return [OwnerRange(7, epoch, start, end) for epoch, start, end in rows]


PAST = ranges((1, 0, 10), (3, 10, 20), (6, 20, 20))
"""Epochs 2, 4 and 5 had no records; 6 is the current one, of which nothing is committed yet."""


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (-5, (-1, -1)),
        (0, (0, 0)),
        (1, (1, 10)),
        (2, (1, 10)),
        (3, (3, 20)),
        (4, (3, 20)),
        (5, (3, 20)),
        (6, (6, 25)),
        (7, (-1, -1)),
    ],
)
def test_item_20_where_an_epoch_ended(asked, answer):
    assert epoch_end(PAST, 6, 25, asked) == EpochEnd(*answer)


def test_item_20_an_epoch_that_is_trimmed_away_ended_where_the_oldest_begins():
    assert epoch_end(ranges((3, 15, 20), (6, 20, 20)), 6, 25, 1) == EpochEnd(1, 15)


@pytest.mark.parametrize(
    ("offset", "epoch"), [(0, 1), (9, 1), (10, 3), (19, 3), (20, 6), (24, 6), (25, 6), (30, 6)]
)
def test_the_epoch_of_an_offset(offset, epoch):
    assert epoch_of(PAST, 6, 25, offset) == epoch


def test_a_partition_of_which_nothing_is_known_has_one_epoch():
    assert epoch_of((), 2, 0, 0) == 2
    assert epoch_end((), 2, 0, 1) == EpochEnd(1, 0)
    assert epoch_end((), 2, 5, 2) == EpochEnd(2, 5)


def test_an_offset_before_all_that_is_known_is_of_the_oldest_epoch():
    assert epoch_of(ranges((3, 15, 20), (6, 20, 20)), 6, 25, 3) == 3


def test_the_current_epoch_begins_where_its_first_record_is():
    """A node that opened the stream again under the same epoch has two ranges of it."""
    known = ranges((3, 15, 20), (6, 20, 22), (6, 22, 25))
    assert [epoch_of(known, 6, 30, offset) for offset in (19, 20, 22, 29)] == [3, 6, 6, 6]
    assert epoch_end(known, 6, 30, 5) == EpochEnd(3, 20)
