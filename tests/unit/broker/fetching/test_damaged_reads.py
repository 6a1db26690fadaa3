"""What a fetch does at offsets that cannot be read, with both values of ``siltstone.damaged.read``."""

import pytest

from siltstone.broker.fetching.damaged_reads import DAMAGE_PASSED_PER_FETCH_MAX
from siltstone.broker.partitions.damage import DamageReport, DamageStatistics
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.object_store.port import StoreTransient
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.errors import DamagedRange, ReadRangeNotCovered
from siltstone.topic_configs.table import parse_topic_configs
from support.broker.fake_partitions import FakePartition, ReadsInARow, gathered, sizes_of

SKIP = parse_topic_configs({"siltstone.damaged.read": "skip"})


class DamagedPartition(FakePartition):
    """Twenty batches, of which those of ``damages`` [start, end) cannot be read."""

    def __init__(self, *damages: tuple[int, int], count: int = 20) -> None:
        super().__init__([10] * count, is_cached=False)
        self.damages = list(damages)

    def _read(self, offset, bytes_max):
        found = super()._read(offset, bytes_max)
        for object_id, (start, end) in enumerate(self.damages):
            if start <= offset < end:
                raise DamagedRange(1, offset, end, object_id, 0, "gone")
            if offset < start:
                found = [batch for batch in found if batch.base_offset < start]
        return found


def report() -> DamageReport:
    return DamageReport(ManualClock())


def test_a_fetch_that_begins_at_the_damage_is_refused():
    partition, counted = DamagedPartition((3, 7)), report()
    for offset in (3, 5, 6):
        (row,) = gathered([partition], [offset], report=counted)
        assert (row.error, row.batches) == (ErrorCode.CORRUPT_MESSAGE, ())
    assert sizes_of(gathered([partition], [2], report=counted)) == [[10]]
    assert sizes_of(gathered([partition], [7], report=counted)) == [[10] * 13]
    assert counted.statistics() == DamageStatistics(reads_refused=3)


def test_damage_of_one_partition_is_no_trouble_to_another():
    rows = gathered([DamagedPartition((0, 7)), DamagedPartition()])
    assert [row.error for row in rows] == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]
    assert sizes_of(rows) == [[], [10] * 20]


@pytest.mark.parametrize(
    ("damages", "offset", "first", "skipped"),
    [
        ([(3, 7)], 0, 0, 0),
        ([(3, 7)], 3, 7, 4),
        ([(3, 7)], 5, 7, 2),
        ([(3, 7), (7, 12)], 4, 12, 8),
        ([(0, 1), (1, 2), (2, 19)], 0, 19, 19),
    ],
)
def test_a_topic_that_skips_returns_what_lies_behind(damages, offset, first, skipped, caplog):
    partition, counted = DamagedPartition(*damages), report()
    (row,) = gathered([partition], [offset], config=SKIP, report=counted)
    assert row.error is ErrorCode.NONE
    assert row.batches[0] is partition.batches[first].payload
    assert counted.statistics() == DamageStatistics(reads_continued=int(skipped > 0), offsets_skipped=skipped)
    assert len(caplog.records) == (len(damages) if skipped else 0)


def test_damage_up_to_the_end_leaves_nothing_to_read_and_is_no_error():
    """The fetch then waits for new records, as at the end of the partition."""
    partition, counted = DamagedPartition((15, 20)), report()
    (row,) = gathered([partition], [16], config=SKIP, report=counted)
    assert (row.error, row.batches, row.high_watermark) == (ErrorCode.NONE, (), 20)
    partition.append(10)
    assert sizes_of(gathered([partition], [16], config=SKIP, report=counted)) == [[10]]
    assert counted.statistics() == DamageStatistics(reads_continued=1, offsets_skipped=4)


def test_one_fetch_passes_only_so_many_damages_and_the_next_goes_on():
    count = 2 * DAMAGE_PASSED_PER_FETCH_MAX + 50
    partition = DamagedPartition(*((offset, offset + 1) for offset in range(count)), count=count + 1)
    fetches = ReadsInARow(partition, SKIP)
    assert [fetches.read(0), fetches.read(0)] == [[], []]
    assert len(partition.reads) == 2 * (DAMAGE_PASSED_PER_FETCH_MAX + 1)
    (batch,) = fetches.read(0)
    assert batch.base_offset == count
    partition.damages = []
    assert fetches.read(0)[0].base_offset == 0


def test_what_was_restored_is_read_at_once():
    partition = DamagedPartition((3, 7))
    fetches = ReadsInARow(partition, SKIP)
    assert fetches.read(3)[0].base_offset == 7
    partition.damages = []
    assert fetches.read(3)[0].base_offset == 3


@pytest.mark.parametrize("config", [parse_topic_configs({}), SKIP])
@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        (StoreTransient("SlowDown"), ErrorCode.KAFKA_STORAGE_ERROR),
        (ReadRangeNotCovered("no object holds offset 0"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_trouble_that_may_pass_is_retried_and_never_skipped(config, trouble, code, caplog):
    partition, counted = DamagedPartition(), report()

    def fail() -> None:
        raise trouble

    partition.before_read = fail
    (row,) = gathered([partition], config=config, report=counted)
    assert (row.error, row.batches) == (code, ())
    assert "clients try again" in caplog.text
    assert counted.statistics() == DamageStatistics()


def test_trouble_behind_the_damage_is_retried():
    partition = DamagedPartition((0, 5))

    def fail_behind() -> None:
        if partition.reads:
            raise StoreTransient("SlowDown")

    partition.before_read = fail_behind
    (row,) = gathered([partition], config=SKIP)
    assert row.error is ErrorCode.KAFKA_STORAGE_ERROR
