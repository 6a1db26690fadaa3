"""MetadataService: the metadata client for an event loop. Commands that wait at the same time share one append.

One task takes up to COMMANDS_PER_APPEND_MAX waiting commands, executes them in a thread, and answers them; commands
that arrive meanwhile wait for the next append. Another task reads what other processes have appended. A caller that
is cancelled does not disturb the others: its command is dropped if it still waits, and executed otherwise.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from siltstone.foundation.histogram import Histogram, HistogramCounts
from siltstone.metadata.client import CommitUnknown, Executed, MetadataClient
from siltstone.metadata.commands import Command
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.store.port import LogNews
from siltstone.model.errors import Unavailable
from siltstone.model.limits import COMMANDS_PER_APPEND_MAX
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup

R = TypeVar("R")
Listener = Callable[[MetadataImage], None]
logger = logging.getLogger(__name__)

FOLLOW_INTERVAL_MS = 100
"""How often the log is read for entries of other processes when it gives no notice of them."""

HEARD_INTERVAL_MS = 1_000
"""How often it is read while it gives notice: a notice may be lost."""

READS_APART_MS = 50
"""Two reads after notices are so far apart: a busy log gives notice all the time."""

UNREADABLE_WARNING_INTERVAL_MS = 30_000
"""How often the log has a warning while the metadata log cannot be read: often enough for a supervisor to notice."""

COMMANDS_WAITING_MAX = 10_000
"""Ten appends' worth of commands: a longer queue would only make every answer later."""


class ServiceClosed(Unavailable):
    """The service was closed or failed before the command was executed."""


