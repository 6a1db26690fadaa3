import asyncio
import gc
import logging
from typing import Any

import pytest

from siltstone.broker.request import CloseConnection, Independent, Overtakable
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.network.request_pipeline import (
    BEGUN_PER_TURN_MAX,
    REQUEST_OVERHEAD_BYTES,
    RequestPipeline,
)
from support.kafka.network_world import turns
from support.scenarios import in_loop


class Scripted:
    """A pipeline whose handler gives what the test has put under the request's name; answers are the names."""

    def __init__(self, **handled: Any) -> None:
        self.handled = handled
        self.begun: list[str] = []
        self.answered: list[str] = []
        self.progress = 0
        self.may_begin = True
        self.pipeline = RequestPipeline(
            self.handle, TaskGroup("test", print), lambda: self.may_begin, self._progress
        )

    def handle(self, frame: memoryview) -> Any:
        name = bytes(frame).decode()
        self.begun.append(name)
        handled = self.handled.get(name, [name.encode()])
        if isinstance(handled, BaseException):
            raise handled
        return handled

    def _progress(self) -> None:
        self.progress += 1
        self.advance()

    def advance(self) -> bool:
        answers: list[Any] = []
        has_more = self.pipeline.advance(answers)
        self.answered += [bytes(answer).decode() for answer in answers]
        return has_more

    def receive(self, *names: str) -> bool:
        self.pipeline.add([memoryview(bytearray(name.encode())) for name in names])
        return self.advance()


def future() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


def test_what_is_ready_leaves_at_once() -> None:
    scripted = Scripted(silent=None)
    assert not scripted.receive("a", "silent", "b")
    assert scripted.answered == ["a", "b"]
    assert scripted.pipeline.unanswered_count == 0
    assert scripted.pipeline.held_bytes == 0


@in_loop
async def test_futures_are_begun_one_after_another_and_answered_in_order() -> None:
    first, third = future(), future()
    scripted = Scripted(first=first, third=third)
    scripted.receive("first", "second", "third", "fourth")
    assert scripted.begun == ["first", "second", "third", "fourth"]
    assert scripted.answered == []
    third.set_result([b"third"])
    await turns()
    assert scripted.answered == []
    first.set_result(None)
    await turns()
    assert scripted.answered == ["second", "third", "fourth"]
    assert scripted.pipeline.held_bytes == 0


@in_loop
async def test_a_group_commit_is_one_step() -> None:
    """All Futures of it are done before the first callback runs."""
    futures = {str(number): future() for number in range(20)}
    scripted = Scripted(**futures)
    scripted.receive(*futures)
    for _ in range(3):
        scripted.advance()
    for name, made in futures.items():
        made.set_result([name.encode()])
    await turns()
    assert scripted.answered == list(futures)
    assert scripted.progress == 1


@in_loop
async def test_a_coroutine_runs_to_its_end_before_the_next_begins() -> None:
    gate, before = future(), future()

    async def poll() -> list[bytes]:
        await gate
        return [b"poll"]

    scripted = Scripted(before=before, poll=poll())
    scripted.receive("before", "poll", "after")
    await turns()
    assert scripted.begun == ["before", "poll"]
    before.set_result([b"before"])
    await turns()
    assert scripted.answered == ["before"], "an answer does not wait for what comes after it"
    gate.set_result(None)
    await turns()
    assert scripted.begun == ["before", "poll", "after"]
    assert scripted.answered == ["before", "poll", "after"]


def test_nothing_is_begun_while_it_may_not() -> None:
    scripted = Scripted()
    scripted.may_begin = False
    scripted.receive("a", "b")
    assert scripted.begun == []
    assert scripted.pipeline.unanswered_count == 2
    scripted.may_begin = True
    scripted.advance()
    assert scripted.answered == ["a", "b"]


def test_so_many_are_begun_in_one_turn() -> None:
    scripted = Scripted()
    names = [str(number) for number in range(2 * BEGUN_PER_TURN_MAX + 1)]
    assert scripted.receive(*names)
    assert scripted.answered == names[:BEGUN_PER_TURN_MAX]
    assert scripted.advance()
    assert not scripted.advance()
    assert scripted.answered == names


@in_loop
async def test_every_request_is_charged_until_its_answer_leaves() -> None:
    first, second = future(), future()
    scripted = Scripted(aa=first, bbbb=second)
    scripted.may_begin = False
    scripted.receive("aa", "bbbb")
    assert scripted.pipeline.held_bytes == 6 + 2 * REQUEST_OVERHEAD_BYTES
    scripted.may_begin = True
    scripted.advance()
    second.set_result([])
    await turns()
    assert scripted.pipeline.held_bytes == 6 + 2 * REQUEST_OVERHEAD_BYTES
    first.set_result([])
    await turns()
    assert scripted.pipeline.held_bytes == 0


