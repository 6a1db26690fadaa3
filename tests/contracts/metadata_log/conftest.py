"""The logs the suite runs over. PostgreSQL joins by one more opener here."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store.port import MetadataLog
from siltstone.metadata.store.sqlite import SqliteLog

ENTRIES_KEPT = 3
Opener = Callable[[], MetadataLog]


@pytest.fixture(params=["memory", "sqlite"])
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens the one log of the test, as often as it is called, as other processes would."""
    opened: list[MetadataLog] = []
    memory = MemoryLog(entries_kept=ENTRIES_KEPT)

    def open_one() -> MetadataLog:
        if request.param == "memory":
            return memory
        opened.append(SqliteLog(tmp_path / "metadata.sqlite", entries_kept=ENTRIES_KEPT))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def log(open_again: Opener) -> MetadataLog:
    return open_again()
