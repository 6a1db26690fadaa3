"""One connection to PostgreSQL, with a deadline for each call, and what its failures mean.

One question decides what a failure means: can the server have executed the statement? If it cannot, the adapter raises
LogUnavailable, and the caller repeats the call. If it can, an append raises AppendUncertain, and this module repeats a
read once.

- No call waits for longer than its deadline (``TimedConnection.wait``), whatever the server and the network do; then
  the socket is closed. The server's own ``statement_timeout`` does not end a commit that waits for a synchronous
  standby.
- A commit that waits for a synchronous standby can be cancelled (``pg_cancel_backend``). It then reports *success*,
  with a warning: the entry is in the primary's log and perhaps nowhere else. So every warning makes an append
  uncertain.
- After an uncertain append, and on every new connection, what is read may be the remains of such a commit.
  ``confirm`` makes one commit more, which the standby acknowledges only after all before it.
"""

import logging
import select
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import errors, sql
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict

from siltstone.metadata.store.port import (
    AppendUncertain,
    LogDamaged,
    LogOutOfReach,
    LogReplaced,
    LogUnavailable,
    LogUrlMalformed,
)
from siltstone.metadata.store.postgres.place import PostgresPlace
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import MINUTE_MS
from siltstone.runtime.clock import Clock

R = TypeVar("R")
logger = logging.getLogger(__name__)

CALL_DEADLINE_MS = 10_000
"""No call takes longer. It is longer than STATEMENT_TIMEOUT_MS, so a server that lives has answered before."""

STATEMENT_TIMEOUT_MS = 8_000
"""The server ends a statement after this time, or after four fifths of a longer deadline, but for a commit that waits
for a standby."""

CONNECT_TIMEOUT_SECONDS_MAX = 5
CONNECT_TIMEOUT_SECONDS_MIN = 2
"""What libpq admits."""

CLOCK_MEASURED_EVERY_MS = MINUTE_MS

CLOCK_STEP_MS = 1_000
"""This machine's clock was set, or the machine was suspended, when the wall clock and the monotonic one differ by
this much since the last measurement."""

