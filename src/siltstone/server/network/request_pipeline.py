"""The requests of one connection: started, and answered, in the order in which they were received. No sockets here.

    received ──begin──▶ started ──collect──▶ answers, in the order of the requests
                          │ ready      sent at once if no earlier request is pending
                          │ Future     the next request is started at once (five Produce requests share a group commit)
                          │ coroutine  runs to its end before the next request is started, and after all Overtakables
                          │ Overtakable  runs, and the next request is handled at once (Produces to other partitions)
                          │ Independent  the same, and its answer leaves when it is ready (requests of other nodes)
                          └ failure    no later request is started; reported when all earlier requests are answered

Only the first pending answer has a callback: later answers cannot be sent before it, and answers that a group commit
completes together are sent together."""

import asyncio
import logging
from asyncio import Future
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from siltstone.broker.request import Answer, CloseConnection, Independent, Overtakable
from siltstone.model.buffers import Buffer
from siltstone.runtime.tasks import TaskGroup

REQUEST_OVERHEAD_BYTES = 512
"""The memory charged for a request besides its bytes, for the objects that hold it: without this, many tiny requests
would exceed the memory limits unnoticed."""

BEGUN_PER_TURN_MAX = 64
"""How many requests a connection begins before other connections have their turn: at 20 µs each, about a millisecond.
"""

log = logging.getLogger(__name__)

Handled = Answer | Future[Answer] | Coroutine[Any, Any, Answer] | Overtakable | Independent


class RequestFailed(Exception):
    """Takes the place of the answer of a failed request; its ``__cause__`` is the failure."""


