from pathlib import Path

import pytest

from siltstone.server.settings.store import StoreSettings
from support.engine.small_store import small_store


@pytest.fixture
def store(tmp_path: Path) -> StoreSettings:
    return small_store(tmp_path / "store")
