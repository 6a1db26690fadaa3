"""``Limiter`` is the limiter of a process, at which threads and coroutines wait for slices of the bandwidth.

A thread that waits blocks in steps of at most STEP_MS; after each step its ``check`` may end the wait. A coroutine
waits for a future; one timer of its event loop serves all of them. Both may be cancelled at any moment: slices that
were granted to them count as used, and nothing else remains.
"""

import asyncio
from collections.abc import Callable
from threading import Lock

import msgspec

from siltstone.model.limits import MIB
from siltstone.object_store.bandwidth.turns import (
    BURST_MS_MAX,
    BandwidthSettings,
    BandwidthTurns,
    Direction,
    Grade,
    Ticket,
    TooMuchWaits,
)
from siltstone.runtime.clock import Clock, SystemClock, Timer

STEP_MS = 250
"""The longest wait of a thread before ``check`` is called again: cancelling takes effect after that."""

WAIT_MS_MIN = 0.01
"""A shorter wait might not change the time, which is a floating-point number."""

PIECE_BYTES = 1 * MIB
"""A thread asks for this many bytes at a time. The number of threads bounds what they ask for together, so it is never
refused."""

Check = Callable[[], None]
"""Raises if the caller that waits has been cancelled."""


def _nothing() -> None:
    return None


class Passed(msgspec.Struct, frozen=True):
    """The bytes of one grade in one direction that have passed, and that wait. ``held_seconds``: the time for which all
    requests together waited."""

    direction: Direction
    grade: Grade
    size_bytes: int
    held_seconds: float
    waiting_bytes: int


class LimiterStatistics(msgspec.Struct, frozen=True):
    """``bytes_per_second`` by direction; 0: no limit."""

    bytes_per_second: dict[Direction, int]
    passed: tuple[Passed, ...]

    def of(self, direction: Direction, grade: Grade) -> Passed:
        return next(each for each in self.passed if (each.direction, each.grade) == (direction, grade))


class _Lane:
    """One direction: its turns, its counts, and the futures of coroutines that wait."""

    def __init__(self, bytes_per_second: int, now_ms: float, burst_ms_max: int) -> None:
        self.turns = BandwidthTurns(bytes_per_second, now_ms, burst_ms_max)
        self.size_bytes = dict.fromkeys(Grade, 0)
        self.held_ms = dict.fromkeys(Grade, 0.0)
        self.awaited: dict[Ticket, asyncio.Future[None]] = {}
        self.timer: Timer | None = None