class RequestPipeline:
    """``handle`` begins one request. ``may_begin`` is called before each request. ``on_progress`` is called when a
    pending answer is ready, or the next request may begin; the connection then calls ``advance``."""

    def __init__(
        self,
        handle: Callable[[memoryview], Handled],
        tasks: TaskGroup,
        may_begin: Callable[[], bool],
        on_progress: Callable[[], None],
    ) -> None:
        self._handle = handle
        self._tasks = tasks
        self._may_begin = may_begin
        self._on_progress = on_progress
        self._received: deque[memoryview] = deque()
        self._begun: deque[tuple[Future[Answer] | Answer | RequestFailed, int]] = deque()
        self._independent: dict[Future[Answer], int] = {}
        self._independent_done: list[Future[Answer]] = []
        self._watched: Future[Answer] | None = None
        self._running: Future[Answer] | None = None
        self._work: set[asyncio.Task[None]] = set()
        self.has_ended = False
        self.failure: BaseException | None = None
        self.held_bytes = 0

    @property
    def unanswered_count(self) -> int:
        return len(self._received) + len(self._begun) + len(self._independent)

    def add(self, frames: list[memoryview]) -> None:
        if self.has_ended:
            return
        self._received.extend(frames)
        self.held_bytes += sum(map(len, frames)) + len(frames) * REQUEST_OVERHEAD_BYTES

    def advance(self, answers: list[Buffer]) -> bool:
        """Begins requests and appends the answers that can be sent to ``answers``. Returns whether more requests are
        to be started in the next turn of the event loop."""
        has_more = self._begin(answers)
        if self._independent_done:
            self._collect_independent(answers)
        if self._begun:
            self._collect(answers)
        return has_more

    def finish(self) -> None:
        """Drops the requests that were not started, and starts no more; the others are still answered."""
        self.has_ended = True
        while self._received:
            self.held_bytes -= len(self._received.popleft()) + REQUEST_OVERHEAD_BYTES

    def abandon(self) -> None:
        """Drops all requests, because the connection is lost. Running coroutines are cancelled; work behind a Future
        continues, and its result is dropped."""
        self.finish()
        for task in self._work:
            task.cancel()
        for pending in (*(each for each, _ in self._begun), *self._independent):
            if isinstance(pending, Future):
                pending.add_done_callback(_answer_dropped)
        self._begun.clear()
        self._independent.clear()
        self._independent_done.clear()
        self.held_bytes = 0

    # -- beginning ---------------------------------------------------------------------------------------

    def _begin(self, answers: list[Buffer]) -> bool:
        received = self._received
        for _ in range(BEGUN_PER_TURN_MAX):
            if not received or self._running is not None or not self._may_begin():
                return False
            frame = received.popleft()
            charged_bytes = len(frame) + REQUEST_OVERHEAD_BYTES
            pending = self._handled(frame, charged_bytes)
            if isinstance(pending, Future) and pending in self._independent:
                continue
            if self._begun or not (pending is None or isinstance(pending, list)):
                self._begun.append((pending, charged_bytes))
                continue
            self.held_bytes -= charged_bytes
            if pending is not None:
                answers += pending
        return bool(received)

    def _handled(self, frame: memoryview, charged_bytes: int) -> Future[Answer] | Answer | RequestFailed:
        try:
            handled = self._handle(frame)
        except Exception as failure:  # no failure may affect other connections
            self.finish()
            failed = RequestFailed()
            failed.__cause__ = failure
            return failed
        if handled is None or isinstance(handled, list | Future):
            return handled
        if isinstance(handled, Overtakable):
            return self._run(handled.work)
        if isinstance(handled, Independent):
            answer = self._run(handled.work)
            self._independent[answer] = charged_bytes
            answer.add_done_callback(self._independent_is_done)
            return answer
        self._running = self._run(handled, after=tuple(self._work))
        self._running.add_done_callback(self._run_ended)
        return self._running

    def _run(
        self, work: Coroutine[Any, Any, Answer], after: Collection[asyncio.Task[None]] = ()
    ) -> Future[Answer]:
        answer: Future[Answer] = asyncio.get_running_loop().create_future()
        task = self._tasks.start("request", _into(answer, work, after))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        # A task that is cancelled before its first step would not close the coroutine.
        task.add_done_callback(lambda _: work.close())
        return answer

    def _run_ended(self, _: Future[Answer]) -> None:
        self._running = None
        self._on_progress()

    # -- answering ---------------------------------------------------------------------------------------

    def _collect(self, answers: list[Buffer]) -> None:
        begun = self._begun
        while begun and self.failure is None:
            pending, charged_bytes = begun[0]
            if isinstance(pending, Future):
                if not pending.done():
                    self._watch(pending)
                    return
                pending = _result_of(pending)
            begun.popleft()
            self.held_bytes -= charged_bytes
            if isinstance(pending, RequestFailed):
                self.finish()
                self.failure = pending.__cause__
            elif pending is not None:
                answers += pending

    def _collect_independent(self, answers: list[Buffer]) -> None:
        collected, self._independent_done = self._independent_done, []
        for done in collected:
            self.held_bytes -= self._independent.pop(done)
            result = _result_of(done)
            if isinstance(result, RequestFailed):
                self.finish()
                self.failure = self.failure or result.__cause__
            elif result is not None and self.failure is None:
                answers += result

    def _independent_is_done(self, done: Future[Answer]) -> None:
        if done in self._independent:  # else the connection was lost meanwhile
            self._independent_done.append(done)
            self._on_progress()

    def _watch(self, first: Future[Answer]) -> None:
        if first is not self._watched and first is not self._running:
            self._watched = first
            first.add_done_callback(self._first_is_done)

    def _first_is_done(self, _: Future[Answer]) -> None:
        self._watched = None
        self._on_progress()


def _result_of(done: Future[Answer]) -> Answer | RequestFailed:
    try:
        return done.result()
    except (Exception, asyncio.CancelledError) as failure:
        failed = RequestFailed()
        failed.__cause__ = failure
        return failed


async def _into(
    answer: Future[Answer], work: Coroutine[Any, Any, Answer], after: Collection[asyncio.Task[None]]
) -> None:
    try:
        if after:
            await asyncio.wait(after)
        result = await work
    except asyncio.CancelledError:
        answer.cancel()
        raise
    except Exception as failure:  # ``_collect`` reports the failure in order
        answer.set_exception(failure)
    else:
        answer.set_result(result)


def _answer_dropped(answer: Future[Answer]) -> None:
    failure = None if answer.cancelled() else answer.exception()
    if failure is not None and not isinstance(failure, CloseConnection):
        log.error("a request failed after its connection was closed: %r", failure, exc_info=failure)
