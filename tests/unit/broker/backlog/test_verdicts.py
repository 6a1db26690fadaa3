import asyncio

import pytest

from siltstone.broker.backlog.quota_rules import Backlog, Verdict
from siltstone.broker.backlog.verdicts import BacklogQuotaExceeded, QuotaVerdicts, Sentence
from siltstone.model.limits import HELD_PRODUCE_BYTES_MAX, MIB
from siltstone.runtime.clock import ManualClock
from support.engine.engine_world import settled
from support.scenarios import in_loop

BACKLOG = Backlog("readers", 130 * MIB, 100 * MIB)
HELD = {("t", 0): Sentence(Verdict.HOLD, BACKLOG)}


def waiting(verdicts, clock, size_bytes=10, duration_ms=5_000, keys=(("t", 0),)):
    return asyncio.ensure_future(verdicts.wait_while_held(set(keys), size_bytes, duration_ms, clock))


def test_a_refusal_names_the_group_and_what_to_do():
    verdicts = QuotaVerdicts()
    verdicts.check("t", 0)
    verdicts.pronounce({("t", 0): Sentence(Verdict.REFUSE, BACKLOG)})
    verdicts.check("t", 1)
    with pytest.raises(
        BacklogQuotaExceeded, match=r"130\.0 MiB wait for group readers.*let the group catch up"
    ):
        verdicts.check("t", 0)
    assert not verdicts.holds("t", 0)


def test_held_is_not_refused():
    verdicts = QuotaVerdicts()
    verdicts.pronounce(HELD)
    verdicts.check("t", 0)
    assert verdicts.holds("t", 0) and not verdicts.holds("t", 1)


@in_loop
async def test_who_waits_is_released_when_nothing_of_his_is_held() -> None:
    verdicts, clock = QuotaVerdicts(), ManualClock()
    verdicts.pronounce({**HELD, ("t", 1): HELD["t", 0]})
    wait = waiting(verdicts, clock, keys=(("t", 0), ("t", 1)))
    await settled()
    assert verdicts.held_bytes == 10
    verdicts.pronounce(HELD)
    await settled()
    assert not wait.done(), "one of the two is held yet"
    verdicts.pronounce({})
    await settled()
    assert wait.done() and verdicts.held_bytes == 0


@in_loop
async def test_who_waits_long_enough_waits_no_more() -> None:
    verdicts, clock = QuotaVerdicts(), ManualClock()
    verdicts.pronounce(HELD)
    wait = waiting(verdicts, clock)
    for passed_ms in (2_000, 2_999):
        await settled()
        verdicts.pronounce(HELD)  # looked at again, and still too much
        await settled()
        clock.advance_ms(passed_ms)
    await settled()
    assert not wait.done()
    clock.advance_ms(1)
    await settled()
    assert wait.done() and verdicts.held_bytes == 0 and verdicts.holds("t", 0)
    assert not verdicts._waiting, "a wait that is over is kept by nobody, however long the partition is held"


@in_loop
async def test_beyond_the_limit_of_bytes_nobody_waits() -> None:
    verdicts, clock = QuotaVerdicts(), ManualClock()
    verdicts.pronounce(HELD)
    first = waiting(verdicts, clock, HELD_PRODUCE_BYTES_MAX - 10)
    await settled()
    fits, does_not = waiting(verdicts, clock, 10), waiting(verdicts, clock, 1)
    await settled()
    assert (first.done(), fits.done(), does_not.done()) == (False, False, True)
    first.cancel()
    await settled()
    assert verdicts.held_bytes == 10, "whose connection is lost waits no more"
    verdicts.pronounce({})
    await fits


@in_loop
async def test_the_end_of_the_node_ends_all_waits() -> None:
    verdicts, clock = QuotaVerdicts(), ManualClock()
    verdicts.pronounce(HELD)
    wait = waiting(verdicts, clock)
    await settled()
    verdicts.end_waits()
    await wait
    await waiting(verdicts, clock)
    assert verdicts.holds("t", 0), "it is told to come again"