class ServiceStatistics(msgspec.Struct, frozen=True):
    version: int
    commands_waiting: int
    commands_executed: int
    batches: int
    append_seconds: HistogramCounts = HistogramCounts()
    """The time of each append to the metadata log, with the decisions about its commands."""
    read_age_seconds: float = 0.0
    """The time since the log was last read to its head. A read that hangs counts, too: it has no error yet."""


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
        age_clock_ms: Callable[[], float] | None = None,
    ) -> None:
        """From now on the service owns the client and closes it. ``age_clock_ms`` tells how old the image is: a clock
        that counts the suspension of the machine, where that matters."""
        self._client = client
        self._calls = calls
        self._clock = clock
        self._follow_interval_ms = follow_interval_ms
        self._room = asyncio.Semaphore(commands_waiting_max)
        self._waiting: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()
        self._has_news = asyncio.Event()
        self._news: LogNews | None = None
        self._image = client.image
        self._listeners: list[Listener] = []
        self._tasks = TaskGroup("metadata", self._failed)
        self._background = TaskGroup("metadata", self._failed)
        self._on_executed: list[Executed] = []
        self._failure_listeners: list[Callable[[BaseException], None]] = []
        self._failure: BaseException | None = None
        self._closing = False
        self._snapshot_running = False
        self._warned_ms: float | None = None
        self._age_clock_ms = age_clock_ms or clock.monotonic_ms
        self._read_ms = self._age_clock_ms()
        self._commands_executed = 0
        self._batches = 0
        self._append_seconds = Histogram()

    @property
    def image(self) -> MetadataImage:
        """The newest image that was published on the event loop."""
        return self._image

    @property
    def client(self) -> MetadataClient:
        """The client, for blocking calls in threads of the caller's own. The service closes it."""
        return self._client

    async def start(self) -> None:
        self._tasks.start("execute", self._execute_waiting())
        loop = asyncio.get_running_loop()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._has_news.set)

        self._news = self._client.listen(tell)
        self._background.start("follow", self._follow())

    async def close(self) -> None:
        """Finishes the append that is under way and answers its commands; waiting commands fail with ServiceClosed."""
        self._closing = True
        reason = ServiceClosed("the metadata service is closing; the command was not executed")
        self._refuse_waiting(reason)
        self._arrived.set()
        await self._tasks.drain()
        await self._background.cancel()
        await self._calls.run(self._client.close)

    async def execute(self, command: Command[R]) -> R:
        """Returns the command's result; ``image`` then contains its effect. While ``commands_waiting_max`` commands
        wait, the caller waits before its command is queued. Raises the command's Refusal, CommitUnknown,
        LogUnavailable, ServiceClosed."""
        async with self._room:
            self._check_open()
            waiting = _Waiting(command, asyncio.get_running_loop().create_future())
            before = self._image
            self._waiting.append(waiting)
            self._arrived.set()
            try:
                result: R = await waiting.answer
            except asyncio.CancelledError:
                # Else a caller that gives up and tries again, over and over, fills the memory while the log hangs.
                with suppress(ValueError):  # the command is not waiting any more: its append is under way
                    self._waiting.remove(waiting)
                raise
            for listener in self._on_executed:
                listener(command, before, self._image)
            return result

    async def refresh(self) -> MetadataImage:
        """Reads the log to its head and returns the image. Raises Unavailable, CorruptData."""
        self._check_open()
        await self._read()
        self._publish()
        return self._image

    async def _read(self) -> None:
        begun_ms = self._age_clock_ms()
        await self._calls.run(self._client.refresh)
        self._read_ms = begun_ms

    @property
    def image_age_ms(self) -> float:
        """The time since the sending of the last read that has reached the head of the log."""
        return self._age_clock_ms() - self._read_ms

    @property
    def clock_offset_ms(self) -> int:
        """How far the clock of the metadata log is ahead of this machine's."""
        return self._client.clock_offset_ms

    async def append_id_at(self, version: int) -> str | None:
        """Returns the append id of the log's entry ``version``, or None (``MetadataClient.append_id_at``). Raises
        Unavailable, CorruptData."""
        self._check_open()
        return await self._calls.run(self._client.append_id_at, version)

    def add_listener(self, listener: Listener) -> Callable[[], None]:
        """Calls ``listener`` on the event loop with each new image. Returns a function that removes the listener; that
        function may be called more than once."""
        self._listeners.append(listener)

        def remove() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return remove

    async def newer_than(self, version: int, at_most_ms: float) -> None:
        """Returns when the image is newer than ``version``, or after ``at_most_ms``."""
        if self._image.version > version:
            return
        arrived = asyncio.Event()
        remove = self.add_listener(lambda _: arrived.set())
        try:
            await self._set_or_late(arrived, at_most_ms)
        finally:
            remove()

    async def _set_or_late(self, event: asyncio.Event, at_most_ms: float) -> None:
        """Returns when the event is set, which is done after ``at_most_ms`` at the latest."""
        timer = self._clock.call_after_ms(at_most_ms, event.set)
        try:
            await event.wait()
        finally:
            timer.cancel()

    def add_execution_listener(self, listener: Executed) -> None:
        """Calls ``listener`` after each command that was executed here and not refused, in the context of its caller,
        with the command, the image that the caller knew, and an image with the effect."""
        self._on_executed.append(listener)

    def add_failure_listener(self, listener: Callable[[BaseException], None]) -> None:
        """Calls ``listener`` once, with the exception that ended the service; at once if the service has failed."""
        self._failure_listeners.append(listener)
        if self._failure is not None:
            listener(self._failure)

    def statistics(self) -> ServiceStatistics:
        return ServiceStatistics(
            version=self._image.version,
            commands_waiting=len(self._waiting),
            commands_executed=self._commands_executed,
            batches=self._batches,
            append_seconds=self._append_seconds.counts(),
            read_age_seconds=self.image_age_ms / 1000,
        )

    def _check_open(self) -> None:
        if self._failure is not None:
            raise ServiceClosed(f"the metadata service failed: {self._failure!r}; restart the process")
        if self._closing:
            raise ServiceClosed("the metadata service is closed; the command was not executed")

    async def _execute_waiting(self) -> None:
        while not self._closing:
            await self._arrived.wait()
            self._arrived.clear()
            while batch := self._next_batch():
                await self._execute_batch(batch)
                self._save_snapshot_in_background()

    def _next_batch(self) -> list[_Waiting]:
        """Takes up to COMMANDS_PER_APPEND_MAX waiting commands, but none whose caller was cancelled."""
        batch: list[_Waiting] = []
        while self._waiting and len(batch) < COMMANDS_PER_APPEND_MAX:
            waiting = self._waiting.popleft()
            if not waiting.answer.done():
                batch.append(waiting)
        return batch

    async def _execute_batch(self, batch: list[_Waiting]) -> None:
        commands = [waiting.command for waiting in batch]
        begun_ms = self._clock.monotonic_ms()
        try:
            answers = await self._calls.run(self._client.append_all, commands)
        except Unavailable as error:
            answers = [error] * len(batch)
        except BaseException as error:
            # A bug, corrupt data, or the cancellation of this task: the outcome of these commands is unknown.
            unknown = CommitUnknown(
                f"the metadata service failed while it executed the command ({error!r}); its outcome is unknown: "
                "restart the process and execute it again"
            )
            _answer(batch, [unknown] * len(batch))
            raise
        self._append_seconds.observe((self._clock.monotonic_ms() - begun_ms) / 1000)
        self._batches += 1
        self._commands_executed += len(batch)
        self._publish()
        _answer(batch, answers)

    def _save_snapshot_in_background(self) -> None:
        """Saves a due snapshot in a task of its own, since encoding a large image takes a second or two."""
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
            await self._news_or_interval()
            try:
                await self._read()
            except Unavailable as error:
                self._warn_of_unreadable_log(error)
            else:
                self._note_readable_log()
            self._publish()

    async def _news_or_interval(self) -> None:
        """Why poll at all: SQLite cannot notify another process, and PostgreSQL's notices may be lost."""
        if self._news is None:
            await self._clock.sleep_ms(self._follow_interval_ms)
            return
        await self._clock.sleep_ms(READS_APART_MS)
        left_ms = (HEARD_INTERVAL_MS if self._news.is_heard else self._follow_interval_ms) - READS_APART_MS
        await self._set_or_late(self._has_news, max(left_ms, 0))
        self._has_news.clear()

    def _warn_of_unreadable_log(self, error: Unavailable) -> None:
        """Warns at the first failed attempt, and then at intervals: there are ten attempts in a second."""
        now_ms = self._clock.monotonic_ms()
        if self._warned_ms is None or now_ms - self._warned_ms >= UNREADABLE_WARNING_INTERVAL_MS:
            self._warned_ms = now_ms
            logger.warning("the metadata log cannot be read, the service tries again: %s", error)

    def _note_readable_log(self) -> None:
        if self._warned_ms is not None:
            self._warned_ms = None
            logger.warning("the metadata log can be read again")

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
