"""All timers of all groups in one heap; only the earliest is a timer of the clock.

Every heartbeat sets the session's timer again, to a later moment. That costs two writes and leaves the heap as it is:
the heap keeps the entry for the old moment, and pushes a new entry when the old moment comes.
"""

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from itertools import count

import msgspec

from siltstone.runtime.clock import Clock, Timer

_STALE_ENTRIES_MAX = 64


class _Set(msgspec.Struct):
    """``entry`` is the number of the timer's entry in the heap, at ``entry_ms``, which is never later than ``due_ms``.
    Entries of this timer with other numbers are stale."""

    due_ms: float
    ring: Callable[[], None]
    entry: int
    entry_ms: float


class TimerHeap:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._set: dict[Hashable, _Set] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._entries = count()
        self._armed: Timer | None = None
        self._armed_ms = 0.0

    def __len__(self) -> int:
        return len(self._set)

    def set(self, key: Hashable, delay_ms: float, ring: Callable[[], None]) -> None:
        """Replaces the timer of that key, if one is set. ``ring`` must not raise."""
        due_ms = self._clock.monotonic_ms() + delay_ms
        known = self._set.get(key)
        if known is not None and known.entry_ms <= due_ms:
            known.due_ms, known.ring = due_ms, ring
            return
        self._set[key] = self._push(key, due_ms, ring)
        self._arm()

    def cancel(self, key: Hashable) -> None:
        """Does nothing when no timer of that key is set."""
        if self._set.pop(key, None) is not None:
            self._sweep()

    def close(self) -> None:
        self._set.clear()
        self._heap.clear()
        if self._armed is not None:
            self._armed.cancel()

    def _push(self, key: Hashable, due_ms: float, ring: Callable[[], None]) -> _Set:
        entry = next(self._entries)
        heappush(self._heap, (due_ms, entry, key))
        return _Set(due_ms, ring, entry, due_ms)

    def _sweep(self) -> None:
        """Stale entries stay in the heap until their moment comes, unless they outnumber the set timers."""
        if len(self._heap) > 2 * len(self._set) + _STALE_ENTRIES_MAX:
            self._heap = [(timer.entry_ms, timer.entry, key) for key, timer in self._set.items()]
            heapify(self._heap)

    def _arm(self) -> None:
        if not self._heap:
            return
        earliest_ms = self._heap[0][0]
        if self._armed is not None:
            if self._armed_ms <= earliest_ms:
                return
            self._armed.cancel()
        self._armed_ms = earliest_ms
        delay_ms = max(earliest_ms - self._clock.monotonic_ms(), 0)
        self._armed = self._clock.call_after_ms(delay_ms, self._ring_due)

    def _ring_due(self) -> None:
        """A timer that is set meanwhile rings in a later turn of the event loop even if it is due at once, so that
        other tasks run in between."""
        self._armed = None
        now_ms, newer = self._clock.monotonic_ms(), next(self._entries)
        while self._heap and self._heap[0][0] <= now_ms and self._heap[0][1] < newer:
            _, entry, key = heappop(self._heap)
            timer = self._set.get(key)
            if timer is None or timer.entry != entry:
                continue
            if timer.due_ms > now_ms:
                self._set[key] = self._push(key, timer.due_ms, timer.ring)
                continue
            del self._set[key]
            timer.ring()
        self._arm()
