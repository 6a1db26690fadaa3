"""Metadata that is not the one the bucket was written with: no object may be written over another store's."""

import asyncio
from pathlib import Path

import pytest

from siltstone.server.components import BucketOfAnotherStore, open_store, running_node
from siltstone.server.settings import StoreSettings, load_settings


async def append_one(settings: StoreSettings) -> None:
    async with running_node(settings) as engine:
        stream = await engine.open_stream(await engine.create_stream(), 0)
        await engine.append(stream, settings.folder.name.encode(), 1)


def objects(bucket: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in bucket.rglob("*") if path.is_file()}


def test_a_node_whose_metadata_was_lost_does_not_begin_anew_over_its_objects(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, environment={})
    asyncio.run(append_one(settings))
    before = objects(tmp_path / "bucket")
    (tmp_path / "metadata.sqlite").unlink()
    for _ in range(2):
        with pytest.raises(BucketOfAnotherStore, match="restore the metadata"):
            asyncio.run(append_one(settings))
    assert objects(tmp_path / "bucket") == before


def test_a_second_store_does_not_begin_in_the_bucket_of_another(tmp_path: Path) -> None:
    bucket = {"buckets.0": (tmp_path / "bucket").as_uri()}
    first, second = (load_settings(tmp_path / name, environment={}, flags=bucket) for name in "ab")
    asyncio.run(append_one(first))
    with pytest.raises(BucketOfAnotherStore, match="a bucket or a prefix of its own"):
        asyncio.run(append_one(second))
    asyncio.run(append_one(first))
    with open_store(first) as store:
        assert len(store.metadata.image.objects) == 2


def test_what_other_programs_keep_in_the_bucket_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "00-notes.txt").write_text("not ours")
    asyncio.run(append_one(load_settings(tmp_path, environment={})))
