"""Defines the grades of requests to the buckets and the two directions, and decides which request gets the next slice
of one direction. Pure: the time is an argument.

The limit is a bucket of *tokens*, one for each byte. A slice is granted while the number of tokens is not negative, and
may make it negative; requests that are never held make it negative at once, down to ``DEBT_MS_MAX`` of the limit. Of
the requests that wait, the highest grade gets the next slice, and among equals the oldest request.

No request waits for ever:

- A grade that was passed over PASSED_OVER_MAX times gets the next slice, even if requests of higher grades wait.
- When no request got a slice for IDLE_SLICES_MAX times as long as a slice takes, because uploads alone use up the
  limit, one slice is granted all the same. So the grades that are held have at least a sixteenth of the limit together.

The bytes of requests that wait are bounded, too: by WAITING_MS_MAX of the limit.
"""

from collections import deque
from enum import Enum, IntEnum

import msgspec

from siltstone.model.errors import InvalidRequest, Unavailable
from siltstone.model.limits import BANDWIDTH_IN_BYTES_PER_SECOND, BANDWIDTH_OUT_BYTES_PER_SECOND, MIB


class Grade(IntEnum):
    """The grade of a request. A lower number has the higher priority."""

    UPLOAD = 0
    """Uploads of acknowledged data, recovery, logs in a bucket, and small requests, such as indexes and marks. They are
    counted and never held."""

    TAIL_READ = 1
    """Reads of clients that are nearly at the end of their stream."""

    CATCH_UP_READ = 2
    """Reads of clients that are far behind."""

    URGENT = 3
    """Maintenance that must not wait: a disk fills up, or stream set objects are so old that they have to be split."""

    MAINTENANCE = 4
    """All other maintenance that copies."""

    @property
    def label(self) -> str:
        """The name in metrics and in texts, such as ``catch-up-read``."""
        return self.name.lower().replace("_", "-")


HELD_GRADES: tuple[Grade, ...] = tuple(grade for grade in Grade if grade is not Grade.UPLOAD)


class Direction(Enum):
    IN = "in"
    """Bytes that are read from a bucket."""

    OUT = "out"
    """Bytes that are written to a bucket."""


class BandwidthSettings(msgspec.Struct, frozen=True):
    """The most bytes in a second that one process reads from all buckets together, and writes to them; 0: no limit."""

    in_bytes_per_second: int = BANDWIDTH_IN_BYTES_PER_SECOND
    out_bytes_per_second: int = BANDWIDTH_OUT_BYTES_PER_SECOND

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if (value := getattr(self, name)) < 0:
                raise InvalidRequest(
                    f"bandwidth.{name} is {value}; it must be at least 0, which means no limit"
                )

    def of(self, direction: Direction) -> int:
        return self.in_bytes_per_second if direction is Direction.IN else self.out_bytes_per_second


SLICE_BYTES_MAX = 1 * MIB
"""A sixteenth of a second of a limit of 16 MiB/s: a request of a higher grade waits no longer than that for its first
slice [AutoMQ gives tokens in slices of this size]."""

SLICES_PER_SECOND_MIN = 16
"""With a lower limit slices are smaller, for the same reason."""

PASSED_OVER_MAX = 15
"""A grade for which higher grades always wait gets a sixteenth of the slices: enough to end, and too little to slow the
others down much."""

IDLE_SLICES_MAX = 16

BURST_MS_MAX = 1_000
DEBT_MS_MAX = 1_000
"""A direction that was idle, or overloaded by uploads, is back at its limit after a second."""

WAITING_MS_MAX = 30_000
WAITING_BYTES_MIN = 64 * MIB
"""A client gives up a request after 30 s, so it would be useless to let more bytes wait than pass in that time; but a
few of the largest requests may always wait."""


class TooMuchWaits(Unavailable):
    """More bytes wait for the bandwidth limit already than could pass in WAITING_MS_MAX."""

    def __init__(self, waiting_bytes: int, bytes_per_second: int) -> None:
        super().__init__(
            f"{waiting_bytes} bytes wait already for the limit of {bytes_per_second} bytes a second: raise "
            "bandwidth.in_bytes_per_second or bandwidth.out_bytes_per_second, or read less at a time"
        )
        self.waiting_bytes = waiting_bytes
        self.bytes_per_second = bytes_per_second


class Ticket:
    """A request that waits, or has waited. ``is_admitted``: the request has all its slices."""

    __slots__ = ("asked_ms", "bytes_left", "grade", "is_admitted")

    def __init__(self, grade: Grade, size_bytes: int, asked_ms: float) -> None:
        self.grade = grade
        self.bytes_left = size_bytes
        self.asked_ms = asked_ms
        self.is_admitted = False


