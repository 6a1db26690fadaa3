from pathlib import Path

import pytest

import siltstone
from siltstone.offline.opening import store as opening
from siltstone.offline.opening.settings import load_store_settings
from siltstone.offline.opening.store import SparkNotOffered, StoreNotFound
from siltstone.offline.tasks.runner import InProcessRunner


def test_a_store_by_its_folder_or_by_its_settings(tmp_path: Path) -> None:
    with siltstone.open_store(tmp_path, create=True) as store:
        assert store.settings.folder == tmp_path
    with siltstone.open_store(str(tmp_path), {"sweep.grace_period_ms": "1s"}) as store:
        assert store.kind_settings.grace_period_ms == 1_000
    with siltstone.open_store(load_store_settings(tmp_path, environment={})) as store:
        assert store.metadata.image.version == 0


@pytest.mark.parametrize(("broker", "own", "kept_ms"), [("2h", "1h", 7_200_000), ("1h", "3h", 10_800_000)])
def test_key_compaction_forgets_no_producer_that_a_broker_knows(
    tmp_path: Path, broker: str, own: str, kept_ms: int
) -> None:
    settings = {
        "broker.producer_id_expiration_ms": broker,
        "maintenance.key_compaction.producer_expiration_ms": own,
    }
    with siltstone.open_store(tmp_path, settings, create=True) as store:
        assert store.kind_settings.maintenance.key_compaction.producer_expiration_ms == kept_ms


def test_one_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFound, match="there is no store at"):
        siltstone.open_store(tmp_path / "none")


def test_a_store_that_was_opened_below_spark_says_so(tmp_path: Path) -> None:
    """It does not run in this process instead."""
    with opening.open_store(load_store_settings(tmp_path, environment={}), create=True) as store:
        assert isinstance(store.open_runner(None), InProcessRunner)
        with pytest.raises(SparkNotOffered, match=r"open it by siltstone\.open_store"):
            store.open_runner("local[1]")
