"""The requests of one connection: received, begun in that order, answered in that order. Knows no socket.

    received ──begin──▶ begun ──collect──▶ answers, in the order of the requests
                          │ ready      leaves at once if nothing is before it
                          │ Future     the next is begun at once (Produce: five in flight share one group commit)
                          │ coroutine  runs to its end before the next is begun
                          └ failure    nothing is begun after it; comes up when all before it have been answered

Of pending answers only the first is watched: none behind it can leave before it does, and so those that a group commit
makes ready together leave together.
"""

import asyncio
import logging
from asyncio import Future
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from siltstone.broker.request import Answer, CloseConnection
from siltstone.model.buffers import Buffer
from siltstone.runtime.tasks import TaskGroup

REQUEST_OVERHEAD_BYTES = 512
"""What a request is charged besides its bytes: objects that hold it, so that tiny ones cannot pass a limit."""

BEGUN_PER_TURN_MAX = 64
"""Then other connections have their turn: of 20 µs each, a millisecond."""

log = logging.getLogger(__name__)

Handled = Answer | Future[Answer] | Coroutine[Any, Any, Answer]


class RequestFailed(Exception):
    """Stands in line for the answer that will not come; its cause says why."""


class RequestPipeline:
    """``may_begin``: asked before each request. ``on_progress``: something has become ready that nobody waited for."""

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
        self._watched: Future[Answer] | None = None
        self._running: Future[Answer] | None = None
        self._task: asyncio.Task[None] | None = None
        self.has_ended = False
        self.failure: BaseException | None = None
        self.held_bytes = 0

    @property
    def unanswered_count(self) -> int:
        return len(self._received) + len(self._begun)

    def add(self, frames: list[memoryview]) -> None:
        if self.has_ended:
            return
        self._received.extend(frames)
        self.held_bytes += sum(map(len, frames)) + len(frames) * REQUEST_OVERHEAD_BYTES

    def advance(self, answers: list[Buffer]) -> bool:
        """Begin what may be begun, and append the answers that may leave. Whether there is more to begin in the next
        turn of the event loop."""
        has_more = self._begin(answers)
        if self._begun:
            self._collect(answers)
        return has_more

    def finish(self) -> None:
        """Begin nothing more; what was begun is answered."""
        self.has_ended = True
        while self._received:
            self.held_bytes -= len(self._received.popleft()) + REQUEST_OVERHEAD_BYTES

    def abandon(self) -> None:
        """The connection is gone. The coroutine is cancelled; what Futures stand for goes on, unheard."""
        self.finish()
        if self._task is not None:
            self._task.cancel()
        for pending, _ in self._begun:
            if isinstance(pending, Future):
                pending.add_done_callback(_answer_dropped)
        self._begun.clear()
        self.held_bytes = 0

    # -- beginning ---------------------------------------------------------------------------------------

    def _begin(self, answers: list[Buffer]) -> bool:
        received = self._received
        for _ in range(BEGUN_PER_TURN_MAX):
            if not received or self._running is not None or not self._may_begin():
                return False
            frame = received.popleft()
            charged_bytes = len(frame) + REQUEST_OVERHEAD_BYTES
            pending = self._handled(frame)
            if self._begun or not (pending is None or isinstance(pending, list)):
                self._begun.append((pending, charged_bytes))
                continue
            self.held_bytes -= charged_bytes
            if pending is not None:
                answers += pending
        return bool(received)

    def _handled(self, frame: memoryview) -> Future[Answer] | Answer | RequestFailed:
        try:
            handled = self._handle(frame)
        except Exception as failure:  # whatever it is, it may not reach other connections
            self.finish()
            failed = RequestFailed()
            failed.__cause__ = failure
            return failed
        if handled is None or isinstance(handled, list | Future):
            return handled
        return self._run(handled)

    def _run(self, work: Coroutine[Any, Any, Answer]) -> Future[Answer]:
        answer: Future[Answer] = asyncio.get_running_loop().create_future()
        self._running = answer
        self._task = self._tasks.start("request", _into(answer, work))
        self._task.add_done_callback(lambda _: work.close())  # if it was cancelled before its first step
        answer.add_done_callback(self._run_ended)
        return answer

    def _run_ended(self, _: Future[Answer]) -> None:
        self._running = self._task = None
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


async def _into(answer: Future[Answer], work: Coroutine[Any, Any, Answer]) -> None:
    try:
        result = await work
    except asyncio.CancelledError:
        answer.cancel()
        raise
    except Exception as failure:  # whoever waits for the answer says what becomes of it
        answer.set_exception(failure)
    else:
        answer.set_result(result)


def _answer_dropped(answer: Future[Answer]) -> None:
    failure = None if answer.cancelled() else answer.exception()
    if failure is not None and not isinstance(failure, CloseConnection):
        log.error("a request failed after its connection was closed: %r", failure, exc_info=failure)
