"""The logs the suite runs over."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store.port import MetadataLog
from siltstone.metadata.store.postgres.log import PostgresLog
from siltstone.metadata.store.postgres.place import place_of
from siltstone.metadata.store.sqlite import SqliteLog

ENTRIES_KEPT = 3
PATIENCE_MS = 60_000
"""For a machine with a busy disk. ``tests/integration/test_postgres_log.py`` has what a call does at its deadline."""
PATIENT = "connect_timeout=60"
POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)
Opener = Callable[[], MetadataLog]


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a log that does not exist yet, of the adapter that the test names."""
    if request.param == "postgres":
        server = request.getfixturevalue("postgres_server")
        return server.url(server.new_schema(), PATIENT)
    return f"sqlite://{tmp_path}/metadata.sqlite"


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens the one log of the test, as often as it is called, as other processes would."""
    opened: list[MetadataLog] = []
    memory = MemoryLog(entries_kept=ENTRIES_KEPT)
    if request.param == "postgres":
        server = request.getfixturevalue("postgres_server")
        place = place_of(server.url(server.new_schema(), PATIENT))

    def open_one() -> MetadataLog:
        if request.param == "memory":
            return memory
        if request.param == "sqlite":
            opened.append(SqliteLog(tmp_path / "metadata.sqlite", entries_kept=ENTRIES_KEPT))
        else:
            opened.append(
                PostgresLog(place, entries_kept=ENTRIES_KEPT, entry_age_min="0", call_deadline_ms=PATIENCE_MS)
            )
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def log(open_again: Opener) -> MetadataLog:
    return open_again()
