"""Pure: which nodes are suspect, from the beats that one observer has polled, by the observer's own monotonic clock;
and whether others may suspect this node (``OwnLease``).

No clocks are compared: only the *change* of a beat's number counts. A node is suspect when its number has not changed
for a session, over at least POLLS_MIN polls in a row. Time does not count in which the observer's polls failed (the
board was unreachable, so no node could beat) or did not happen (the observer was stopped, and may itself be the node
that was silent).
"""

from collections.abc import Callable, Iterable

import msgspec

from siltstone.metadata.entities import NodeLife
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.leases.board import Beat

BEAT_INTERVAL_MS = 1_000
"""Kafka's brokers send a heartbeat every 2 s; here a beat costs little, one small statement without an fsync."""

SESSION_MS = 5_000
"""Five beats: a node that was stopped for 4 s is not fenced (N04) [Kafka: 9 s]."""

POLLS_MIN = 3
"""One poll is not enough: an observer that was stopped itself sees old beats at its first poll, because the next beats
of the others are still under way."""

GAP_MS_MAX = 3 * BEAT_INTERVAL_MS
"""A longer time between two polls means that the observer was stopped: it starts to count again."""


class _Silence(msgspec.Struct):
    life: NodeLife
    number: int | None
    silent_ms: float = 0.0
    polls: int = 0


def lives_to_watch(image: MetadataImage, observer_id: int) -> tuple[NodeLife, ...]:
    """Returns the lives of all other nodes from which beats are expected: neither fenced nodes nor recoverers beat."""
    return tuple(
        NodeLife(node.node_id, node.node_epoch, node.incarnation)
        for node in image.nodes.values()
        if node.is_live and node.node_id != observer_id
    )


class Suspicion:
    """What one observer knows of the other nodes. Times are in ms of its monotonic clock."""

    def __init__(self, session_ms: float = SESSION_MS) -> None:
        self._session_ms = session_ms
        self._watched: dict[int, _Silence] = {}
        self._polled_ms: float | None = None

    def polled(
        self, sent_ms: float, answered_ms: float, lives: Iterable[NodeLife], beats: Iterable[Beat]
    ) -> None:
        """Adds the answer to one poll. Between two polls, the time from the answer to the first until the sending of
        the second counts: at least so much time lies between the two reads of the board."""
        elapsed_ms = self._elapsed_ms(sent_ms)
        self._polled_ms = answered_ms
        rows = {beat.node_id: beat for beat in beats}
        self._watched = {
            life.node_id: self._after(
                self._watched.get(life.node_id), life, rows.get(life.node_id), elapsed_ms
            )
            for life in lives
        }

    def _elapsed_ms(self, sent_ms: float) -> float:
        if self._polled_ms is None:
            return 0.0
        elapsed_ms = sent_ms - self._polled_ms
        if elapsed_ms > GAP_MS_MAX:
            self._watched.clear()
            return 0.0
        return max(0.0, elapsed_ms)

    def _after(
        self, before: _Silence | None, life: NodeLife, row: Beat | None, elapsed_ms: float
    ) -> _Silence:
        """Returns the silence of a life after a poll. A row of another life, such as one that a zombie of a lower epoch
        wrote, is no beat of this life."""
        is_of_life = row is not None and (row.node_epoch, row.incarnation) == (
            life.node_epoch,
            life.incarnation,
        )
        number = row.number if row is not None and is_of_life else None
        if before is None or before.life != life or (number is not None and number != before.number):
            return _Silence(life, number)
        return _Silence(life, before.number, before.silent_ms + elapsed_ms, before.polls + 1)

    def poll_failed(self) -> None:
        """Notes a failed poll: the time until the next answer does not count, and polls in a row are counted again."""
        self._polled_ms = None
        for silence in self._watched.values():
            silence.polls = 0

    def suspects(self) -> tuple[NodeLife, ...]:
        """Returns the lives that are suspect as of the last poll, sorted by node id."""
        found = (
            silence.life
            for silence in self._watched.values()
            if silence.silent_ms >= self._session_ms and silence.polls >= POLLS_MIN
        )
        return tuple(sorted(found, key=lambda life: life.node_id))


def turn_of(observer_id: int, image: MetadataImage, suspects: Iterable[NodeLife]) -> int:
    """Returns how many live nodes that are not suspect have a lower id than the observer: they act before it."""
    silent = {life.node_id for life in suspects}
    return sum(
        node.is_live and node.node_id not in silent and node.node_id < observer_id
        for node in image.nodes.values()
    )


class OwnLease:
    """A node's own lease. While it is held, no other node can have fenced this one; it lasts for a session from the
    *sending* of the last beat that succeeded. A node without its lease answers no request about its partitions, which
    another node may lead by now. The lease is checked when an answer is *sent* (N22), because the process may have been
    stopped since the request arrived.

    A lease that was over is held again only when a read of the metadata log, started after the next beat, has shown
    that the node is still live in this life (``confirmed``). A beat alone proves nothing then: meanwhile another node
    may have fenced this one and may lead in its place, and this node's image may be older than that.

    ``boottime_ms`` is a clock that counts the suspension of the machine (``runtime.clock.boottime_ms``), which
    ``monotonic_ms`` does not (N07)."""

    def __init__(self, boottime_ms: Callable[[], float], session_ms: float = SESSION_MS) -> None:
        self._boottime_ms = boottime_ms
        self._session_ms = session_ms
        self._sent_ms: float | None = None
        self.times_over = 0
        self._times_confirmed = 0

    def now_ms(self) -> float:
        return self._boottime_ms()

    def renewed(self, sent_ms: float) -> None:
        """Notes that a beat which was sent at ``sent_ms`` of this clock is on the board."""
        if self._sent_ms is not None and not self._lasts:
            self.times_over += 1
        self._sent_ms = sent_ms if self._sent_ms is None else max(self._sent_ms, sent_ms)

    def confirmed(self, times_over: int) -> None:
        """Notes that the log showed the node live, in a read started when the lease had been over ``times_over``
        times."""
        self._times_confirmed = max(self._times_confirmed, times_over)

    @property
    def is_confirmed(self) -> bool:
        return self._times_confirmed == self.times_over

    @property
    def is_held(self) -> bool:
        return self.is_confirmed and self._lasts

    @property
    def _lasts(self) -> bool:
        return self._sent_ms is not None and self._boottime_ms() - self._sent_ms <= self._session_ms
