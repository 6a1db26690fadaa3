import asyncio
from collections.abc import AsyncIterator

import pytest

from siltstone.foundation.histogram import HistogramCounts
from siltstone.model.serving_limits import SCRAPE_SERIES_MAX
from siltstone.runtime.clock import ManualClock
from siltstone.server.admin.exposition import TextFormat
from siltstone.server.admin.scrape import TURN_MS, Collected, ScrapePace, Scrapes
from support.metrics.scraping import parsed, value_of, values_of
from support.scenarios import in_loop


class FakeSource:
    """Counts how often it is asked; ``gate`` holds it."""

    def __init__(self, series: int = 1) -> None:
        self.asked = 0
        self.series = series
        self.failure: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def collect(self, collected: Collected) -> AsyncIterator[None]:
        self.asked += 1
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        for number in range(self.series):
            collected.add("group_members", self.asked, f"g{number}")
            yield


async def text(scrapes: Scrapes, text_format: TextFormat = TextFormat.PROMETHEUS) -> str:
    return (await scrapes.text(text_format)).decode()


@in_loop
async def test_a_scrape_is_kept_for_a_second() -> None:
    clock, source = ManualClock(), FakeSource()
    scrapes = Scrapes(lambda: [source], clock)
    first = await text(scrapes)
    clock.advance_ms(999)
    assert await text(scrapes) == first and source.asked == 1
    clock.advance_ms(1)
    assert (
        value_of(parsed(await text(scrapes), TextFormat.PROMETHEUS), "siltstone_group_members", group="g0")
        == 2
    )


@in_loop
async def test_scrapes_that_arrive_together_share_one() -> None:
    source = FakeSource()
    scrapes = Scrapes(lambda: [source], ManualClock())
    source.gate.clear()
    asked = [asyncio.ensure_future(text(scrapes)) for _ in range(5)]
    await asyncio.sleep(0)
    asked[0].cancel()  # a client that goes away takes nothing from the others
    source.gate.set()
    texts = await asyncio.gather(*asked[1:])
    assert source.asked == 1 and len(set(texts)) == 1


@in_loop
async def test_a_failure_is_told_and_the_next_scrape_tries_again() -> None:
    source = FakeSource()
    scrapes = Scrapes(lambda: [source], ManualClock())
    source.failure = ValueError("a bug")
    with pytest.raises(ValueError, match="a bug"):
        await text(scrapes)
    source.failure = None
    assert "siltstone_group_members" in await text(scrapes)


@pytest.mark.parametrize("text_format", TextFormat)
@in_loop
async def test_ob03_there_are_never_more_series_than_the_limit_and_the_rest_is_counted(
    text_format: TextFormat,
) -> None:
    source = FakeSource(SCRAPE_SERIES_MAX + 100)
    scrape = parsed(await text(Scrapes(lambda: [source], ManualClock()), text_format), text_format)
    assert len(scrape) == SCRAPE_SERIES_MAX
    assert value_of(scrape, "siltstone_scrape_series_dropped") == 101
    assert len(values_of(scrape, "siltstone_group_members")) == SCRAPE_SERIES_MAX - 1


def test_a_histogram_counts_as_many_series_as_it_has_lines():
    collected = Collected()
    collected.add("append_seconds", HistogramCounts())
    assert collected.count == 17


@in_loop
async def test_closing_ends_a_scrape_that_is_under_way() -> None:
    source = FakeSource()
    scrapes = Scrapes(lambda: [source], ManualClock())
    source.gate.clear()
    asked = asyncio.ensure_future(text(scrapes))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await scrapes.close()
    with pytest.raises(asyncio.CancelledError):
        await asked


def test_others_run_after_every_turn():
    async def main():
        clock, turns = ManualClock(), 0

        async def others():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(others())
        pace = ScrapePace(clock)
        for _ in range(10):
            clock.block_ms(TURN_MS / 2)
            await pace.go_on()
        task.cancel()
        assert turns == 5

    asyncio.run(main())
