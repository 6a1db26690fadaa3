import pytest

from siltstone.maintenance.key_compaction.passes.time_limit import PassTimeLimit, RanLate
from siltstone.maintenance.key_compaction.task import compact_keys
from siltstone.record_columns.kernels import plain
from siltstone.runtime.clock import ManualClock
from support.maintenance.compacted_stream import CompactedStream, in_batches, numbered_keys


def test_the_first_scan_has_a_third_of_the_time() -> None:
    clock = ManualClock()
    limit = PassTimeLimit(clock, 300)
    clock.advance_ms(100)
    limit.check_first_scan(7)
    clock.advance_ms(1)
    with pytest.raises(RanLate) as late:
        limit.check_first_scan(7)
    assert late.value.mapped_offset == 7
    clock.advance_ms(199)
    limit.check_second_scan(9)
    clock.advance_ms(1)
    with pytest.raises(RanLate):
        limit.check_second_scan(9)


def test_zero_is_no_limit() -> None:
    clock = ManualClock()
    limit = PassTimeLimit(clock, 0)
    clock.advance_ms(10**9)
    limit.check_first_scan(0)
    limit.check_second_scan(0)


class TickingClock(ManualClock):
    """A millisecond passes with each look at it, and a second with the look ``stops_at``."""

    def __init__(self, stops_at: int = 0) -> None:
        super().__init__()
        self._stops_at = stops_at
        self._looks = 0

    def monotonic_ms(self) -> float:
        self._looks += 1
        self.advance_ms(1_000 if self._looks == self._stops_at else 1)
        return super().monotonic_ms()


@pytest.mark.parametrize(
    ("pass_ms_max", "stops_at", "mapped"),
    [(2, 0, 0), (30, 0, 40), (75, 0, 100), (900, 20, 72), (900, 32, 100)],
)
def test_a_task_that_runs_late_says_how_far_it_came_and_writes_nothing(
    pass_ms_max: int, stops_at: int, mapped: int
) -> None:
    """The clock is looked at twice for each block of two batches of the first scan, and once in the second scan."""
    stream = CompactedStream()
    in_batches(stream, numbered_keys(100, 10), 4)
    unit = stream.unit(pass_ms_max=pass_ms_max)
    before = [*stream.store.list()]
    result = compact_keys(unit, plain, TickingClock(stops_at))
    assert result.ran_late and result.objects == () and result.failure is None
    assert result.mapped_offset == mapped
    assert [*stream.store.list()] == before


def test_a_task_in_time_writes_what_it_writes_without_a_limit() -> None:
    stream = CompactedStream()
    in_batches(stream, numbered_keys(100, 10), 4)
    free = compact_keys(stream.unit(), plain)
    timed = compact_keys(stream.unit(pass_ms_max=100_000), plain, TickingClock())
    assert timed.objects[0].size_bytes == free.objects[0].size_bytes
    assert (timed.records_kept, timed.cleaned_offset) == (free.records_kept, free.cleaned_offset)
