"""The lease board on a real PostgreSQL: what the contract suite of boards does not ask."""

from collections.abc import Iterator

import pytest

from siltstone.metadata.leases.board import Beat, BoardUnavailable
from siltstone.metadata.leases.postgres_board import PostgresBoard
from siltstone.metadata.store.postgres.log import PostgresLog
from siltstone.metadata.store.postgres.place import PostgresPlace, place_of
from siltstone.runtime.clock import SystemClock
from support.metadata.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

BEAT = Beat(0, 1, 1, "life")
PATIENCE_MS = 60_000
"""For a server that shares a core with twenty other processes."""

PATIENT = "connect_timeout=60"


@pytest.fixture
def place(postgres_server: PostgresServer) -> PostgresPlace:
    place = place_of(postgres_server.url(postgres_server.new_schema(), PATIENT))
    assert place is not None
    PostgresLog(place, call_deadline_ms=PATIENCE_MS).close()
    return place


@pytest.fixture
def board(place: PostgresPlace) -> Iterator[PostgresBoard]:
    board = PostgresBoard(place, SystemClock(), deadline_ms=PATIENCE_MS)
    yield board
    board.close()


def test_n19_beats_go_on_while_an_append_to_the_metadata_log_hangs(postgres_server, place, board) -> None:
    with postgres_server.connect() as holder, holder.transaction():
        holder.execute(f"LOCK TABLE {place.schema}.entries IN ACCESS EXCLUSIVE MODE")
        board.beat(BEAT)
        assert board.beats() == (BEAT,)


def test_a_beat_is_written_to_no_log_and_waits_for_no_standby(postgres_server, place, board) -> None:
    board.beat(BEAT)
    ((persistence,),) = postgres_server.sql(
        "SELECT relpersistence FROM pg_class WHERE oid = %s::regclass", (f"{place.schema}.leases",)
    )
    assert persistence in ("u", b"u")


def test_a_connection_that_was_killed_is_replaced_by_the_next_call(postgres_server, place, board) -> None:
    board.beat(BEAT)
    pid = board._session._connection.info.backend_pid
    postgres_server.sql("SELECT pg_terminate_backend(%s)", (pid,))
    board.beat(Beat(0, 1, 2, "life"))
    assert board.beats() == (Beat(0, 1, 2, "life"),)


def test_a_board_that_was_dropped_is_made_anew(postgres_server, place, board) -> None:
    board.beat(BEAT)
    postgres_server.sql(f"DROP TABLE {place.schema}.leases")
    assert board.beats() == ()


def test_a_board_that_does_not_answer_is_given_up_at_the_deadline(postgres_server, place, board) -> None:
    board.beat(BEAT)
    hasty = PostgresBoard(place, SystemClock(), deadline_ms=200)
    with postgres_server.connect() as holder, holder.transaction():
        holder.execute(f"LOCK TABLE {place.schema}.leases IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(BoardUnavailable, match=r"the lease board cannot be used: .* answer"):
            hasty.beat(BEAT)
    hasty.close()
    board.beat(Beat(0, 1, 2, "life"))


def test_a_schema_that_is_gone_is_said(postgres_server, place, board) -> None:
    postgres_server.sql(f"DROP SCHEMA {place.schema} CASCADE")
    with pytest.raises(BoardUnavailable, match="the lease board cannot be used"):
        board.beat(BEAT)
