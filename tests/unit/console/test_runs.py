import asyncio
import logging
from threading import Event

import pytest

from siltstone.carrying.pipeline.kind import Outcome, UnitReport
from siltstone.carrying.pipeline.running import RunReport
from siltstone.carrying.pipeline.watch import StepProgress
from siltstone.console.runs import ChangeRuns, RunOutcome, RunsAlready, Says, outcome_of, step_words
from siltstone.model.errors import Unavailable
from support.scenarios import in_loop


def report(*units: UnitReport, trouble: str = "", is_busy: bool = False) -> RunReport:
    return RunReport(
        kind="sweep", job_id=None, units=units, postponed=(), has_remaining=False, is_cancelled=False,
        seconds=0, trouble=trouble, is_busy=is_busy,
    )  # fmt: skip


@in_loop
async def test_one_runs_at_a_time_and_says_how_far_it_is():
    runs, goes_on, has_said = ChangeRuns(lambda: 7), Event(), Event()

    def work(says: Says) -> RunOutcome:
        says("half")
        has_said.set()
        goes_on.wait(60)
        return RunOutcome("all", (("reason", "fits"),))

    runs.begin("a run", work)
    await asyncio.to_thread(has_said.wait, 60)
    assert runs.newest is not None and runs.newest.is_running
    assert (runs.newest.title, runs.newest.began_ms, runs.newest.text) == ("a run", 7, "half")
    with pytest.raises(RunsAlready, match="this console is busy: a run"):
        runs.begin("another", work)
    goes_on.set()
    await runs.ended()
    assert not runs.newest.is_running and runs.newest.text == "all"
    assert runs.newest.detail == (("reason", "fits"),)
    runs.begin("another", lambda says: RunOutcome("again"))
    await runs.ended()
    assert runs.newest.title == "another"
    await runs.close()


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (Unavailable("the bucket is away"), "the bucket is away"),
        (ValueError("x"), "the log of the console says why"),
    ],
)
@in_loop
async def test_a_failure_is_said_and_ends_nothing(
    failure: Exception, said: str, caplog: pytest.LogCaptureFixture
):
    def work(_: Says) -> RunOutcome:
        raise failure

    runs = ChangeRuns(lambda: 0)
    with caplog.at_level(logging.ERROR):
        runs.begin("a run", work)
        await runs.ended()
    assert runs.newest is not None and runs.newest.has_failed and said in runs.newest.text
    runs.begin("another", lambda says: RunOutcome("done"))
    await runs.ended()
    assert not runs.newest.has_failed
    await runs.close()


@in_loop
async def test_the_end_cancels_what_runs_and_waits_only_so_long_for_it():
    hangs, cancelled = Event(), Event()

    def work(_: Says) -> RunOutcome:
        cancelled.wait(60)
        hangs.wait(60)
        return RunOutcome("too late")

    runs, reasons = ChangeRuns(lambda: 0, close_seconds_max=0.05), []
    runs.begin("a run", work, lambda reason: (reasons.append(reason), cancelled.set()))
    assert runs.is_busy
    async with asyncio.timeout(30):
        await runs.close()
    hangs.set()
    assert reasons == ["the console ends"]


@in_loop
async def test_the_end_cancels_nothing_that_has_ended():
    runs, reasons = ChangeRuns(lambda: 0), []
    runs.begin("a run", lambda _: RunOutcome("done"), reasons.append)
    await runs.ended()
    await runs.close()
    assert not runs.is_busy and reasons == []


def test_reports_are_words():
    assert step_words(StepProgress("sweep", "delete", 1, 4, 0, 0)) == "delete: 1 of 4"
    assert outcome_of([]) == RunOutcome("there was nothing to do")
    unit = UnitReport(name="t", outcome=Outcome.DONE, text="3 fit", detail={"not JSON": "3 fit"})
    assert outcome_of([report(unit)]) == RunOutcome("t: 3 fit", (("not JSON", "3 fit"),))
    bad = UnitReport(name="t", outcome=Outcome.FAILED, text="no")
    assert outcome_of([report(bad)]).has_failed
    assert outcome_of([report(trouble="away")]) == RunOutcome("sweep: away", has_failed=True)
    busy = outcome_of([report(is_busy=True)])
    assert busy.has_failed and "another run is under way" in busy.text
    many = outcome_of([report(*[unit] * 25)])
    assert many.text.endswith("and 5 more units") and len(many.detail) == 25
