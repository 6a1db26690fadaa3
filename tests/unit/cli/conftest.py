from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.server.settings.node import NodeSettings
from support.broker.in_process import InProcessBroker, broker_in_process
from support.engine.small_store import small_store


@pytest.fixture
def store(tmp_path: Path) -> NodeSettings:
    return small_store(tmp_path / "store")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[InProcessBroker]:
    """The broker that ``broker.siltstone(command, …)`` is a client of."""
    with broker_in_process(tmp_path) as started:
        yield started
