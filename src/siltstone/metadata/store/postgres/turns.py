"""Nodes that write to one log at the same time take turns, so that they do not run into each other.

Without turns the fastest wins again and again: six nodes lose most of their appends, and one command in a hundred waits
for a tenth of a second. A *turn* is an advisory lock, which PostgreSQL gives in the order of asking. It is held by a
transaction on a connection of its own, so it ends with the process and passes through poolers, and the server ends the
turn of a process that was stopped.

A turn lasts for TURN_MS, and all commands of that time go one after the other without a look at the log. It is a
courtesy: nothing but the key of the table protects the log, and an append without a turn is as right as one with it.
"""

import logging
import threading

from psycopg import sql

from siltstone.metadata.store.postgres.connection import Session
from siltstone.metadata.store.postgres.place import PostgresPlace
from siltstone.model.errors import SiltstoneError
from siltstone.runtime.clock import Clock

TURN_MS = 2.5
"""Five appends on a fast server, where the wait for a turn takes one. With six nodes, the slowest command in a hundred
waits for 18 ms; with 5 ms a turn for 31, and 5 % more are executed."""

TURN_WAIT_MS_MAX = 500
"""Many turns take less. Then the append is made without one."""

TURN_IDLE_MS_MAX = 1_000
"""The server ends a turn that lasts for so long: its process was stopped."""

PAUSE_MS = 1_000
"""After a turn that did not come, none is taken for so long: else each append would wait first."""

CALL_DEADLINE_MS = 2_000
"""A server that is silent for so long has no turns to give."""

UNUSED_MS_MAX = 60_000
"""After so long without a turn, its connection is closed: a server has a hundred."""

_TAKE = sql.SQL(
    "BEGIN; SELECT set_config('lock_timeout', {wait}, true), "
    "set_config('idle_in_transaction_session_timeout', {idle}, true); SELECT pg_advisory_xact_lock({key})"
)
_END = sql.SQL("ROLLBACK")
logger = logging.getLogger(__name__)


class Turns:
    """The turns of one process, for one thread at a time. A thread of its own ends a turn that is over while nobody
    appends. ``key``: the number of the lock, which belongs to the whole database."""

    def __init__(
        self,
        place: PostgresPlace,
        key: int,
        clock: Clock,
        *,
        turn_ms: float = TURN_MS,
        unused_ms_max: float = UNUSED_MS_MAX,
    ) -> None:
        self._take = _TAKE.format(
            wait=sql.Literal(str(TURN_WAIT_MS_MAX)),
            idle=sql.Literal(str(TURN_IDLE_MS_MAX)),
            key=sql.Literal(key),
        )
        self._place = place
        self._clock = clock
        self._turn_ms = turn_ms
        self._unused_ms_max = unused_ms_max
        self._session: Session | None = None
        self._ends_ms: float | None = None
        """When the turn is over; None while there is none."""
        self._used_ms = self._not_before_ms = 0.0
        self._is_closed = False
        self._has_keeper = False
        self.appending = threading.RLock()
        """Held while an entry is appended: the turn does not end meanwhile."""
        self._changed = threading.Condition(self.appending)

    def take(self) -> bool:
        """Waits until it is this process's turn, for TURN_WAIT_MS_MAX. Returns False at once when it is already: nobody
        else has appended since. True says nothing about that."""
        with self.appending:
            now_ms = self._clock.monotonic_ms()
            if self._ends_ms is not None and now_ms < self._ends_ms:
                return False
            self._end()
            if self._is_closed or now_ms < self._not_before_ms:
                return True
            try:
                self._wait()
            except SiltstoneError as trouble:
                logger.info("no turn to append to the metadata log: %s", trouble)
                self._close_session()
                self._not_before_ms = self._clock.monotonic_ms() + PAUSE_MS
            return True

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._close_session()
            self._changed.notify()

    # ----------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Raises LogUnavailable."""
        if self._session is None:
            self._session = Session(self._place, self._clock, CALL_DEADLINE_MS)
        self._session.run(self._take)
        self._used_ms = self._clock.monotonic_ms()
        self._ends_ms = self._used_ms + self._turn_ms
        if not self._has_keeper:
            self._has_keeper = True
            threading.Thread(target=self._keep, name="siltstone-turns", daemon=True).start()
        self._changed.notify()

    def _end(self) -> None:
        if self._ends_ms is None or self._session is None:
            return
        self._ends_ms = None
        try:
            self._session.run(_END)
        except SiltstoneError:
            self._close_session()  # which ends the turn, too

    def _keep(self) -> None:
        with self._changed:
            while self._session is not None:
                is_over = self._used_ms + self._unused_ms_max if self._ends_ms is None else self._ends_ms
                left_ms = is_over - self._clock.monotonic_ms()
                if left_ms > 0:
                    self._changed.wait(left_ms / 1000)
                elif self._ends_ms is not None:
                    self._end()
                else:
                    self._close_session()
            self._has_keeper = False

    def _close_session(self) -> None:
        session, self._session, self._ends_ms = self._session, None, None
        if session is not None:
            session.close()
