"""All timers of all groups in one heap, which has the clock ring once for the earliest.

A session's timer is set anew with every heartbeat, each time to a later moment: that costs two writes and no place
in the heap. The entry in the heap is moved on when its old moment comes.
"""

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from itertools import count

import msgspec

from siltstone.runtime.clock import Clock, Timer

_STALE_ENTRIES_MAX = 64


class _Set(msgspec.Struct):
    """``entry`` is the place in the heap that counts, at ``entry_ms``: never later than ``due_ms``."""

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
        """Replaces the timer of that key. ``ring`` must not raise."""
        due_ms = self._clock.monotonic_ms() + delay_ms
        standing = self._set.get(key)
        if standing is not None and standing.entry_ms <= due_ms:
            standing.due_ms, standing.ring = due_ms, ring
            return
        self._set[key] = self._push(key, due_ms, ring)
        self._arm()

    def cancel(self, key: Hashable) -> None:
        """None may be set."""
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
        """Entries of cancelled timers lie in the heap until their time, unless they become too many."""
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
        """What is set meanwhile rings in a later turn of the event loop, be it due at once: others want their turn."""
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
