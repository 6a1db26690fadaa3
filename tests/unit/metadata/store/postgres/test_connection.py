"""What a failure of PostgreSQL means for a call, on a connection whose answers the test sets."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from psycopg import errors, sql  # noqa: E402  after the skip

from siltstone.metadata.store.port import (  # noqa: E402
    AppendUncertain,
    LogDamaged,
    LogReplaced,
    LogUnavailable,
    LogUrlMalformed,
)
from siltstone.metadata.store.postgres import connection as module  # noqa: E402
from siltstone.metadata.store.postgres.connection import (  # noqa: E402
    CLOCK_MEASURED_EVERY_MS,
    CLOCK_STEP_MS,
    STATEMENT_TIMEOUT_MS,
    DeadlineOver,
    Session,
    _ready,
)
from siltstone.metadata.store.postgres.place import place_of  # noqa: E402
from siltstone.runtime.clock import ManualClock  # noqa: E402

URL = "postgresql://user:secret@127.0.0.1/database?schema=ours"
QUERY = sql.SQL("SELECT 1")
ADMIN_SHUTDOWN, BROKEN, DAMAGED, NO_TABLE, READ_ONLY, LOCKED = (
    errors.lookup(state) for state in ("57P01", "08006", "XX001", "42P01", "25006", "55P03")
)


class Server:
    """``answers``: what the next calls give, rows or an error; then one row. ``asked`` counts them, and ``connects``
    has the parameters of each connection. ``warning``: said with every answer."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked = 0
        self.connects: list[dict[str, Any]] = []
        self.sessions: list[Any] = []
        self.closed = 0
        self.warning = ""
        self.is_away = False
        self.clock = ManualClock()
        self.ahead_ms = 0

    def connect(self, **parameters: Any) -> "FakeConnection":
        self.connects.append(parameters)
        if self.is_away:
            raise psycopg.OperationalError("connection refused\nIs the server running?")
        return FakeConnection(self)

    def session(self, url: str = URL) -> Session:
        place = place_of(url)
        assert place is not None
        return Session(place, self.clock)


def session_query(limit_ms: int) -> Any:
    return module._SESSION.format(sql.Literal(str(limit_ms)))


class FakeConnection:
    def __init__(self, server: Server) -> None:
        self.closed = False
        self.description = object()
        self._server = server
        self._rows: list[Any] = []
        self._noticed: Callable[[Any], None] = lambda _: None

    def add_notice_handler(self, noticed: Callable[[Any], None]) -> None:
        self._noticed = noticed

    def execute(self, query: Any, values: Any = None, *, binary: bool = False) -> "FakeConnection":
        if query in (module._CLOCK, *map(session_query, (STATEMENT_TIMEOUT_MS, 48_000))):
            self._server.sessions.append(query)
            self._rows = [(self._server.clock.now_ms() + self._server.ahead_ms,)]
            return self
        self._server.asked += 1
        answer = self._server.answers.pop(0) if self._server.answers else [(1,)]
        if isinstance(answer, BaseException):
            raise answer
        for severity in ("NOTICE", "WARNING") if self._server.warning else ("NOTICE",):
            self._noticed(
                SimpleNamespace(
                    severity_nonlocalized=severity, message_primary=self._server.warning or "said"
                )
            )
        self._rows = answer
        return self

    def fetchall(self) -> list[Any]:
        return self._rows

    def close(self) -> None:
        self.closed = True
        self._server.closed += 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server()
    monkeypatch.setattr(module.TimedConnection, "connect", server.connect)
    yield server


@pytest.mark.parametrize(("deadline_ms", "limit_ms"), [(10, STATEMENT_TIMEOUT_MS), (60_000, 48_000)])
def test_the_server_ends_a_statement_before_a_long_deadline(
    server: Server, deadline_ms: int, limit_ms: int
) -> None:
    place = place_of(URL)
    assert place is not None
    Session(place, server.clock, deadline_ms).read(QUERY)
    assert server.sessions == [session_query(limit_ms)]


