"""How long an opening may last before requests are said to wait, and how often it is logged."""

import asyncio

import pytest

from siltstone.broker.partitions.opening_watch import (
    OPENING_LOOK_INTERVAL_MS,
    SILENT_MS_MAX,
    SLOW_MS_MAX,
    OpeningWatch,
    opening_trouble,
)
from siltstone.runtime.clock import ManualClock
from support.engine.engine_world import settled
from support.scenarios import in_loop

URL = "s3://bucket/"


@pytest.mark.parametrize(
    ("partitions", "lasting_ms", "silent", "words"),
    [
        (0, 10 * SLOW_MS_MAX, [URL], ""),
        (1, SILENT_MS_MAX - 1, [URL], ""),
        (
            1,
            SILENT_MS_MAX,
            [URL],
            "1 partition cannot be opened for 5.0 s, because s3://bucket/ does not answer",
        ),
        (2, SILENT_MS_MAX, [URL, "s3://other/"], "because s3://bucket/ and s3://other/ do not answer"),
        (7, SLOW_MS_MAX - 1, [], ""),
        (7, SLOW_MS_MAX, [], "7 partitions cannot be opened for 30.0 s: the bucket, the metadata log"),
    ],
)
def test_a_silent_bucket_is_named_soon_and_a_slow_opening_late(
    partitions: int, lasting_ms: float, silent: list[str], words: str
) -> None:
    trouble = opening_trouble(partitions, lasting_ms, silent)
    assert words in trouble and bool(trouble) == bool(words)


@in_loop
async def test_one_line_at_the_beginning_and_one_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    watch = OpeningWatch(clock, lambda: [URL])
    assert watch.begin("a") and not watch.begin("b"), "one look is enough"
    looking = asyncio.ensure_future(watch.look_while_there_are())
    for _ in range(20):
        clock.advance_ms(OPENING_LOOK_INTERVAL_MS)
        await settled()
    watch.end("a")
    assert "1 partition cannot be opened for 20.0 s" in watch.trouble
    watch.end("b")
    assert watch.trouble == ""
    clock.advance_ms(OPENING_LOOK_INTERVAL_MS)
    await settled()
    assert looking.done() and watch.begin("c")
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_appends_that_wait_are_counted_until_they_go_on() -> None:
    watch = OpeningWatch(ManualClock(), list)
    with watch.append_waits(), watch.append_waits():
        assert watch.appends_waiting == 2
    assert watch.appends_waiting == 0
