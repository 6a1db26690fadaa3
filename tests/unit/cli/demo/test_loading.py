"""Loading, measuring and reading back, on invented flights."""

import asyncio
from pathlib import Path

from siltstone.cli.demo.figures import measure
from siltstone.cli.demo.flights import Flight, batches_of
from siltstone.cli.demo.loading import LoadReport, load
from siltstone.cli.demo.thresholds import write_settings
from siltstone.cli.demo.verifying import verify
from siltstone.runtime.clock import SystemClock
from siltstone.server.settings import StoreSettings
from support.flights import flight_line, flights


def year() -> list[Flight]:
    lines = [
        flight_line(day, hour, minute, carrier)
        for day in range(1, 29) for hour in range(24) for minute in (0, 20, 40) for carrier in ("AA", "UA")
    ]  # fmt: skip
    return flights(*lines)


def loaded(folder: Path, data: list[Flight]) -> tuple[StoreSettings, LoadReport, list[tuple[int, int]]]:
    batches = list(batches_of(data))
    settings = write_settings(folder, batches)
    told: list[tuple[int, int]] = []
    report = asyncio.run(
        load(settings, batches, SystemClock(), lambda done, total: told.append((done, total)))
    )
    assert report.appends == len(batches)
    return settings, report, told


def test_every_batch_is_appended_and_every_record_read_back(tmp_path: Path) -> None:
    data = year()
    settings, report, told = loaded(tmp_path, data)
    assert [str(name) for name in report.streams] == ["AA from EWR", "UA from EWR"]
    assert 1 <= report.syncs <= report.appends
    assert told[-1] == (report.appends, report.appends)
    found = asyncio.run(verify(settings, report.streams, data, lambda *_: None))
    assert (found.records_equal, found.mismatches) == (len(data), [])


def test_a_source_that_differs_is_noticed(tmp_path: Path) -> None:
    data = year()
    settings, report, _ = loaded(tmp_path, data)
    changed = [*data[:-1], flights(flight_line(28, 23, 40, "UA", number=9))[0]]
    found = asyncio.run(verify(settings, report.streams, changed, lambda *_: None))
    assert found.records_equal == len(data) - 1
    (mismatch,) = found.mismatches
    assert (mismatch.expected, mismatch.found) == (changed[-1].line, data[-1].line)


def test_requests_are_counted_from_cold_each_time(tmp_path: Path) -> None:
    settings, report, _ = loaded(tmp_path, year())
    first = asyncio.run(measure(settings, report.streams))
    second = asyncio.run(measure(settings, report.streams))
    assert first.objects == first.stream_set_objects + first.stream_objects >= 10
    for name in report.streams:
        # An index and its blocks: two GETs an object, and no fewer the second time.
        objects = first.holding[name]
        assert objects >= 10
        assert first.requests[name] >= 2 * objects - 2
        assert abs(first.requests[name] - second.requests[name]) <= objects // 4