@pytest.mark.parametrize(
    "lost", [ADMIN_SHUTDOWN("ends"), BROKEN("reset"), psycopg.OperationalError("no state")]
)
def test_a_read_on_a_connection_that_was_lost_is_repeated_once_on_a_new_one(
    server: Server, lost: Exception
) -> None:
    session = server.session()
    assert session.read(QUERY) == [(1,)]
    server.answers = [lost, [(7,)]]
    assert session.read(QUERY) == [(7,)]
    assert len(server.connects) == 2 and server.closed == 1
    server.answers = [lost, lost]
    with pytest.raises(LogUnavailable, match=r"was lost: .*; repeat the call"):
        session.read(QUERY)
    assert (server.asked, len(server.connects), server.closed) == (5, 3, 3)


@pytest.mark.parametrize("lost", [ADMIN_SHUTDOWN("ends"), BROKEN("reset"), DeadlineOver()])
def test_an_append_whose_answer_was_lost_is_uncertain_and_never_repeated_here(
    server: Server, lost: Exception
) -> None:
    session = server.session()
    session.read(QUERY)
    server.answers = [lost]
    with pytest.raises(AppendUncertain):
        session.append(QUERY, (1,))
    assert (server.asked, server.closed, session.is_unconfirmed) == (2, 1, True)


def test_a_server_that_does_not_answer_is_given_up_and_its_connection_closed(server: Server) -> None:
    session = server.session()
    session.read(QUERY)
    server.answers = [DeadlineOver()]
    with pytest.raises(LogUnavailable, match="has not answered for 10 s"):
        session.read(QUERY)
    assert (server.asked, server.closed) == (2, 1), "it is not asked again within this call"


@pytest.mark.parametrize(
    ("refusal", "error"),
    [(DAMAGED("page"), LogDamaged), (NO_TABLE("entries"), LogReplaced), (LOCKED("busy"), LogUnavailable)],
)
def test_what_the_server_refuses_was_not_written_and_the_connection_is_kept(
    server: Server, refusal: Exception, error: type[Exception]
) -> None:
    session = server.session()
    for call in (lambda: session.append(QUERY, ()), lambda: session.read(QUERY)):
        server.answers = [refusal]
        with pytest.raises(error):
            call()
    assert (server.asked, len(server.connects), server.closed) == (2, 1, 0)


def test_a_server_that_has_become_a_standby_is_left_for_the_new_primary(server: Server) -> None:
    session = server.session()
    server.answers = [READ_ONLY("cannot write")]
    with pytest.raises(LogUnavailable, match="refuses: cannot write"):
        session.append(QUERY, ())
    assert server.closed == 1
    assert session.append(QUERY, ()) == 1 and len(server.connects) == 2
    assert server.connects[0]["target_session_attrs"] == "read-write"


def test_a_warning_makes_an_append_uncertain_and_a_notice_does_not(server: Server) -> None:
    session = server.session()
    assert session.append(QUERY, ()) == 1 and not session.is_unconfirmed
    server.warning = "canceling wait for synchronous replication"
    with pytest.raises(
        AppendUncertain, match="canceling wait for synchronous replication; repeat the same append"
    ):
        session.append(QUERY, ())
    assert session.is_unconfirmed and server.closed == 0
    server.warning = ""
    assert session.append(QUERY, ()) == 1, "an earlier warning is not this append's"


def test_what_is_read_is_confirmed_by_an_append_that_wrote_or_by_a_commit_of_its_own(server: Server) -> None:
    session = server.session()
    server.answers = [[]]
    assert session.append(QUERY, ()) == 0 and session.is_unconfirmed, "it wrote nothing"
    server.warning = "cancelled"
    with pytest.raises(LogUnavailable, match="could not confirm what it has: cancelled"):
        session.confirm(QUERY)
    assert session.is_unconfirmed
    server.warning = ""
    session.confirm(QUERY)
    asked = server.asked
    session.confirm(QUERY)
    assert not session.is_unconfirmed and server.asked == asked, "once is enough"
    server.answers = [ADMIN_SHUTDOWN("ends")]
    session.read(QUERY)
    assert session.is_unconfirmed, "the new connection may be to another server"