_DETECT_A_DEAD_PEER = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_SESSION = sql.SQL(
    "SELECT set_config('synchronous_commit', 'on', false), set_config('statement_timeout', {}, false), "
    "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
)
_CLOCK = sql.SQL("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
_DAMAGE = "XX"
_ENDING = ("08", "57P")
"""The server ends the connection, or it is broken: the socket may not be closed yet."""
_NO_TABLE = ("42P01", "3F000", "42703")
_READ_ONLY = "25006"
_Query = sql.SQL | sql.Composed


class NoConnection(LogOutOfReach):
    """A connection failed before its time was over. libpq does not tell whether a server refused it: ``reach`` asks."""


class DeadlineOver(Exception):
    """The server did not answer in time."""


class TimedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose calls end at ``deadline_ms`` of ``clock.monotonic_ms``. After DeadlineOver it is of no use."""

    clock: Clock
    deadline_ms: float

    def wait(self, gen: PQGen[R], interval: float = 0.1, timeout: float | None = None) -> R:
        """Runs one of psycopg's generators, which say what to wait for and take what is ready."""
        poll = select.poll()
        try:
            wanted = next(gen)
            while True:
                poll.register(self.pgconn.socket, _POLL_EVENTS[int(wanted)])
                left_ms = self.deadline_ms - self.clock.monotonic_ms()
                found = poll.poll(left_ms) if left_ms > 0 else []
                if not found:
                    raise DeadlineOver
                wanted = gen.send(_ready(found[0][1]))
        except StopIteration as end:
            result: R = end.value
            return result


_POLL_EVENTS = {1: select.POLLIN, 2: select.POLLOUT, 3: select.POLLIN | select.POLLOUT}
"""By psycopg's ``Wait``: 1 to read, 2 to write, 3 either."""


def _ready(events: int) -> Any:
    """Returns psycopg's ``Ready``. An error of the socket counts as both: the next call on it reports the error."""
    if events & ~(select.POLLIN | select.POLLOUT):
        return 3
    return (1 if events & select.POLLIN else 0) | (2 if events & select.POLLOUT else 0)


class Session:
    """The connection of one log, opened when it is needed, used by one thread at a time."""

    def __init__(
        self, place: PostgresPlace, clock: Clock, call_deadline_ms: float = CALL_DEADLINE_MS
    ) -> None:
        self.place = place
        self.clock_offset_ms = 0
        """How far the server's clock is ahead of this machine's; as measured at most CLOCK_MEASURED_EVERY_MS ago,
        and after this machine's clock was set."""
        self.is_unconfirmed = True
        """Whether what is read may be missing on a synchronous standby (see the module's docstring)."""
        self._parameters = parameters_of(place)
        self._clock = clock
        self._call_deadline_ms = call_deadline_ms
        self._lock = threading.Lock()
        self._connection: TimedConnection | None = None
        self._measured_ms, self._measured_at_ms = 0.0, 0
        self._warnings: list[str] = []
        self._is_closed = False

    def read(self, query: _Query, values: Sequence[Any] = ()) -> list[Any]:
        """Returns the rows. A connection that was lost is replaced, once. Raises LogUnavailable, LogDamaged,
        LogReplaced."""
        with self._call() as deadline_ms:
            if self._connection is not None:
                try:
                    return self._rows(query, values, deadline_ms)
                except DeadlineOver:
                    raise self._unanswered(LogOutOfReach) from None
                except psycopg.Error as error:
                    if not self._drop_if_lost(error):
                        raise self._trouble(error) from None
            return self._with_errors(query, values, deadline_ms, LogOutOfReach)

    def append(self, query: _Query, values: Sequence[Any]) -> int:
        """Returns the number of rows written, which are durable then. Raises AppendUncertain, LogUnavailable,
        LogDamaged, LogReplaced."""
        with self._call() as deadline_ms:
            rows = self._with_errors(query, values, deadline_ms, AppendUncertain)
            if self._warnings:
                self.is_unconfirmed = True
                raise AppendUncertain(
                    f"the metadata database {self.place.shown} reports on an append: {'; '.join(self._warnings)}; "
                    "repeat the same append"
                )
            if rows:
                self.is_unconfirmed = False
            return len(rows)

    def confirm(self, query: _Query) -> None:
        """Makes the commit ``query`` unless nothing is unconfirmed. Raises LogUnavailable, LogDamaged, LogReplaced."""
        if not self.is_unconfirmed:
            return
        with self._call() as deadline_ms:
            self._with_errors(query, (), deadline_ms, LogOutOfReach)
            if self._warnings:
                raise LogUnavailable(
                    f"the metadata database {self.place.shown} could not confirm what it has: "
                    f"{'; '.join(self._warnings)}; try again"
                )
            self.is_unconfirmed = False

    def run(self, script: _Query) -> None:
        """Runs statements without values, in one round trip. A transaction that they begin stays open for the next
        call. Raises LogUnavailable, LogDamaged, LogReplaced."""
        with self._call() as deadline_ms:
            connection = self._connected(deadline_ms)
            with self._failures_named():
                connection.execute(script)

    @contextmanager
    def transaction(self) -> Iterator["TimedConnection"]:
        """Runs the block in one transaction. Raises LogUnavailable, LogDamaged, LogReplaced."""
        with self._call() as deadline_ms:
            connection = self._connected(deadline_ms)
            with self._failures_named(), connection.transaction():
                yield connection

    def close(self) -> None:
        self._is_closed = True
        with self._lock:
            self._drop()

    @contextmanager
    def _call(self) -> Iterator[float]:
        """Yields the deadline of this call, which begins with the wait for another thread's call."""
        deadline_ms = self._clock.monotonic_ms() + self._call_deadline_ms
        if not self._lock.acquire(timeout=self._call_deadline_ms / 1000):
            raise LogUnavailable(
                f"another call to the metadata database {self.place.shown} has not ended; try again"
            )
        try:
            if self._is_closed:
                raise LogUnavailable(f"the metadata database {self.place.shown} was closed by this process")
            yield deadline_ms
        except SiltstoneError:
            raise
        except BaseException:
            self._drop()  # interrupted in the middle of an answer
            raise
        finally:
            self._lock.release()

    @contextmanager
    def _failures_named(self) -> Iterator[None]:
        """Raises LogUnavailable, LogDamaged or LogReplaced for what fails in the block."""
        try:
            yield
        except DeadlineOver:
            raise self._unanswered(LogOutOfReach) from None
        except psycopg.Error as error:
            self._drop_if_lost(error)
            raise self._trouble(error) from None

    def _with_errors(
        self, query: _Query, values: Sequence[Any], deadline_ms: float, when_lost: type[SiltstoneError]
    ) -> list[Any]:
        self._connected(deadline_ms)
        try:
            return self._rows(query, values, deadline_ms)
        except DeadlineOver:
            raise self._unanswered(when_lost) from None
        except psycopg.Error as error:
            if self._drop_if_lost(error):
                raise when_lost(
                    f"the connection to the metadata database {self.place.shown} was lost: {_line(error)}; repeat the "
                    "call"
                ) from None
            raise self._trouble(error) from None

    def _unanswered(self, when_lost: type[SiltstoneError]) -> SiltstoneError:
        self._drop()
        return when_lost(
            f"the metadata database {self.place.shown} has not answered for {self._call_deadline_ms / 1000:g} s; "
            "repeat the call. If it continues, look whether the server, or the synchronous standby that it waits for, "
            "can be reached"
        )

    def _rows(self, query: _Query, values: Sequence[Any], deadline_ms: float) -> list[Any]:
        connection = self._connection
        assert connection is not None
        connection.deadline_ms = deadline_ms
        if self._is_clock_to_be_measured():
            self._measure(connection, _CLOCK)
        self._warnings.clear()
        cursor = connection.execute(query, values or None, binary=True)
        return cursor.fetchall() if cursor.description is not None else []

    def _connected(self, deadline_ms: float) -> TimedConnection:
        """Raises LogUnavailable."""
        if self._connection is None:
            self._connection = self._connect(deadline_ms)
        self._connection.deadline_ms = deadline_ms
        return self._connection

    def _connect(self, deadline_ms: float) -> TimedConnection:
        self.is_unconfirmed = True
        parameters = dict(self._parameters)
        hosts = str(parameters.get("host", "")).count(",") + 1
        seconds = int((deadline_ms - self._clock.monotonic_ms()) / 1000 / hosts)
        bounded = min(CONNECT_TIMEOUT_SECONDS_MAX, max(CONNECT_TIMEOUT_SECONDS_MIN, seconds))
        parameters.setdefault("connect_timeout", bounded)
        try:
            connection = TimedConnection.connect(autocommit=True, prepare_threshold=None, **parameters)
        except psycopg.Error as error:
            failed = LogOutOfReach if isinstance(error, errors.ConnectionTimeout) else NoConnection
            raise failed(
                f"no connection to the metadata database {self.place.shown}: {_line(error)}; check the URL, the "
                "password (~/.pgpass, PGPASSWORD) and whether the server runs"
            ) from None
        connection.clock, connection.deadline_ms = self._clock, deadline_ms
        connection.add_notice_handler(self._noticed)
        try:
            limit_ms = max(STATEMENT_TIMEOUT_MS, int(0.8 * self._call_deadline_ms))
            self._measure(connection, _SESSION.format(sql.Literal(str(limit_ms))))
        except (psycopg.Error, DeadlineOver) as error:
            connection.close()
            raise LogOutOfReach(
                f"no session on the metadata database {self.place.shown}: {_line(error) or 'no answer'}; try again"
            ) from None
        return connection

    def _measure(self, connection: TimedConnection, query: _Query) -> None:
        """Measures the offset of the server's clock, which the server read between two readings of ours."""
        before_ms = self._clock.now_ms()
        *_, server_ms = connection.execute(query, binary=True).fetchall()[0]
        self.clock_offset_ms = int(server_ms) - (before_ms + self._clock.now_ms()) // 2
        self._measured_ms, self._measured_at_ms = self._clock.monotonic_ms(), self._clock.now_ms()

    def _is_clock_to_be_measured(self) -> bool:
        """The offset is old, or this machine's clock was set since it was measured: then the offset is wrong by the
        step until it is measured again."""
        passed_ms = self._clock.monotonic_ms() - self._measured_ms
        step_ms = (self._clock.now_ms() - self._measured_at_ms) - passed_ms
        return passed_ms >= CLOCK_MEASURED_EVERY_MS or abs(step_ms) >= CLOCK_STEP_MS

    def _noticed(self, notice: errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            self._warnings.append(str(notice.message_primary))

    def _drop_if_lost(self, error: psycopg.Error) -> bool:
        """Returns whether the error ended the connection, so that the outcome of what was sent is unknown. The
        connection to a server that has become a standby is dropped, too: the next one is to the new primary."""
        connection = self._connection
        state = error.sqlstate
        is_lost = connection is None or connection.closed or state is None or state.startswith(_ENDING)
        if is_lost or state == _READ_ONLY:
            self._drop()
        return is_lost

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self.is_unconfirmed = True
        if connection is not None:
            connection.close()

    def _trouble(self, error: psycopg.Error) -> SiltstoneError:
        """Returns the error for a statement that the server refused, so that nothing was written."""
        state = error.sqlstate or ""
        if state.startswith(_DAMAGE):
            return LogDamaged(
                f"the metadata database {self.place.shown} is damaged: {_line(error)}; restore it from a backup"
            )
        if state in _NO_TABLE:
            return LogReplaced(
                f"the tables of the metadata log in {self.place.shown} were deleted or replaced while it was open "
                f"({_line(error)}): restore them, then restart"
            )
        return LogUnavailable(f"the metadata database {self.place.shown} refuses: {_line(error)}; try again")


def parameters_of(place: PostgresPlace) -> dict[str, Any]:
    """Returns the parameters of a connection. Raises LogUrlMalformed, without libpq's words, which may quote a
    password."""
    try:
        given = conninfo_to_dict(place.conninfo)
    except psycopg.Error:
        raise LogUrlMalformed(
            f"{place.shown!r} is no URL of PostgreSQL; write postgresql://user@host/database?schema=siltstone, with "
            "special characters percent-encoded"
        ) from None
    return {**_DETECT_A_DEAD_PEER, "target_session_attrs": "read-write", **given}


def _line(error: BaseException) -> str:
    """Returns the first line of the server's words. It has no password: libpq puts none into its messages."""
    return str(error).strip().partition("\n")[0]
