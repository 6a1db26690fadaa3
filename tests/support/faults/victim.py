"""Chooses the object that a test damages: one in the middle, with records before and behind it."""

import msgspec

from siltstone.metadata.lookup import find_ranges
from siltstone.model.objects import object_key
from siltstone.object_store.buckets import read_index
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import NodeSettings


class Victim(msgspec.Struct, frozen=True):
    """``start_offset``: the first offset of the partition in the object. ``position``: that of a byte in the middle
    of the partition's first block."""

    object_id: int
    topic: str
    partition: int
    start_offset: int
    position: int

    @property
    def words(self) -> dict[str, object]:
        """Returns the words that an error about the object may have, for ``str.format``."""
        return {**msgspec.structs.asdict(self), "key": object_key(self.object_id)}


def object_in_the_middle(settings: NodeSettings, topic: str) -> Victim:
    with open_store(settings) as store:
        image = store.context.metadata.image
        (found,) = (each for each in image.topics.values() if each.name == topic)
        held = [find_ranges(image, each.data_stream_id, 0) for each in found.partitions]
        partition = max(range(len(held)), key=lambda number: len(held[number]))
        middle = held[partition][len(held[partition]) // 2]
        metadata = image.objects[middle.object_id]
        bucket = store.context.buckets.store(metadata.bucket_id)
        index = read_index(bucket, object_key(middle.object_id), metadata.size_bytes)
        first = next(index.blocks_of(middle.stream_id, middle.start_offset, middle.end_offset))
    position = first.position + first.size_bytes // 2
    return Victim(middle.object_id, topic, partition, middle.start_offset, position)