@pytest.mark.parametrize("failure", [CloseConnection("no"), ValueError("bug")])
@in_loop
async def test_a_failure_waits_for_the_answers_before_it_and_ends_the_rest(failure: Exception) -> None:
    before = future()
    scripted = Scripted(before=before, bad=failure)
    scripted.receive("before", "bad", "after")
    assert scripted.begun == ["before", "bad"]
    assert scripted.pipeline.failure is None
    before.set_result([b"before"])
    await turns()
    assert scripted.answered == ["before"]
    assert scripted.pipeline.failure is failure
    scripted.receive("later")
    assert scripted.begun == ["before", "bad"]
    assert scripted.pipeline.unanswered_count == 0


@in_loop
async def test_a_failed_future_and_a_failed_coroutine_are_failures() -> None:
    async def fail() -> list[bytes]:
        raise CloseConnection("in the coroutine")

    broken = future()
    scripted = Scripted(broken=broken)
    scripted.receive("broken", "after")
    broken.set_exception(CloseConnection("in the future"))
    await turns()
    assert str(scripted.pipeline.failure) == "in the future"
    assert scripted.answered == []

    scripted = Scripted(broken=fail())
    scripted.receive("broken")
    await turns()
    assert str(scripted.pipeline.failure) == "in the coroutine"


@in_loop
async def test_what_cancels_itself_is_a_failure_too() -> None:
    async def give_up() -> list[bytes]:
        raise asyncio.CancelledError

    cancelled = future()
    for handled in (cancelled, give_up()):
        scripted = Scripted(given_up=handled)
        scripted.receive("given_up")
        cancelled.cancel()
        await turns()
        assert isinstance(scripted.pipeline.failure, asyncio.CancelledError)


# -- the connection is gone


@in_loop
async def test_the_coroutine_is_cancelled_and_a_future_is_not() -> None:
    outcome: list[str] = []

    async def poll() -> list[bytes]:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            outcome.append("cancelled")
            raise
        raise AssertionError

    work = future()
    scripted = Scripted(work=work, poll=poll())
    scripted.receive("work", "poll", "queued")
    await turns()
    scripted.pipeline.abandon()
    await turns()
    assert outcome == ["cancelled"]
    assert not work.cancelled()
    work.set_result([b"work"])
    await turns()
    assert scripted.answered == []
    assert scripted.begun == ["work", "poll"]
    assert scripted.pipeline.held_bytes == 0


@in_loop
async def test_a_coroutine_that_has_not_taken_a_step_is_closed() -> None:
    """Otherwise Python warns that it was never awaited, which here is an error."""

    async def poll() -> list[bytes]:
        raise AssertionError("it was abandoned")

    scripted = Scripted(poll=poll())
    scripted.receive("poll")
    scripted.pipeline.abandon()
    await turns()
    gc.collect()


@in_loop
async def test_who_is_done_in_spite_of_being_cancelled_hurts_nobody() -> None:
    async def stubborn() -> list[bytes]:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return [b"all the same"]
        raise AssertionError

    scripted = Scripted(stubborn=stubborn())
    scripted.receive("stubborn")
    await turns()
    scripted.pipeline.abandon()
    await turns()
    assert scripted.answered == []


def test_a_failure_that_nobody_waits_for_is_logged_unless_it_only_closes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        closing, broken, cancelled = future(), future(), future()
        scripted = Scripted(a=closing, b=broken, c=cancelled)
        scripted.receive("a", "b", "c")
        scripted.pipeline.abandon()
        closing.set_exception(CloseConnection("no matter"))
        broken.set_exception(ValueError("a bug"))
        cancelled.cancel()
        await turns()
        del closing, broken, cancelled, scripted
        gc.collect()

    with caplog.at_level(logging.DEBUG):
        asyncio.run(run())
    logged = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(logged) == 1
    assert "a bug" in logged[0]


@in_loop
async def test_what_is_dropped_is_charged_no_more() -> None:
    scripted = Scripted(slow=(pending := future()))
    scripted.receive("slow")
    scripted.may_begin = False
    scripted.receive("dropped", "too")
    assert scripted.pipeline.held_bytes == len("slowdroppedtoo") + 3 * REQUEST_OVERHEAD_BYTES
    scripted.pipeline.finish()
    assert scripted.pipeline.held_bytes == len("slow") + REQUEST_OVERHEAD_BYTES
    assert scripted.pipeline.unanswered_count == 1
    scripted.receive("late")
    assert scripted.pipeline.unanswered_count == 1
    pending.set_result([b"slow"])
    await turns()
    assert scripted.pipeline.held_bytes == 0 and scripted.begun == ["slow"]


