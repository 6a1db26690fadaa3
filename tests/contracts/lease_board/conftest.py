"""The boards the suite runs over."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from siltstone.metadata.leases.board import LeaseBoard, MemoryBoard
from siltstone.metadata.opening import open_board
from siltstone.metadata.store.opening import open_log
from siltstone.runtime.clock import SystemClock

POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)
Opener = Callable[[], LeaseBoard]


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens the one board of the test, as often as it is called, as other nodes would."""
    opened: list[LeaseBoard] = []
    memory = MemoryBoard()
    url = f"sqlite://{tmp_path}/metadata.sqlite"
    if request.param == "postgres":
        server = request.getfixturevalue("postgres_server")
        url = server.url(server.new_schema())
        open_log(url).close()

    def open_one() -> LeaseBoard:
        opened.append(memory if request.param == "memory" else open_board(url, SystemClock()))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()
