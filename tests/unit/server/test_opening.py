from pathlib import Path

import pytest

import siltstone
from siltstone.server.components import StoreNotFound
from siltstone.server.settings import load_settings


def test_a_store_by_its_folder_or_by_its_settings(tmp_path: Path) -> None:
    with siltstone.open_store(tmp_path, create=True) as store:
        assert store.settings.folder == tmp_path
    with siltstone.open_store(str(tmp_path), {"sweep.grace_period_ms": "1s"}) as store:
        assert store.kind_settings.grace_period_ms == 1_000
    with siltstone.open_store(load_settings(tmp_path, environment={})) as store:
        assert store.metadata.image.version == 0


def test_one_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFound, match="there is no store at"):
        siltstone.open_store(tmp_path / "none")
