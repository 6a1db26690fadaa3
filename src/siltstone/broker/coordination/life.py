"""The life of a coordinator::

    LOADING ──loaded──▶ ACTIVE ──an append failed, or a bug──▶ LOADING (reads the log again)
       │                   └──end──▶ CLOSED
       └──damaged log──▶ DAMAGED ◀──a bug in a background task── LOADING, ACTIVE

A damaged log is read again from time to time, in case its object was restored; no damage is skipped. Memory holds only
what the log holds, except for what a client can ask for again. So after any failure the coordinator reads the log
again, and no answer contradicts the log.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import CorruptData, SiltstoneError
from siltstone.model.serving_limits import (
    COORDINATOR_LOAD_BACKOFF_MS_MAX,
    COORDINATOR_LOAD_BACKOFF_MS_MIN,
    COORDINATOR_LOAD_WAIT_MS,
)
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup

ReadLog = Callable[[], Awaitable[Callable[[], None]]]
"""Opens the log and reads it. Returns a function that takes what was read as the state in memory.
Raises SiltstoneError."""

log = logging.getLogger(__name__)


class Phase(Enum):
    LOADING = auto()
    ACTIVE = auto()
    DAMAGED = auto()
    CLOSED = auto()


REFUSALS = {
    Phase.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    Phase.ACTIVE: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,  # it was loaded again during the request
    Phase.DAMAGED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    Phase.CLOSED: ErrorCode.NOT_COORDINATOR,
}


class CoordinatorLife:
    """``held`` and ``log_name``: what the coordinator has in memory, such as "groups", and the partition that is its
    log, for messages. ``discard`` forgets the state in memory and ends what works on it."""

    def __init__(
        self, held: str, log_name: str, clock: Clock, read_log: ReadLog, discard: Callable[[], None]
    ) -> None:
        self._held = held
        self._log_name = log_name
        self._clock = clock
        self._read_log = read_log
        self._discard = discard
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._checkpointed_load: int | None = None
        self.tasks = TaskGroup(f"{held} of {log_name}", self._task_failed)
        self.phase = Phase.LOADING
        self.loads = self.checkpoints = 0

    @property
    def refusal(self) -> ErrorCode:
        """The answer to a request that this coordinator cannot decide now."""
        return REFUSALS[self.phase]

    @property
    def _has_ended(self) -> bool:
        return self.phase is Phase.CLOSED

    def start(self) -> None:
        self.tasks.start("load", self._load())

    async def loaded(self) -> None:
        """Waits until the log is read, at most COORDINATOR_LOAD_WAIT_MS."""
        if self.phase is not Phase.LOADING:
            return
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[loaded] = None
        with resolved_after(loaded, COORDINATOR_LOAD_WAIT_MS, self._clock):
            await loaded
        self._waiting.pop(loaded, None)

    def fail(self, failure: BaseException | str) -> None:
        """Discards the state in memory and reads the log again."""
        if self.phase is not Phase.ACTIVE:
            return
        log.warning("%s of %s are loaded again after a failure: %r", self._held, self._log_name, failure)
        self.phase = Phase.LOADING
        self._discard()
        self.start()

    def end(self) -> None:
        """Every later request is refused with NOT_COORDINATOR. The caller discards the state in memory."""
        self._enter(Phase.CLOSED)

    def checkpoint(self, write: Callable[[], Awaitable[bool]]) -> None:
        """Starts to write the live state again at the end of the log, unless that is under way. ``write`` returns
        whether the log could be appended to, and raises SiltstoneError when it could not be trimmed."""
        if self._checkpointed_load != self.loads:
            self._checkpointed_load = self.loads
            self.tasks.start("checkpoint", self._checkpoint(write))

    # ----------------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        backoff_ms, logged = COORDINATOR_LOAD_BACKOFF_MS_MIN, ""
        while not self._has_ended:
            try:
                begin = await self._read_log()
            except CorruptData as damage:
                if str(damage) != logged:
                    logged = str(damage)
                    log.error(
                        "%s cannot be read, its %s are not available until it can: %s. Restore what is damaged; "
                        "loading is tried again every %d s",
                        self._log_name, self._held, damage, COORDINATOR_LOAD_BACKOFF_MS_MAX // 1000,
                    )  # fmt: skip
                if not self._has_ended:
                    self._enter(Phase.DAMAGED)
                await self._clock.sleep_ms(COORDINATOR_LOAD_BACKOFF_MS_MAX)
            except SiltstoneError as trouble:
                log.warning(
                    "%s of %s could not be loaded, will retry: %s", self._held, self._log_name, trouble
                )
                await self._clock.sleep_ms(backoff_ms)
                backoff_ms = min(2 * backoff_ms, COORDINATOR_LOAD_BACKOFF_MS_MAX)
            else:
                if not self._has_ended:
                    self.loads += 1
                    begin()
                    self._enter(Phase.ACTIVE)
                return

    async def _checkpoint(self, write: Callable[[], Awaitable[bool]]) -> None:
        load = self.loads
        try:
            is_done = await write()
        except SiltstoneError as trouble:
            log.warning("%s could not be trimmed, its log stays longer: %s", self._log_name, trouble)
            is_done = True  # the next checkpoint, after as many new records, trims this part too
        if is_done and load == self.loads:
            self._checkpointed_load = None
            self.checkpoints += 1

    def _task_failed(self, _: BaseException) -> None:
        """Only a bug ends a task: the state in memory is not certain, and loading again may meet the same bug."""
        if not self._has_ended:
            self._enter(Phase.DAMAGED)
            self._discard()

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        for waiting in self._waiting:
            resolve(waiting)
        self._waiting.clear()


@contextmanager
def resolved_after(future: "asyncio.Future[None]", duration_ms: float, clock: Clock) -> Iterator[None]:
    """Resolves the future after so long; not any more when the block has ended."""
    timer = clock.call_after_ms(duration_ms, lambda: resolve(future))
    try:
        yield
    finally:
        timer.cancel()


def resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
