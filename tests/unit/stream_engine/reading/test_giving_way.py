"""Catch-up reads give way to appends."""

import asyncio

from siltstone.foundation.histogram import HistogramCounts
from siltstone.model.limits import CATCH_UP_BYTES_PER_SECOND_MIN, MIB
from siltstone.object_store.bandwidth.limiter import no_limit
from siltstone.object_store.bandwidth.turns import Direction, Grade
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.reading.giving_way import NO_LIMIT, WINDOW_MS, GivingWay, give_way
from support.engine.committed_world import settle

WINDOWS_A_SECOND = 1000 // WINDOW_MS


class Machine:
    """A machine on which appends take 5 ms, and one more for each 10 MiB/s of catch-up reads."""

    def __init__(self) -> None:
        self.giving = GivingWay()
        self.wanted = 200 * MIB

    def append_seconds(self, passing: float) -> float:
        return 0.005 + 0.001 * passing / (10 * MIB)

    def second(self, appends: int = 100, reads: bool = True) -> float:
        """Lets a second pass; returns the rate of the catch-up reads in its last window."""
        for _ in range(WINDOWS_A_SECOND):
            limit = self.giving.bytes_per_second
            passing = min(self.wanted, limit or self.wanted) if reads else 0
            self.giving.window(
                appends, appends * self.append_seconds(passing), int(passing * WINDOW_MS / 1000)
            )
        return passing


def test_a_reader_is_slowed_down_until_appends_take_hardly_longer_than_by_themselves() -> None:
    of = Machine()
    of.second(reads=False)
    of.second(reads=False)
    rates = [of.second() for _ in range(20)]
    assert rates[0] < of.wanted / 4
    took = [of.append_seconds(rate) for rate in rates[4:]]
    assert sum(took) / len(took) <= 2 * of.append_seconds(0) and max(took) <= 2.2 * of.append_seconds(0)
    assert min(rates) >= CATCH_UP_BYTES_PER_SECOND_MIN
    assert max(rates[4:]) >= 30 * MIB, "and not slowed down more than is needed"


def test_what_appends_take_by_themselves_is_learnt_beside_a_reader_as_well() -> None:
    of = Machine()
    rates = [of.second() for _ in range(20)]
    assert rates[0] == of.wanted, "nothing to compare with: it is always so slow"
    of.wanted = 20 * MIB
    of.second()
    of.wanted = 200 * MIB
    assert [of.second() for _ in range(5)][-1] < 150 * MIB


def test_without_appends_or_without_reads_there_is_no_limit() -> None:
    of = Machine()
    of.second(reads=False)
    of.second()
    assert of.giving.bytes_per_second != NO_LIMIT
    of.second(appends=0)
    assert of.giving.bytes_per_second == NO_LIMIT
    of.second()
    of.second(reads=False)
    assert of.giving.bytes_per_second != NO_LIMIT, "a short pause is not the end"
    of.second(reads=False)
    assert of.giving.bytes_per_second == NO_LIMIT


def test_a_reader_never_gets_less_than_the_minimum_whatever_slows_appends_down() -> None:
    giving = GivingWay(1000)
    for _ in range(8):
        giving.window(10, 0.05, 0)
    for _ in range(100):
        giving.window(10, 10.0, 1)
    assert giving.bytes_per_second == 1000


def test_a_machine_that_is_slow_by_itself_does_not_slow_readers_down() -> None:
    giving = GivingWay()
    for number in range(200):
        giving.window(10, 0.05 if number % 2 else 0.07, MIB)
    assert giving.bytes_per_second == NO_LIMIT


def test_the_limit_is_set_after_each_window() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        catch_up = no_limit(clock)
        appends = HistogramCounts()

        def answered(count: int, seconds: float) -> None:
            nonlocal appends
            appends = HistogramCounts(
                counts=(appends.count + count, *[0] * 14), total=appends.total + seconds
            )

        task = asyncio.ensure_future(give_way(catch_up, lambda: appends, clock, GivingWay()))
        for _ in range(8):
            await settle()
            answered(10, 0.05)
            clock.advance_ms(WINDOW_MS)
        await settle()
        assert not catch_up.is_limited(Direction.IN)
        answered(10, 5.0)
        catch_up.try_pass(Direction.IN, Grade.CATCH_UP_READ, 100 * MIB)
        clock.advance_ms(WINDOW_MS)
        await settle()
        limit = catch_up.statistics().bytes_per_second[Direction.IN]
        assert limit == 100 * MIB * 1000 // WINDOW_MS // 2
        task.cancel()

    asyncio.run(scenario())
