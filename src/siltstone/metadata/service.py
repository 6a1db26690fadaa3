"""MetadataService: the client for an event loop. Commands that wait together share one append.

One loop takes up to COMMANDS_PER_APPEND_MAX waiting commands, executes them off the event loop, and answers; while it
does, the next ones gather. Another loop looks for what other processes wrote. Whoever stops waiting for an
answer changes nothing for the others; his command is left out if its turn had not come, and done otherwise.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from siltstone.metadata.client import CommitUnknown, MetadataClient
from siltstone.metadata.commands import Command
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import Refusal
from siltstone.model.errors import Unavailable
from siltstone.model.limits import COMMANDS_PER_APPEND_MAX
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup

R = TypeVar("R")
Listener = Callable[[MetadataImage], None]
logger = logging.getLogger(__name__)

FOLLOW_INTERVAL_MS = 100
"""How soon what another process wrote is seen here."""

COMMANDS_WAITING_MAX = 10_000
"""Ten appends' worth: more waiting would only make answers older."""


class ServiceClosed(Unavailable):
    """The service was closed, or failed, before the command was executed."""


class ServiceStatistics(msgspec.Struct, frozen=True):
    version: int
    commands_waiting: int
    commands_executed: int
    batches: int


class _Waiting(msgspec.Struct, eq=False):
    command: Command[Any]
    answer: "asyncio.Future[Any]"


class MetadataService:
    def __init__(
        self,
        client: MetadataClient,
        calls: BlockingCalls,
        clock: Clock,
        *,
        follow_interval_ms: float = FOLLOW_INTERVAL_MS,
        commands_waiting_max: int = COMMANDS_WAITING_MAX,
    ) -> None:
        """Owns the client from now on."""
        self._client = client
        self._calls = calls
        self._clock = clock
        self._follow_interval_ms = follow_interval_ms
        self._room = asyncio.Semaphore(commands_waiting_max)
        self._waiting: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()
        self._image = client.image
        self._listeners: list[Listener] = []
        self._tasks = TaskGroup("metadata", self._failed)
        self._background = TaskGroup("metadata", self._failed)
        self._failure_listeners: list[Callable[[BaseException], None]] = []
        self._failure: BaseException | None = None
        self._closing = False
        self._snapshot_running = False
        self._commands_executed = 0
        self._batches = 0

    @property
    def image(self) -> MetadataImage:
        """The newest image the event loop has heard of."""
        return self._image

    async def start(self) -> None:
        self._tasks.start("execute", self._execute_waiting())
        self._background.start("follow", self._follow())

    async def close(self) -> None:
        """Commands under way are answered; those still waiting get ServiceClosed."""
        self._closing = True
        reason = ServiceClosed("the metadata service is closing; nothing was done")
        self._refuse_waiting(reason)
        self._arrived.set()
        await self._tasks.drain()
        await self._background.cancel()
        await self._calls.run(self._client.close)

    async def execute(self, command: Command[R]) -> R:
        """The command's result; when it returns, ``image`` shows it. Raises its Refusal, CommitUnknown,
        LogUnavailable, ServiceClosed. Waits for room when many commands wait."""
        async with self._room:
            self._check_open()
            waiting = _Waiting(command, asyncio.get_running_loop().create_future())
            self._waiting.append(waiting)
            self._arrived.set()
            try:
                result: R = await waiting.answer
            except asyncio.CancelledError:
                with suppress(ValueError):  # its turn has come
                    self._waiting.remove(
                        waiting
                    )  # or who gives up and asks again fills the memory of a log that hangs
                raise
            return result

    async def refresh(self) -> MetadataImage:
        """The newest image there is, read now. Raises Unavailable, CorruptData."""
        self._check_open()
        await self._calls.run(self._client.refresh)
        self._publish()
        return self._image

    def add_listener(self, listener: Listener) -> Callable[[], None]:
        """Called on the event loop with each new image. Returns what removes it, once or more often."""
        self._listeners.append(listener)

        def remove() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return remove

    def add_failure_listener(self, listener: Callable[[BaseException], None]) -> None:
        """Called once, with why the service closed itself; at once if it has."""
        self._failure_listeners.append(listener)
        if self._failure is not None:
            listener(self._failure)

    def statistics(self) -> ServiceStatistics:
        return ServiceStatistics(
            version=self._image.version,
            commands_waiting=len(self._waiting),
            commands_executed=self._commands_executed,
            batches=self._batches,
        )

    def _check_open(self) -> None:
        if self._failure is not None:
            raise ServiceClosed(f"the metadata service failed: {self._failure!r}; restart the process")
        if self._closing:
            raise ServiceClosed("the metadata service is closed")

    async def _execute_waiting(self) -> None:
        while not self._closing:
            await self._arrived.wait()
            self._arrived.clear()
            while batch := self._next_batch():
                await self._execute_batch(batch)
                self._save_snapshot_in_background()

    def _next_batch(self) -> list[_Waiting]:
        """Those whose caller went away before their turn are left out."""
        batch: list[_Waiting] = []
        while self._waiting and len(batch) < COMMANDS_PER_APPEND_MAX:
            waiting = self._waiting.popleft()
            if not waiting.answer.done():
                batch.append(waiting)
        return batch

    async def _execute_batch(self, batch: list[_Waiting]) -> None:
        commands = [waiting.command for waiting in batch]
        try:
            answers = await self._calls.run(self._client.append_all, commands)
        except Unavailable as error:
            answers = [error] * len(batch)
        except BaseException as error:
            # A bug, damage, or the end of this task: the callers learn that they know nothing of the outcome.
            unknown = CommitUnknown(f"the metadata service failed while it executed the command: {error!r}")
            _answer(batch, [unknown] * len(batch))
            raise
        self._batches += 1
        self._commands_executed += len(batch)
        self._publish()
        _answer(batch, answers)

    def _save_snapshot_in_background(self) -> None:
        """Apart from the batches: encoding a large image takes a second or two."""
        if self._client.snapshot_is_due and not self._snapshot_running:
            self._snapshot_running = True
            self._background.start("snapshot", self._save_snapshot())

    async def _save_snapshot(self) -> None:
        try:
            await self._calls.run(self._client.save_snapshot_if_due)
        finally:
            self._snapshot_running = False

    async def _follow(self) -> None:
        while True:
            await self._clock.sleep_ms(self._follow_interval_ms)
            try:
                await self._calls.run(self._client.refresh)
            except Unavailable as error:
                logger.warning("the metadata log cannot be followed now: %s", error)
            self._publish()

    def _publish(self) -> None:
        image = self._client.image
        if image.version <= self._image.version:
            return
        self._image = image
        for listener in tuple(self._listeners):
            listener(image)

    def _failed(self, failure: BaseException) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        closed = ServiceClosed(f"the metadata service failed: {failure!r}; restart the process")
        self._refuse_waiting(closed)
        for listener in self._failure_listeners:
            listener(failure)

    def _refuse_waiting(self, reason: ServiceClosed) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.answer.done():
                waiting.answer.set_exception(reason)


def _answer(batch: list[_Waiting], answers: list[Any]) -> None:
    for waiting, answer in zip(batch, answers, strict=True):
        if waiting.answer.done():
            continue
        if isinstance(answer, Refusal | Unavailable):
            waiting.answer.set_exception(answer)
        else:
            waiting.answer.set_result(answer)
