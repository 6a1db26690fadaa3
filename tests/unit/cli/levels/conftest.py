"""The store on which ``siltstone status`` and ``siltstone upgrade`` are tried."""

from pathlib import Path

import pytest

from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import NodeSettings, load_node_settings


@pytest.fixture
def store(tmp_path: Path) -> NodeSettings:
    """A store without nodes."""
    settings = load_node_settings(tmp_path, environment={})
    open_store(settings, create=True).close()
    return settings
