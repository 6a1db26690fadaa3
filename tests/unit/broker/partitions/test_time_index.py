import pytest

from siltstone.broker.partitions.time_index import TimeIndex
from siltstone.object_formats.partition_snapshot import NOTHING_NEWEST, TimeEntry, TimeIndexState
from support.values.left_out import numbers_left_out

BATCH_BYTES = 10


def index_of(*timestamps_ms: int, interval_bytes: int = BATCH_BYTES, entries_max: int = 100) -> TimeIndex:
    """One record a batch, and an entry for each batch unless said otherwise."""
    index = TimeIndex(TimeIndexState(interval_bytes=interval_bytes), entries_max)
    for offset, timestamp_ms in enumerate(timestamps_ms):
        index.appended(timestamp_ms, offset, offset + 1, BATCH_BYTES)
    return index


def entries_of(index: TimeIndex) -> list[tuple[int, int]]:
    return [(entry.timestamp_ms, entry.offset) for entry in index.state.entries]


def test_an_entry_tells_the_largest_time_of_all_before_it():
    assert entries_of(index_of(5, 9, 7, 12)) == [(5, 1), (9, 3), (12, 4)]


@pytest.mark.parametrize(
    ("target", "offset"), [(0, 0), (5, 0), (6, 1), (9, 1), (10, 3), (12, 3), (13, 4), (99, 4)]
)
def test_scanning_begins_behind_what_is_too_old_for_certain(target, offset):
    assert index_of(5, 9, 7, 12).scan_from(target) == offset


def test_nothing_is_known_of_an_empty_partition():
    index = TimeIndex()
    assert index.scan_from(0) == index.scan_from(10**15) == 0
    assert index.newest == NOTHING_NEWEST


def test_an_entry_comes_when_so_many_bytes_have():
    assert entries_of(index_of(1, 2, 3, 4, 5, interval_bytes=2 * BATCH_BYTES)) == [(2, 2), (4, 4)]
    assert entries_of(index_of(1, 2, 3, 4, interval_bytes=2 * BATCH_BYTES + 1)) == [(3, 3)]


def test_records_without_a_time_do_not_hide_others():
    index = index_of(-1, -1, 7, -1)
    assert entries_of(index) == [(-1, 2), (7, 4)]
    assert index.scan_from(0) == 2
    assert index.newest == TimeEntry(7, 2)


def test_the_newest_is_the_first_of_the_largest():
    assert index_of(3, 8, 8, 2).newest == TimeEntry(8, 1)


def test_every_second_entry_goes_when_there_are_too_many():
    index = index_of(*range(9), entries_max=8)
    assert entries_of(index) == [(time, time + 1) for time in (1, 3, 5, 7)]
    assert index.state.interval_bytes == 2 * BATCH_BYTES
    index.appended(9, 9, 10, BATCH_BYTES)
    index.appended(10, 10, 11, BATCH_BYTES)
    assert entries_of(index)[-1] == (10, 11)


def test_a_long_life_has_a_bounded_index():
    index = index_of(*range(1_000), entries_max=10)
    assert len(index.state.entries) <= 10
    assert index.state.interval_bytes >= 64 * BATCH_BYTES
    assert all(offset == time + 1 for time, offset in entries_of(index))


def test_what_tells_of_trimmed_records_only_is_forgotten():
    index = index_of(1, 2, 3, 4)
    index.trim(2)
    assert entries_of(index) == [(3, 3), (4, 4)]
    index.trim(0)
    assert entries_of(index) == [(3, 3), (4, 4)]
    assert index.scan_from(4) == 3


def test_after_the_newest_is_renewed_entries_still_grow():
    index = index_of(50, 10)
    index.renew_newest(TimeEntry(10, 1))
    index.appended(20, 2, 3, BATCH_BYTES)
    assert index.newest == TimeEntry(20, 2)
    assert entries_of(index) == [(50, 3)]
    index.trim(3)
    index.appended(30, 3, 4, BATCH_BYTES)
    assert entries_of(index) == [(30, 4)]


def test_all_of_it_can_be_written_down():
    index = index_of(4, 2, 9, 9, 1, interval_bytes=2 * BATCH_BYTES)
    again = TimeIndex(index.state)
    assert again.state == index.state
    assert index.state.bytes_since_entry == BATCH_BYTES
    for each in (index, again):
        each.appended(11, 5, 6, BATCH_BYTES)
    assert again.state == index.state


def test_what_is_left_out() -> None:
    assert numbers_left_out(TimeIndexState).items() >= {"bytes_since_entry": 0}.items()
