"""A start that waits for its metadata: what it says, how often it tries, and what ends it."""

import asyncio
import logging

import pytest

from siltstone.metadata.store.port import LogOutOfReach, LogUnavailable
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.tasks import REPORT_INTERVAL_MS
from siltstone.server.metadata_reach import ATTEMPT_INTERVAL_MS, blocked_until_reached, once_reached


class Opening:
    """Raises the errors in turn, then returns."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.attempts = 0

    def __call__(self) -> str:
        self.attempts += 1
        if self._errors:
            raise self._errors.pop(0)
        return "opened"


def opened(opening: Opening, *, in_loop: bool) -> str:
    clock = ManualClock()
    if not in_loop:
        return blocked_until_reached(opening, clock, "maintenance")

    async def main() -> str:
        task = asyncio.ensure_future(once_reached(opening, InlineCalls(), clock, "node 3"))
        while not task.done():
            for _ in range(5):
                await asyncio.sleep(0)
            clock.advance_ms(ATTEMPT_INTERVAL_MS)
        return task.result()

    return asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("in_loop", [True, False])
def test_an_outage_is_waited_for_and_said_at_first_and_at_intervals(
    in_loop: bool, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = 2 * REPORT_INTERVAL_MS // ATTEMPT_INTERVAL_MS
    opening = Opening(*(LogOutOfReach("nobody is there") for _ in range(attempts)))
    with caplog.at_level(logging.WARNING):
        assert opened(opening, in_loop=in_loop) == "opened"
    assert opening.attempts == attempts + 1
    lines = [record.getMessage() for record in caplog.records]
    who = "node 3" if in_loop else "maintenance"
    waits = f"{who} waits for its metadata and tries again every second: nobody is there"
    assert lines == [waits, waits, f"{who} has reached its metadata and starts"]


@pytest.mark.parametrize("in_loop", [True, False])
def test_nothing_is_said_where_nothing_is_waited_for(in_loop: bool, caplog: pytest.LogCaptureFixture) -> None:
    assert opened(Opening(), in_loop=in_loop) == "opened"
    assert not caplog.records


@pytest.mark.parametrize("in_loop", [True, False])
def test_a_refusal_ends_the_start_also_after_an_outage(in_loop: bool) -> None:
    opening = Opening(LogOutOfReach("nobody is there"), LogUnavailable("the password is wrong"))
    with pytest.raises(LogUnavailable, match="the password is wrong"):
        opened(opening, in_loop=in_loop)
    assert opening.attempts == 2