class BandwidthTurns:
    """The turns of one direction. ``bytes_per_second`` 0 means no limit: then everything is admitted at once. Times are
    milliseconds that never decrease; amounts are counted in bytes × 1000, so that whole numbers stay whole."""

    def __init__(self, bytes_per_second: int, now_ms: float, burst_ms_max: int = BURST_MS_MAX) -> None:
        """``burst_ms_max``: a direction that was idle may afterwards pass at once what it could have passed in the idle
        time, at most in this time."""
        assert bytes_per_second >= 0
        self._burst_ms_max = burst_ms_max
        self._rate = bytes_per_second
        self._tokens = 0.0
        self._counted_ms = now_ms
        self._given_ms = now_ms
        self._waiting: dict[Grade, deque[Ticket]] = {grade: deque() for grade in HELD_GRADES}
        self._passed_over: dict[Grade, int] = dict.fromkeys(HELD_GRADES, 0)

    @property
    def bytes_per_second(self) -> int:
        return self._rate

    @property
    def slice_bytes(self) -> int:
        return max(1, min(SLICE_BYTES_MAX, self._rate // SLICES_PER_SECOND_MIN))

    def waiting_bytes(self, grade: Grade) -> int:
        return sum(ticket.bytes_left for ticket in self._waiting.get(grade, ()))

    def change(self, bytes_per_second: int, now_ms: float) -> list[Ticket]:
        """Sets another limit. Returns the tickets that it admits."""
        self._count(now_ms)
        self._rate = bytes_per_second
        self._tokens = min(max(self._tokens, -self._debt_max), self._burst_max)
        return self.advance(now_ms)

    def passed(self, size_bytes: int, now_ms: float) -> None:
        """Counts bytes that have passed, or pass now, and are never held."""
        self._count(now_ms)
        self._spend(size_bytes)

    def ask(self, grade: Grade, size_bytes: int, now_ms: float) -> Ticket:
        """Adds a request. It may pass when its ticket is admitted, which may be at once. Raises TooMuchWaits."""
        ticket = Ticket(grade, size_bytes, now_ms)
        if grade is Grade.UPLOAD or not self._rate or not size_bytes:
            self.passed(size_bytes, now_ms)
            ticket.bytes_left, ticket.is_admitted = 0, True
            return ticket
        waiting_bytes = sum(map(self.waiting_bytes, HELD_GRADES))
        if waiting_bytes and waiting_bytes + size_bytes > self._waiting_max:
            raise TooMuchWaits(waiting_bytes, self._rate)
        self._waiting[grade].append(ticket)
        return ticket

    def try_pass(self, size_bytes: int, now_ms: float) -> bool:
        """Returns whether so many bytes may pass at once, because no request waits before them; if so, they count as
        passed."""
        self._count(now_ms)
        if self._rate:
            last_slice = min(self.slice_bytes, size_bytes)
            if self._next() is not None or self._tokens < (size_bytes - last_slice) * 1000:
                return False
            self._given_ms = now_ms
        self._spend(size_bytes)
        return True

    def withdraw(self, ticket: Ticket) -> None:
        """Removes a request that was cancelled. Slices that it got already count as used. Does nothing if the ticket
        does not wait."""
        if not ticket.is_admitted:
            queue = self._waiting[ticket.grade]
            if ticket in queue:
                queue.remove(ticket)
            self._forget_if_empty(ticket.grade)

    def advance(self, now_ms: float) -> list[Ticket]:
        """Grants the slices that may be granted by now. Returns the tickets that are admitted by them, in that
        order."""
        self._count(now_ms)
        admitted: list[Ticket] = []
        while (grade := self._next()) is not None and (self._tokens >= 0 or self._is_idle(now_ms)):
            ticket = self._waiting[grade][0]
            size_bytes = min(self.slice_bytes, ticket.bytes_left) if self._rate else ticket.bytes_left
            self._give(grade, size_bytes, now_ms)
            ticket.bytes_left -= size_bytes
            if not ticket.bytes_left:
                ticket.is_admitted = True
                admitted.append(self._waiting[grade].popleft())
                self._forget_if_empty(grade)
        return admitted

    def debt_ms(self, now_ms: float) -> float:
        """Returns the milliseconds until the number of tokens is no longer negative."""
        self._count(now_ms)
        return max(0.0, -self._tokens / self._rate) if self._rate else 0.0

    def next_ms(self, now_ms: float) -> float | None:
        """Returns the milliseconds until the next slice can be granted; None when no request waits."""
        if self._next() is None:
            return None
        if not self._rate:
            return 0.0
        until_paid_ms = self.debt_ms(now_ms)
        return min(until_paid_ms, max(0.0, self._given_ms + self._idle_ms - now_ms))

    # -- tokens ------------------------------------------------------------------------------------------

    @property
    def _burst_max(self) -> float:
        return float(self._rate * self._burst_ms_max)

    @property
    def _debt_max(self) -> float:
        return float(self._rate * DEBT_MS_MAX)

    @property
    def _waiting_max(self) -> int:
        return max(WAITING_BYTES_MIN, self._rate * WAITING_MS_MAX // 1000)

    @property
    def _idle_ms(self) -> float:
        return IDLE_SLICES_MAX * self.slice_bytes * 1000 / self._rate if self._rate else 0.0

    def _is_idle(self, now_ms: float) -> bool:
        return now_ms - self._given_ms >= self._idle_ms

    def _count(self, now_ms: float) -> None:
        if now_ms > self._counted_ms:
            self._tokens = min(self._tokens + (now_ms - self._counted_ms) * self._rate, self._burst_max)
            self._counted_ms = now_ms

    def _spend(self, size_bytes: int) -> None:
        self._tokens = max(self._tokens - size_bytes * 1000, -self._debt_max)

    # -- turns -------------------------------------------------------------------------------------------

    def _next(self) -> Grade | None:
        """Returns the grade that gets the next slice; None when no request waits."""
        waiting = [grade for grade in HELD_GRADES if self._waiting[grade]]
        if not waiting:
            return None
        longest = max(waiting, key=lambda grade: self._passed_over[grade])
        return longest if self._passed_over[longest] >= PASSED_OVER_MAX else waiting[0]

    def _give(self, grade: Grade, size_bytes: int, now_ms: float) -> None:
        self._spend(size_bytes)
        self._given_ms = now_ms
        self._passed_over[grade] = 0
        for other in HELD_GRADES:
            if other > grade and self._waiting[other]:
                self._passed_over[other] += 1

    def _forget_if_empty(self, grade: Grade) -> None:
        if not self._waiting[grade]:
            self._passed_over[grade] = 0
