"""Collects and renders a scrape without holding the event loop, at most once a second.

The sources of metrics are asked one after another; each yields its series and lets other tasks run in between. Scrapes
that arrive together share one, and its text is kept for a second: many monitoring systems, or a page that is reloaded,
cost no more than one. A scrape has at most SCRAPE_SERIES_MAX series; what is beyond is counted, never silently dropped.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from siltstone.model.limits import SECOND_MS
from siltstone.model.serving_limits import SCRAPE_SERIES_MAX
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup
from siltstone.runtime.turns import let_others_run
from siltstone.server.admin.exposition import MetricFamily, Series, TextFormat, Value, lines_of
from siltstone.server.admin.families import FAMILIES, SERIES_DROPPED

KEPT_MS = 1 * SECOND_MS
TURN_MS = 0.2
"""How long a scrape works before other tasks have their turn. A Produce takes some six turns of the event loop, so one
that comes during a scrape takes a millisecond longer (OB12); with turns of 1 ms it took five."""

LINES_PER_LOOK = 50
"""How many lines are made between two looks at the clock: about 50 µs."""


class Collected:
    """The series of one scrape, by family in the order of the table."""

    def __init__(self) -> None:
        self.series: dict[MetricFamily, list[Series]] = {family: [] for family in FAMILIES.values()}
        self.count = 0
        self.dropped = 0

    def add(self, name: str, value: Value, *labels: str) -> None:
        """``name`` is one of FAMILIES."""
        series = Series(labels, value)
        if (
            self.count + series.line_count > SCRAPE_SERIES_MAX - 1
        ):  # one is left for the number of those dropped
            self.dropped += series.line_count
            return
        self.count += series.line_count
        self.series[FAMILIES[name]].append(series)


class MetricSource(Protocol):
    def collect(self, collected: Collected) -> AsyncIterator[None]:
        """Adds series, and yields often: after some 50 µs of work."""
        ...


class Scrapes:
    """``sources`` returns the sources as of now."""

    def __init__(self, sources: Callable[[], Sequence[MetricSource]], clock: Clock) -> None:
        self._sources = sources
        self._clock = clock
        self._tasks = TaskGroup("scrape", lambda _: None)
        self._under_way: dict[TextFormat, asyncio.Future[bytes]] = {}
        self._texts: dict[TextFormat, tuple[float, bytes]] = {}

    async def text(self, text_format: TextFormat) -> bytes:
        """Returns the scrape in a format, at most KEPT_MS old."""
        made_ms, text = self._texts.get(text_format, (None, b""))
        if made_ms is not None and self._clock.monotonic_ms() - made_ms < KEPT_MS:
            return text
        under_way = self._under_way.get(text_format)
        if under_way is None:
            under_way = self._under_way[text_format] = asyncio.get_running_loop().create_future()
            task = self._tasks.start("collect", self._make(text_format, under_way))
            task.add_done_callback(lambda _: self._ended(text_format, under_way))
        return await asyncio.shield(under_way)

    async def close(self) -> None:
        await self._tasks.cancel()

    def _ended(self, text_format: TextFormat, under_way: "asyncio.Future[bytes]") -> None:
        del self._under_way[text_format]
        under_way.cancel()  # without effect on one that is done

    async def _make(self, text_format: TextFormat, made: "asyncio.Future[bytes]") -> None:
        try:
            text = await self._collected_text(text_format)
        except Exception as failure:
            made.set_exception(failure)
            made.exception()  # the exception is marked as seen, since perhaps no caller waits for it any more
            return
        self._texts[text_format] = (self._clock.monotonic_ms(), text)
        made.set_result(text)

    async def collect(self) -> Collected:
        """Asks the sources now, whatever was kept."""
        collected, pace = Collected(), ScrapePace(self._clock)
        for source in self._sources():
            async for _ in source.collect(collected):
                await pace.go_on()
        collected.count = 0  # the place that was left for it
        collected.add(SERIES_DROPPED, collected.dropped)
        return collected

    async def _collected_text(self, text_format: TextFormat) -> bytes:
        collected, pace = await self.collect(), ScrapePace(self._clock)
        lines = lines_of(text_format, collected.series)
        parts: list[bytes] = []
        while part := _next_lines(lines):
            parts.append(part)
            await pace.go_on()
        return b"".join(parts)


class ScrapePace:
    """Lets other tasks run after every TURN_MS of work."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn_ms = clock.monotonic_ms()

    async def go_on(self) -> None:
        if self._clock.monotonic_ms() - self._turn_ms >= TURN_MS:
            await let_others_run()
            self._turn_ms = self._clock.monotonic_ms()


def _next_lines(lines: Iterator[str]) -> bytes:
    return "".join(islice(lines, LINES_PER_LOOK)).encode()
