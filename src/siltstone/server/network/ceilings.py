"""The ceiling of a listener: how many connections it may have, and how many new ones and how many bytes in a
second; and the closing of refused connections after a while.

A listener above its rate rests: its clients wait in the backlog of the kernel, as in Kafka. A connection from an
address above *its* rate is closed late, so that a client which comes back at once does not come back sooner. Above its
bytes the clients wait that use more than their share, and no others: a client is a name at an address, however many
connections it has.
"""

import socket
from collections.abc import Callable
from functools import partial

from siltstone.broker.quotas.windows import MeasuredRate, fair_share
from siltstone.broker.request import ConnectionContext
from siltstone.model.access import NODE, SessionState
from siltstone.model.serving_limits import LATE_CLOSINGS_MAX, MUTED_MS_MAX, QUOTA_WINDOW_MS
from siltstone.runtime.clock import Clock, Timer
from siltstone.server.network.listener_settings import ListenerSettings

SHARING_MS = 250
"""How often the share of each client is worked out: with thousands of clients it takes some ms."""

DelayOfArrival = Callable[[str], float]
"""Counts a new connection from a host; returns 0, or in how many ms it is closed because there are too many."""


class ListenerCeiling:
    """``open_count``: the connections of the listener, handshakes under way included."""

    def __init__(self, settings: ListenerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._arrivals = MeasuredRate()
        self._bytes = MeasuredRate()
        self._clients: dict[tuple[str, str], MeasuredRate] = {}
        self._share = 0.0
        self._shared_ms = float("-inf")
        self.open_count = 0

    @property
    def is_full(self) -> bool:
        return 0 < self._settings.max_connections <= self.open_count

    def came(self) -> None:
        if self._settings.max_connection_creation_rate:
            self._arrivals.add(1, self._clock.monotonic_ms())

    def rest_ms(self) -> float:
        """Returns for how long the listener accepts nothing; 0: it is not above its rate."""
        limit = self._settings.max_connection_creation_rate
        if not limit:
            return 0.0
        return min(self._arrivals.debt_ms(limit, self._clock.monotonic_ms()), QUOTA_WINDOW_MS)

    @property
    def counts_bytes(self) -> bool:
        return self._settings.bytes_per_second_max > 0

    def carried(self, connection: ConnectionContext, byte_count: int) -> None:
        """Counts bytes that came or left. Above the rate of the listener a connection is muted, for MUTED_MS_MAX at
        most, whose client uses more than its share. A login and a node are not held back."""
        if connection.session.state is not SessionState.AUTHENTICATED or connection.principal is NODE:
            return
        now_ms = self._clock.monotonic_ms()
        self._bytes.add(byte_count, now_ms)
        client = self._client_of(connection)
        client.add(byte_count, now_ms)
        share = self._share_at(now_ms)
        if self._bytes.debt_ms(self._settings.bytes_per_second_max, now_ms) <= 0:
            return
        debt_ms = client.debt_ms(share, now_ms)
        if debt_ms > 0:
            until_ms = now_ms + min(debt_ms, MUTED_MS_MAX)
            connection.muted_until_ms = max(connection.muted_until_ms, until_ms)

    def _client_of(self, connection: ConnectionContext) -> MeasuredRate:
        key = connection.principal.name, connection.client_host
        if (found := self._clients.get(key)) is None:
            found = self._clients[key] = MeasuredRate()
        return found

    def _share_at(self, now_ms: float) -> float:
        """Returns the share of each client, which is worked out every SHARING_MS at most."""
        if now_ms - self._shared_ms >= SHARING_MS:
            rates = {key: rate for key, each in self._clients.items() if (rate := each.per_second(now_ms))}
            self._clients = {key: self._clients[key] for key in rates}
            self._share = fair_share(rates.values(), self._settings.bytes_per_second_max)
            self._shared_ms = now_ms
        return self._share


class LateClosings:
    """Sockets of refused connections that are closed in a while. Of too many the oldest is closed at once."""

    def __init__(self, clock: Clock, most: int = LATE_CLOSINGS_MAX) -> None:
        self._clock = clock
        self._most = most
        self._timers: dict[socket.socket, Timer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def add(self, accepted: socket.socket, delay_ms: float) -> None:
        """Takes the socket over: the caller's object has none any more."""
        taken = socket.socket(fileno=accepted.detach())
        if len(self._timers) >= self._most:
            self._close(next(iter(self._timers)))
        self._timers[taken] = self._clock.call_after_ms(delay_ms, partial(self._close, taken))

    def _close(self, taken: socket.socket) -> None:
        self._timers.pop(taken).cancel()
        taken.close()

    def close_all(self) -> None:
        for taken in tuple(self._timers):
            self._close(taken)
