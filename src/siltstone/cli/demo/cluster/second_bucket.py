"""Adds the second bucket of the demo of a cluster, takes it away while records flow, and brings it back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from siltstone.cli.buckets.command import add_bucket
from siltstone.metadata.buckets import SetWriteStrategy
from siltstone.metadata.image import MetadataImage
from siltstone.model.buckets import StrategyType, WriteStrategy
from siltstone.model.objects import ObjectState
from siltstone.offline.opening.store import Store

BUCKET_ID = 1
FOLDER = "second-bucket"


def add_second_bucket(store: Store, folder: Path) -> None:
    """Adds a folder as a bucket, and spreads new objects over both. Raises what the bucket and the metadata raise."""
    add_bucket(store, (folder / FOLDER).as_uri())
    store.metadata.execute(SetWriteStrategy(WriteStrategy(StrategyType.ROUND_ROBIN)))


@contextmanager
def second_bucket_away(folder: Path) -> Iterator[None]:
    """Takes the bucket away in this block, as if its disk were not mounted any more: its folder is gone, and nothing
    can be written there."""
    place, moved = folder / FOLDER, folder / f"{FOLDER}-away"
    place.rename(moved)
    place.write_text("not a folder")
    try:
        yield
    finally:
        place.unlink()
        moved.rename(place)


def objects_in(image: MetadataImage, bucket_id: int) -> int:
    return sum(
        bucket_id in each.bucket_ids and each.state is ObjectState.COMMITTED
        for each in image.objects.values()
    )
