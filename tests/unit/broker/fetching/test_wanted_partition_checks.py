import pytest

from siltstone.broker.fetching.wanted import (
    FoundPartition,
    WantedPartition,
    check_partition,
    leader_epoch_error,
    offset_error,
)
from siltstone.broker.partitions.leader_epochs import EpochEnd, epoch_end
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.metadata.entities import OwnerRange
from support.values.left_out import numbers_left_out


class FakePartition:
    """Epoch 2: [10, 20), epoch 5, the current one: [20, 30)."""

    leader_epoch = 5
    log_start_offset = 10
    high_watermark = 30
    last_stable_offset = 25

    def epoch_end(self, asked: int) -> EpochEnd:
        return epoch_end([OwnerRange(1, 2, 10, 20), OwnerRange(1, 5, 20, 20)], 5, 30, asked)


def wanted(offset: int, current_epoch: int = -1, last_epoch: int = -1) -> WantedPartition:
    return WantedPartition(None, "t", b"", 0, offset, 1_000, current_epoch, last_epoch, -1)


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, ErrorCode.NONE),
        (5, ErrorCode.NONE),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_item_19_the_epoch_a_client_believes_in(epoch, error):
    assert leader_epoch_error(FakePartition().leader_epoch, epoch) is error
    row = check_partition(wanted(99, current_epoch=epoch), FakePartition())
    assert row.error is (error if error is not ErrorCode.NONE else ErrorCode.OFFSET_OUT_OF_RANGE)
    assert row.leader_epoch == 5


@pytest.mark.parametrize(
    ("offset", "is_within"), [(9, False), (10, True), (29, True), (30, True), (31, False), (-1, False)]
)
def test_item_27_offsets_within_the_log(offset, is_within):
    error = ErrorCode.NONE if is_within else ErrorCode.OFFSET_OUT_OF_RANGE
    assert offset_error(FakePartition(), offset) is error
    row = check_partition(wanted(offset), FakePartition())
    assert (row.error, row.high_watermark, row.log_start_offset) == (error, 30, 10)
    assert row.last_stable_offset == 25


@pytest.mark.parametrize(
    ("offset", "last_epoch", "error", "diverging"),
    [
        (15, 2, ErrorCode.NONE, None),
        (20, 2, ErrorCode.NONE, None),
        (21, 2, ErrorCode.NONE, EpochEnd(2, 20)),
        (25, 5, ErrorCode.NONE, None),
        (30, 5, ErrorCode.NONE, None),
        (31, 5, ErrorCode.NONE, EpochEnd(5, 30)),
        (15, 3, ErrorCode.NONE, EpochEnd(2, 20)),  # there was no such epoch
        (15, 6, ErrorCode.OFFSET_OUT_OF_RANGE, None),  # nor will there be
        (9, 2, ErrorCode.OFFSET_OUT_OF_RANGE, None),
        (9, 6, ErrorCode.OFFSET_OUT_OF_RANGE, None),
        (9, 3, ErrorCode.OFFSET_OUT_OF_RANGE, None),
    ],
)
def test_where_the_epoch_of_what_was_read_last_ended(offset, last_epoch, error, diverging):
    row = check_partition(wanted(offset, last_epoch=last_epoch), FakePartition())
    assert (row.error, row.diverging) == (error, diverging)
    assert (row.high_watermark, row.log_start_offset) == (30, 10)
    assert row.ends_the_wait == (error is not ErrorCode.NONE or diverging is not None)


def test_what_is_left_out() -> None:
    assert (
        numbers_left_out(FoundPartition).items()
        >= {
            "high_watermark": -1,
            "last_stable_offset": -1,
            "log_start_offset": -1,
            "leader_epoch": -1,
            "size_bytes": 0,
        }.items()
    )


def test_the_first_epoch_is_checked_like_any_other() -> None:
    """0 is an epoch; only what is below it is left unchecked."""
    row = check_partition(wanted(25, last_epoch=0), FakePartition())
    assert row.diverging == EpochEnd(0, 10)
    assert check_partition(wanted(10, last_epoch=2), FakePartition()).diverging is None


def test_a_row_with_the_epoch_of_the_future_is_fenced_with_nothing_else() -> None:
    row = check_partition(wanted(15, current_epoch=4), FakePartition())
    assert (row.high_watermark, row.log_start_offset, row.leader_epoch) == (-1, -1, 5)
