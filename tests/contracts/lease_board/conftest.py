"""The boards the suite runs over."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from siltstone.metadata.leases.board import LeaseBoard, MemoryBoard
from siltstone.metadata.leases.postgres_board import PostgresBoard
from siltstone.metadata.opening import open_board
from siltstone.metadata.store.opening import open_log
from siltstone.metadata.store.postgres.place import place_of
from siltstone.runtime.clock import SystemClock

POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)
Opener = Callable[[], LeaseBoard]
PATIENCE_MS = 60_000
"""For a machine with a busy disk: a beat that takes seconds is late, and here that is not the matter."""


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens the one board of the test, as often as it is called, as other nodes would."""
    opened: list[LeaseBoard] = []
    memory = MemoryBoard()
    url = f"sqlite://{tmp_path}/metadata.sqlite"
    if request.param == "postgres":
        server = request.getfixturevalue("postgres_server")
        url = server.url(server.new_schema(), "connect_timeout=60")
        open_log(url).close()

    def open_one() -> LeaseBoard:
        if request.param == "memory":
            return memory
        board = open_board(url, SystemClock())
        if isinstance(board, PostgresBoard):
            board = PostgresBoard(place_of(url), SystemClock(), deadline_ms=PATIENCE_MS)
        opened.append(board)
        return board

    yield open_one
    for one in opened:
        one.close()
