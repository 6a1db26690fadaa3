"""Which batches have to stay for what they say of their producers (G26, G27).

A broker that reads the stream from its beginning learns from them the last sequence number of each producer, or from
a last marker its epoch. They are found by **offset**, in the pass itself: no producer snapshot is asked for, so none
can be older than the bound (K32 holds by construction). A producer idle for its expiration time needs nothing kept.
"""

import msgspec


class _Last(msgspec.Struct):
    """Base offset of its last batch with data, or of its last marker while there is none; when it was last active."""

    base_offset: int
    active_ms: int
    is_marker: bool
    is_open: bool


class Producers:
    """Told of batches in offset order. Producers that have expired are forgotten as soon as they are seen to have,
    those with an open transaction excepted: its marker says when they were last active."""

    def __init__(self, now_ms: int, expiration_ms: int) -> None:
        self._oldest_ms = now_ms - expiration_ms
        self._last: dict[int, _Last] = {}

    def batch(
        self, producer_id: int, base_offset: int, max_timestamp_ms: int, is_transactional: bool
    ) -> None:
        if is_transactional or max_timestamp_ms > self._oldest_ms:
            self._last[producer_id] = _Last(base_offset, max_timestamp_ms, False, is_transactional)
        else:
            self._last.pop(producer_id, None)

    def marker(self, producer_id: int, base_offset: int, timestamp_ms: int) -> None:
        known = self._last.get(producer_id)
        if timestamp_ms <= self._oldest_ms:
            self._last.pop(producer_id, None)
        elif known is None or known.is_marker:
            self._last[producer_id] = _Last(base_offset, timestamp_ms, True, False)
        else:
            known.active_ms, known.is_open = timestamp_ms, False

    def batches_that_stay(self) -> frozenset[int]:
        """Their base offsets."""
        return frozenset(
            last.base_offset
            for last in self._last.values()
            if last.is_open or last.active_ms > self._oldest_ms
        )
