"""What happens to a partition while others, or itself, are being read; and how much is read at most."""

from itertools import pairwise

import pytest

from siltstone.broker.fetching.gathering import Gathering
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import Unavailable
from siltstone.model.limits import FETCH_READS_SIDE_BY_SIDE
from siltstone.stream_engine.errors import OffsetBeyondEnds
from support.broker.fake_partitions import FakePartition, gathered, sizes_of


def test_the_high_watermark_told_is_not_below_what_is_given():
    partition = FakePartition([10], is_cached=False)
    partition.before_read = lambda: partition.append(20)
    (row,) = gathered([partition])
    assert (sizes_of([row]), row.high_watermark) == ([[10, 20]], 2)


def test_what_nobody_read_is_not_in_the_high_watermark_told():
    """Or nobody would look at it again."""
    cached, other = FakePartition([10]), FakePartition([10], is_cached=False)
    other.before_read = lambda: cached.append(20)
    row, _ = gathered([cached, other])
    assert (sizes_of([row]), row.high_watermark, cached.high_watermark) == ([[10]], 1, 2)


def test_a_trim_between_the_check_and_the_read():
    partition = FakePartition([10, 10], is_cached=False)

    def trim() -> None:
        partition.log_start_offset = 1
        raise OffsetBeyondEnds("trimmed")

    partition.before_read = trim
    (row,) = gathered([partition])
    assert (row.error, row.high_watermark, row.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 2, 1)


def test_a_failure_is_its_partitions_own():
    broken, other = FakePartition([10], is_cached=False), FakePartition([10], is_cached=False)

    def fail() -> None:
        raise Unavailable("no bucket")

    broken.before_read = fail
    found = gathered([broken, other])
    assert [row.error for row in found] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert sizes_of(found) == [[], [10]]


def test_a_partition_that_is_closed_is_unknown():
    partition = FakePartition([10])
    partition.is_closed = True
    (row,) = gathered([partition])
    assert (row.error, row.batches) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ())


@pytest.mark.parametrize("is_cached", [True, False])
def test_at_the_end_nothing_is_read(is_cached):
    ended, other = FakePartition([10], is_cached=is_cached), FakePartition([10], is_cached=False)
    assert sizes_of(gathered([ended, other], [1, 0])) == [[], [10]]
    assert ended.reads == []


@pytest.mark.parametrize("is_cached", [True, False])
def test_when_the_limit_is_reached_nothing_more_is_read(is_cached):
    partitions = [FakePartition([10, 10], is_cached=is_cached) for _ in range(3 * FETCH_READS_SIDE_BY_SIDE)]
    found = gathered(partitions, bytes_max=20)
    assert sum(map(sum, sizes_of(found))) == 20
    assert [len(partition.reads) for partition in partitions[FETCH_READS_SIDE_BY_SIDE:]] == [0] * 16


@pytest.mark.parametrize(
    ("limit", "bytes_max", "groups"),
    [(10, 1_000, [8, 2]), (100, 300, [3, 2, 2, 2, 1]), (100, 299, [2, 2, 2, 2, 2]), (100, 50, [1] * 10)],
)
def test_side_by_side_no_more_is_read_than_may_be_given(limit, bytes_max, groups):
    """Each partition has little, and nobody knows before."""
    ends, order = [0], []
    partitions = [FakePartition([1], is_cached=False) for _ in range(10)]
    for partition in partitions:
        partition.before_read = lambda: order.append(None)
    real = Gathering._taken

    def noted(self, *each):
        if order:
            ends.append(ends[-1] + len(order))
            order.clear()
        return real(self, *each)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gathering, "_taken", noted)
        assert sizes_of(gathered(partitions, limit=limit, bytes_max=bytes_max)) == [[1]] * 10
    assert [end - start for start, end in pairwise(ends)] == groups


def test_partitions_without_news_take_nothing_from_the_others():
    partitions = [FakePartition([1], is_cached=False) for _ in range(8)]
    offsets = [0, 1, 1, 1, 1, 1, 1, 0]
    together = []
    for partition in partitions:
        partition.before_read = lambda: together.append(len(partitions[7].reads))
    gathered(partitions, offsets, limit=100, bytes_max=200)
    assert together == [0, 0]


def test_the_first_batch_is_given_however_large():
    partitions = [FakePartition([100, 100], is_cached=False) for _ in range(4)]
    assert sizes_of(gathered(partitions, bytes_max=1)) == [[100], [], [], []]
    assert sizes_of(gathered(partitions, bytes_max=350)) == [[100, 100], [100], [], []]
