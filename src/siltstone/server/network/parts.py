"""The objects that all connections of a node share."""

from functools import cached_property
from typing import Protocol

from siltstone.broker.request import RequestHandler
from siltstone.runtime.clock import Clock
from siltstone.runtime.log_limit import LogLimit
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.network.answer_memory import AnswerMemory
from siltstone.server.network.frame_reader import DECRYPTED_BYTES, receive_buffer
from siltstone.server.network.request_memory import RequestMemory
from siltstone.server.network.settings import NetworkSettings
from siltstone.server.network.statistics import NetworkCounters
from siltstone.server.network.waiting_line import Waiter, WaitingLine


class PendingLogin(Protocol):
    """A connection that is not logged in yet."""

    def turn_away(self) -> None:
        """Closes it, because there are too many."""
        ...


class NetworkParts:
    """The handler, settings, counters, buffers and limits that all connections share.

    ``now_ms`` is the monotonic time of the last inspection, at most about a second ago. Connections record it with
    every request; reading the clock that often would be noticeable. ``closings_limit``: a scanner, or a client that is
    set up wrong and connects again and again, does not fill the log. ``unauthenticated``: the connections that
    are not logged in, the oldest first.
    """

    def __init__(
        self, handler: RequestHandler, settings: NetworkSettings, clock: Clock, tasks: TaskGroup
    ) -> None:
        self.handler = handler
        self.settings = settings
        self.clock = clock
        self.tasks = tasks
        self.counters = NetworkCounters()
        self.receive_buffer = receive_buffer()
        self.request_memory = RequestMemory(settings.queued_max_request_bytes)
        self.answer_memory = AnswerMemory(settings.answer_bytes_max)
        self.store_line: WaitingLine[Waiter] = WaitingLine(lambda: 0 if handler.wants_pause else 1)
        self.closings_limit = LogLimit(clock)
        self.unauthenticated: dict[PendingLogin, None] = {}
        self.now_ms = clock.monotonic_ms()

    @cached_property
    def decrypted_buffer(self) -> memoryview:
        """The receive buffer of connections with TLS, made for the first of them."""
        return receive_buffer(DECRYPTED_BYTES)
