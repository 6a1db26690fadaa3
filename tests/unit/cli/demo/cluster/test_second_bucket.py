"""The bucket that the demo of a cluster takes away and gives back."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from siltstone.cli.demo.cluster.second_bucket import (
    BUCKET_ID,
    FOLDER,
    add_second_bucket,
    objects_in,
    second_bucket_away,
)
from siltstone.metadata.buckets import RegisterBuckets, bucket_list_of
from siltstone.metadata.store_id import put_store_id
from siltstone.model.buckets import StrategyType
from siltstone.object_store.port import StoreDenied
from siltstone.offline.opening.store import Store, open_store
from siltstone.server.settings.node import load_node_settings


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store that a node has started once."""
    with open_store(load_node_settings(tmp_path, environment={}), create=True) as opened:
        opened.metadata.execute(put_store_id(Random(1)))
        opened.metadata.execute(RegisterBuckets(opened.buckets.urls, 0))
        yield opened


def test_new_objects_are_spread_over_both(store: Store, tmp_path: Path) -> None:
    add_second_bucket(store, tmp_path)
    listed = bucket_list_of(store.metadata.image)
    assert [each.id for each in listed.writable] == [0, BUCKET_ID]
    assert listed.strategy.name is StrategyType.ROUND_ROBIN
    assert objects_in(store.metadata.image, BUCKET_ID) == 0


def test_while_it_is_away_nothing_can_be_written_and_then_all_of_it_is_there(
    store: Store, tmp_path: Path
) -> None:
    add_second_bucket(store, tmp_path)
    bucket = store.buckets.store(BUCKET_ID)
    bucket.put("a/1", [b"before"])
    with second_bucket_away(tmp_path), pytest.raises(StoreDenied):
        bucket.put("a/2", [b"meanwhile"])
    bucket.put("a/2", [b"after"])
    assert bucket.get_range("a/1", 0, 6) == b"before"
    assert [path.name for path in tmp_path.glob(f"{FOLDER}*")] == [FOLDER]


def test_it_comes_back_when_the_demo_is_interrupted_meanwhile(store: Store, tmp_path: Path) -> None:
    add_second_bucket(store, tmp_path)
    with pytest.raises(KeyboardInterrupt), second_bucket_away(tmp_path):
        raise KeyboardInterrupt
    assert (tmp_path / FOLDER).is_dir()
