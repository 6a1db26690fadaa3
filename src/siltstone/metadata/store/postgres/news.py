"""Tells the nodes of a log that another one has appended, by PostgreSQL's LISTEN and NOTIFY.

A follower that only polls costs the server ten reads a second, and sees an entry a tenth of a second late. One that
listens reads when there is something, and once a second in any case: a notice may be lost, and only a read counts.

- A notice is a transaction of its own after the append, without a sync: with the append, it would hold up all notices
  of the server until the append is durable.
- A transaction pooler takes LISTEN and delivers nothing. So a connection counts as heard when it has received a notice
  of its own, which it sends at first and every CHECK_INTERVAL_MS.
"""

import logging
import select
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress

import psycopg
from psycopg import sql

from siltstone.metadata.store.postgres.connection import (
    CONNECT_TIMEOUT_SECONDS_MAX,
    DeadlineOver,
    TimedConnection,
    parameters_of,
)
from siltstone.metadata.store.postgres.place import PostgresPlace
from siltstone.runtime.clock import Clock

NOTICE_INTERVAL_MS = 20
"""The appends of this time share a notice."""

CHECK_INTERVAL_MS = 30_000
ANSWER_MS_MAX = 2_000
"""A connection that does not answer, or does not receive its own notice, for so long is of no use."""

RETRY_INTERVAL_MS = 5_000
"""A follower polls meanwhile, so there is no hurry."""

CHECK = "check"
logger = logging.getLogger(__name__)


class News:
    """``on_news`` is called in a thread of its own when another process may have appended, and when ``is_heard``
    changes. ``channel``: the name that all processes of the log listen to."""

    def __init__(
        self,
        place: PostgresPlace,
        channel: str,
        clock: Clock,
        on_news: Callable[[], None],
        *,
        retry_interval_ms: float = RETRY_INTERVAL_MS,
    ) -> None:
        self.is_heard = False
        """Whether notices are received at present. If not, the caller has to look more often."""
        self._place = place
        self._clock = clock
        self._on_news = on_news
        self._retry_interval_ms = retry_interval_ms
        self._listen = sql.SQL("LISTEN {}").format(sql.Identifier(channel))
        self._notify = sql.SQL(
            "SELECT set_config('synchronous_commit', 'off', true), pg_notify({}, {})"
        ).format(sql.Literal(channel), sql.Placeholder())
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._has_appended = self._is_closed = self._is_checked = self._has_news = False
        self._own_pid = 0
        self._thread = threading.Thread(target=self._run, name="siltstone-news", daemon=True)
        self._thread.start()

    def appended(self) -> None:
        """Other processes get a notice soon. Blocks for nothing."""
        self._has_appended = True
        self._wake()

    def close(self) -> None:
        """Returns when ``on_news`` will not be called any more, or after ANSWER_MS_MAX."""
        self._is_closed = True
        self._wake()
        self._thread.join(ANSWER_MS_MAX / 1000)
        self._waker.close()

    # -- in the thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_closed:
            try:
                # Why not psycopg's own ``with``: it rolls back first, and warns when a server that hangs cannot.
                with closing(self._connected()) as connection:
                    self._follow(connection)
            except (psycopg.Error, DeadlineOver) as trouble:
                logger.debug("no notices of the metadata log: %s", trouble)
            self._set_heard(False)
            self._rest()
        self._woken.close()

    def _rest(self) -> None:
        again_ms = self._clock.monotonic_ms() + self._retry_interval_ms
        while not self._is_closed and self._clock.monotonic_ms() < again_ms:
            self._wait(None, again_ms)

    def _connected(self) -> TimedConnection:
        parameters = {"connect_timeout": CONNECT_TIMEOUT_SECONDS_MAX, **parameters_of(self._place)}
        connection = TimedConnection.connect(autocommit=True, prepare_threshold=None, **parameters)
        connection.clock, connection.deadline_ms = self._clock, self._clock.monotonic_ms() + ANSWER_MS_MAX
        self._own_pid = connection.info.backend_pid
        connection.add_notify_handler(self._take)
        return connection

    def _follow(self, connection: TimedConnection) -> None:
        """Returns when the process closes, or the connection does not receive its own notices."""
        connection.execute(self._listen)
        asked_ms: float | None = None
        next_check_ms = next_notice_ms = 0.0
        while not self._is_closed:
            now_ms = self._clock.monotonic_ms()
            if asked_ms is None and now_ms >= next_check_ms:
                self._is_checked = False
                self._send(connection, CHECK)
                asked_ms, next_check_ms = now_ms, now_ms + CHECK_INTERVAL_MS
            if self._has_appended and now_ms >= next_notice_ms:
                self._has_appended = False
                self._send(connection, "")
                next_notice_ms = now_ms + NOTICE_INTERVAL_MS
            self._receive(connection)
            if self._is_checked:
                asked_ms = None
                self._set_heard(True)
            elif asked_ms is not None and now_ms - asked_ms >= ANSWER_MS_MAX:
                return
            until_ms = next_check_ms if asked_ms is None else asked_ms + ANSWER_MS_MAX
            self._wait(connection, min(until_ms, next_notice_ms) if self._has_appended else until_ms)

    def _send(self, connection: TimedConnection, payload: str) -> None:
        connection.deadline_ms = self._clock.monotonic_ms() + ANSWER_MS_MAX
        connection.execute(self._notify, (payload,))

    def _receive(self, connection: TimedConnection) -> None:
        """Takes the notices that have come; statements take some, too."""
        connection.pgconn.consume_input()
        while notice := connection.pgconn.notifies():
            self._take(psycopg.Notify("", notice.extra.decode(), notice.be_pid))
        if self._has_news:
            self._has_news = False
            self._on_news()

    def _take(self, notice: psycopg.Notify) -> None:
        if notice.pid != self._own_pid:
            self._has_news |= notice.payload != CHECK
        elif notice.payload == CHECK:
            self._is_checked = True

    def _wait(self, connection: TimedConnection | None, until_ms: float) -> None:
        """Waits for a notice, for ``appended``, or until then."""
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        if connection is not None:
            poll.register(connection.pgconn.socket, select.POLLIN)
        for ready, _ in poll.poll(max(until_ms - self._clock.monotonic_ms(), 0)):
            if ready == self._woken.fileno():
                self._woken.recv(4096)

    def _set_heard(self, is_heard: bool) -> None:
        if is_heard != self.is_heard:
            self.is_heard = is_heard
            self._on_news()

    def _wake(self) -> None:
        with suppress(OSError):  # it is woken already, or closed
            self._waker.send(b"\0")