def test_the_clock_of_the_server_is_measured_at_first_and_then_once_a_minute(server: Server) -> None:
    server.ahead_ms = -3_000
    session = server.session()
    session.read(QUERY)
    assert session.clock_offset_ms == -3_000
    server.ahead_ms = 500
    server.clock.advance_ms(CLOCK_MEASURED_EVERY_MS - 1)
    session.read(QUERY)
    assert session.clock_offset_ms == -3_000
    server.clock.advance_ms(1)
    session.read(QUERY)
    assert session.clock_offset_ms == 500


def test_the_clock_is_measured_again_when_this_machines_was_set(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.ahead_ms = 0
    session = server.session()
    session.read(QUERY)
    set_by_ms = [CLOCK_STEP_MS - 1]
    now_ms = server.clock.now_ms
    monkeypatch.setattr(server.clock, "now_ms", lambda: now_ms() + set_by_ms[0])
    server.ahead_ms = -8_000
    session.read(QUERY)
    assert session.clock_offset_ms == 0
    set_by_ms[0] += 1
    session.read(QUERY)
    assert session.clock_offset_ms != 0


@pytest.mark.parametrize(
    ("url", "seconds"),
    [
        (URL, 5),
        (URL.replace("127.0.0.1", "127.0.0.1,127.0.0.2,127.0.0.3"), 3),
        (URL.replace("127.0.0.1", ",".join(["127.0.0.1"] * 9)), 2),
        (f"{URL}&connect_timeout=9", "9"),
    ],
)
def test_connecting_to_all_hosts_takes_no_longer_than_the_call_may(
    server: Server, url: str, seconds: object
) -> None:
    server.session(url).read(QUERY)
    assert server.connects[0]["connect_timeout"] == seconds


def test_a_server_that_is_not_there_is_named_without_the_password(server: Server) -> None:
    server.is_away = True
    with pytest.raises(LogUnavailable, match="connection refused; check the URL") as told:
        server.session().append(QUERY, ())
    assert "secret" not in str(told.value) and "\n" not in str(told.value)
    with pytest.raises(LogUrlMalformed, match="percent-encoded") as malformed:
        server.session("postgresql://user:secret@127.0.0.1/database?schema=ours&nonsense=1")
    assert "secret" not in str(malformed.value)


def test_a_session_that_was_closed_or_interrupted_uses_no_half_read_connection(server: Server) -> None:
    session = server.session()
    session.read(QUERY)
    server.answers = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        session.read(QUERY)
    assert server.closed == 1
    assert session.read(QUERY) == [(1,)] and len(server.connects) == 2
    session.close()
    assert server.closed == 2
    with pytest.raises(LogUnavailable, match="was closed by this process"):
        session.read(QUERY)
    assert len(server.connects) == 2


def test_a_call_waits_for_that_of_another_thread_no_longer_than_its_deadline(server: Server) -> None:
    place = place_of(URL)
    assert place is not None
    session = Session(place, server.clock, call_deadline_ms=10)
    with session._lock, pytest.raises(LogUnavailable, match="another call to the metadata database"):
        session.append(QUERY, ())
    assert server.asked == 0 and session.append(QUERY, ()) == 1


def test_an_error_of_the_socket_wakes_the_reader_and_the_writer() -> None:
    poll = module.select
    assert [_ready(each) for each in (poll.POLLIN, poll.POLLOUT, poll.POLLIN | poll.POLLOUT)] == [1, 2, 3]
    assert [_ready(each) for each in (poll.POLLERR, poll.POLLHUP | poll.POLLIN)] == [3, 3]