class Limiter:
    """Holds requests of all threads of a process, and of one event loop."""

    def __init__(self, settings: BandwidthSettings, clock: Clock, burst_ms_max: int = BURST_MS_MAX) -> None:
        self._clock = clock
        self._lock = Lock()
        now_ms = clock.monotonic_ms()
        self._lanes = {
            direction: _Lane(settings.of(direction), now_ms, burst_ms_max) for direction in Direction
        }

    def is_limited(self, direction: Direction) -> bool:
        return self._lanes[direction].turns.bytes_per_second > 0

    def change(self, direction: Direction, bytes_per_second: int) -> None:
        """Sets another limit. If coroutines wait, it is called on their event loop."""
        lane = self._lanes[direction]
        with self._lock:
            self._tell(lane, lane.turns.change(bytes_per_second, self._clock.monotonic_ms()))
        self._set_timer(lane)

    def count(self, direction: Direction, size_bytes: int) -> None:
        """Counts bytes that are never held."""
        lane = self._lanes[direction]
        with self._lock:
            lane.size_bytes[Grade.UPLOAD] += size_bytes
            lane.turns.passed(size_bytes, self._clock.monotonic_ms())

    def hold(self, direction: Direction, grade: Grade, size_bytes: int, check: Check = _nothing) -> float:
        """Blocks the calling thread until so many bytes may pass. Returns how many milliseconds that took. What
        ``check`` raises ends the wait."""
        begun_ms = self._clock.monotonic_ms()
        for at in range(0, size_bytes, PIECE_BYTES):
            self._hold(self._lanes[direction], grade, min(PIECE_BYTES, size_bytes - at), check)
        held_ms = self._clock.monotonic_ms() - begun_ms
        self._note(direction, grade, size_bytes, held_ms)
        return held_ms

    def pay(self, direction: Direction, check: Check = _nothing) -> float:
        """Blocks the calling thread until the limit allows all bytes that have passed, so that a limiter which is no
        longer used has kept to its limit. Returns how many milliseconds that took."""
        begun_ms = now_ms = self._clock.monotonic_ms()
        while (debt_ms := self._debt_ms(direction, now_ms)) > 0:
            check()
            self._clock.block_ms(min(STEP_MS, max(WAIT_MS_MIN, debt_ms)))
            now_ms = self._clock.monotonic_ms()
        return now_ms - begun_ms

    def _debt_ms(self, direction: Direction, now_ms: float) -> float:
        with self._lock:
            return self._lanes[direction].turns.debt_ms(now_ms)

    async def wait(self, direction: Direction, grade: Grade, size_bytes: int) -> None:
        """Waits until so many bytes may pass. Raises TooMuchWaits."""
        lane = self._lanes[direction]
        if not lane.turns.bytes_per_second and not lane.awaited:
            self._note(direction, grade, size_bytes, 0.0)
            return
        begun_ms = self._clock.monotonic_ms()
        with self._lock:
            ticket = lane.turns.ask(grade, size_bytes, begun_ms)
            admitted = asyncio.get_running_loop().create_future()
            lane.awaited[ticket] = admitted
            self._tell(lane, [ticket] if ticket.is_admitted else lane.turns.advance(begun_ms))
        try:
            self._set_timer(lane)
            await admitted
        finally:
            with self._lock:
                lane.awaited.pop(ticket, None)
                lane.turns.withdraw(ticket)
        self._note(direction, grade, size_bytes, self._clock.monotonic_ms() - begun_ms)

    def try_pass(self, direction: Direction, grade: Grade, size_bytes: int) -> bool:
        """Returns whether so many bytes may pass at once; if so, they count as passed."""
        lane = self._lanes[direction]
        with self._lock:
            may_pass = lane.turns.try_pass(size_bytes, self._clock.monotonic_ms())
            lane.size_bytes[grade] += size_bytes if may_pass else 0
            return may_pass

    def statistics(self) -> LimiterStatistics:
        with self._lock:
            return LimiterStatistics(
                {direction: lane.turns.bytes_per_second for direction, lane in self._lanes.items()},
                tuple(
                    Passed(
                        direction,
                        grade,
                        lane.size_bytes[grade],
                        lane.held_ms[grade] / 1000,
                        lane.turns.waiting_bytes(grade),
                    )
                    for direction, lane in self._lanes.items()
                    for grade in Grade
                ),
            )

    def _hold(self, lane: _Lane, grade: Grade, size_bytes: int, check: Check) -> None:
        with self._lock:
            ticket = self._asked(lane, grade, size_bytes)
            wait_ms = self._advanced(lane, ticket)
        try:
            while wait_ms is not None:
                check()
                self._clock.block_ms(wait_ms)
                with self._lock:
                    if ticket is None:
                        ticket = self._asked(lane, grade, size_bytes)
                    wait_ms = self._advanced(lane, ticket)
            check()
        finally:
            if ticket is not None:
                with self._lock:
                    lane.turns.withdraw(ticket)

    def _asked(self, lane: _Lane, grade: Grade, size_bytes: int) -> Ticket | None:
        """Asks for a ticket. None: so many bytes wait that the thread has to ask again later."""
        try:
            return lane.turns.ask(grade, size_bytes, self._clock.monotonic_ms())
        except TooMuchWaits:
            return None

    def _advanced(self, lane: _Lane, ticket: Ticket | None) -> float | None:
        """Grants slices. → How long the ticket's thread waits before it checks again; None: it is admitted."""
        now_ms = self._clock.monotonic_ms()
        self._tell(lane, lane.turns.advance(now_ms))
        if ticket is not None and ticket.is_admitted:
            return None
        next_ms = lane.turns.next_ms(now_ms)
        return min(STEP_MS, max(1.0, next_ms if next_ms is not None else 1.0))

    def _note(self, direction: Direction, grade: Grade, size_bytes: int, held_ms: float) -> None:
        with self._lock:
            lane = self._lanes[direction]
            lane.size_bytes[grade] += size_bytes
            lane.held_ms[grade] += held_ms

    def _tell(self, lane: _Lane, admitted: list[Ticket]) -> None:
        """Wakes those of the admitted requests that are coroutines. Any thread may call it."""
        for ticket in admitted:
            future = lane.awaited.pop(ticket, None)
            if future is not None:
                loop = future.get_loop()
                if loop is _running_loop():
                    _wake(future)
                else:
                    loop.call_soon_threadsafe(_wake, future)

    def _set_timer(self, lane: _Lane) -> None:
        """Sets the timer of the coroutines that wait, unless there are none or it is set. It is called on their event
        loop."""
        if lane.timer is not None or not lane.awaited:
            return
        with self._lock:
            next_ms = lane.turns.next_ms(self._clock.monotonic_ms())
        if next_ms is not None:
            lane.timer = self._clock.call_after_ms(max(1.0, next_ms), lambda: self._ring(lane))

    def _ring(self, lane: _Lane) -> None:
        lane.timer = None
        with self._lock:
            self._tell(lane, lane.turns.advance(self._clock.monotonic_ms()))
        self._set_timer(lane)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


_of_process: dict[BandwidthSettings, Limiter] = {}
_opening = Lock()


def limiter_of_process(settings: BandwidthSettings) -> Limiter:
    """Returns the limiter of the threads of this process, by the machine's clock: the same one for all callers with
    these settings."""
    with _opening:
        limiter = _of_process.get(settings)
        if limiter is None:
            limiter = _of_process[settings] = Limiter(settings, SystemClock())
        return limiter


def no_limit(clock: Clock) -> Limiter:
    """Returns a limiter that only counts."""
    return Limiter(BandwidthSettings(0, 0), clock)