@in_loop
async def test_silence_behind_what_is_under_way_waits_for_its_turn() -> None:
    """A Produce with acks=0 is held, and counted, until what came before it has been answered."""
    first = future()
    scripted = Scripted(first=first, silent=None)
    scripted.receive("first", "silent", "b")
    assert (scripted.pipeline.unanswered_count, scripted.answered) == (3, [])
    assert scripted.pipeline.held_bytes == len("firstsilentb") + 3 * REQUEST_OVERHEAD_BYTES
    first.set_result([b"first"])
    await turns()
    assert (scripted.pipeline.unanswered_count, scripted.pipeline.held_bytes) == (0, 0)
    assert scripted.answered == ["first", "b"]


def test_a_ready_answer_is_not_held() -> None:
    scripted = Scripted(silent=None)
    scripted.receive("a")
    assert (scripted.pipeline.unanswered_count, scripted.pipeline.held_bytes) == (0, 0)
    scripted.receive("silent")
    assert (scripted.pipeline.unanswered_count, scripted.pipeline.held_bytes) == (0, 0)


async def after(waited_for: "asyncio.Future[Any]", ended: list[str]) -> Any:
    try:
        return await waited_for
    finally:
        ended.append("ended")


@in_loop
async def test_work_that_may_be_overtaken_holds_back_no_later_request_and_answers_stay_in_order() -> None:
    slow, slower = future(), future()
    ended: list[str] = []
    scripted = Scripted(slow=Overtakable(after(slow, ended)), slower=Overtakable(after(slower, ended)))
    scripted.receive("slow", "a", "slower", "b")
    await turns()
    assert scripted.begun == ["slow", "a", "slower", "b"] and scripted.answered == []
    slower.set_result([b"slower"])
    await turns()
    assert scripted.answered == []
    slow.set_result([b"slow"])
    await turns()
    assert scripted.answered == ["slow", "a", "slower", "b"]
    assert scripted.pipeline.held_bytes == 0 and len(ended) == 2


@in_loop
async def test_item_08_a_coroutine_begins_when_the_work_before_it_has_ended() -> None:
    slow, begun = future(), []

    async def other() -> Any:
        begun.append("other")
        return [b"other"]

    scripted = Scripted(slow=Overtakable(after(slow, [])), other=other())
    scripted.receive("slow", "other", "last")
    await turns()
    assert (scripted.begun, begun) == (["slow", "other"], [])
    slow.set_result([b"slow"])
    await turns()
    assert scripted.answered == ["slow", "other", "last"] and begun == ["other"]


@in_loop
async def test_all_work_of_a_lost_connection_is_cancelled() -> None:
    ended: list[str] = []
    never = future()
    scripted = Scripted(a=Overtakable(after(never, ended)), b=Overtakable(after(never, ended)))
    scripted.receive("a", "b", "c")
    await turns()
    scripted.pipeline.abandon()
    await turns()
    assert ended == ["ended", "ended"] and scripted.pipeline.held_bytes == 0


@in_loop
async def test_answers_of_independent_work_leave_when_they_are_ready() -> None:
    slow, quick = future(), future()
    scripted = Scripted(slow=Independent(after(slow, [])), quick=Independent(after(quick, [])))
    scripted.receive("slow", "quick", "a")
    await turns()
    assert scripted.begun == ["slow", "quick", "a"] and scripted.answered == ["a"]
    assert scripted.pipeline.unanswered_count == 2
    quick.set_result([b"quick"])
    await turns()
    assert scripted.answered == ["a", "quick"] and scripted.pipeline.held_bytes > 0
    slow.set_result(None)
    await turns()
    assert scripted.answered == ["a", "quick"]
    assert (scripted.pipeline.held_bytes, scripted.pipeline.unanswered_count) == (0, 0)


@in_loop
async def test_independent_work_that_fails_or_is_abandoned_ends_with_its_connection() -> None:
    failing, never, ended = future(), future(), []
    scripted = Scripted(a=Independent(after(failing, [])), b=Independent(after(never, ended)))
    scripted.receive("a", "b")
    await turns()
    failing.set_exception(CloseConnection("no"))
    await turns()
    assert isinstance(scripted.pipeline.failure, CloseConnection) and scripted.answered == []
    scripted.pipeline.abandon()
    await turns()
    assert ended == ["ended"] and scripted.pipeline.held_bytes == 0
