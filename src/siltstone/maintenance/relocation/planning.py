"""Decides which objects are relocated, and cuts a copy into parts. Pure.

A copy has the bytes of its object, dead blocks and index included, so it is as right as the object was: every block is
verified on its way through a task, and the index was verified when it was read.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from siltstone.carrying.pipeline.kind import object_name
from siltstone.maintenance.stream_object_compaction.merge import Merge, ReadPart
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.commands import NewObject
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import PART_COUNT_MAX, READ_REQUEST_BYTES_MAX
from siltstone.model.objects import ObjectState
from siltstone.offline.blocks.columns import ENTRY, Source, SourceUnusable, Table


class MovedObject(msgspec.Struct, frozen=True):
    """An object that is in a bucket that is drained, or may have a copy there."""

    metadata: ObjectMetadata
    bucket_id: int

    @property
    def name(self) -> str:
        return object_name(self.metadata.object_id)

    @property
    def members(self) -> tuple[ObjectMetadata, ...]:
        return (self.metadata,)


def objects_to_move(image: MetadataImage) -> list[MovedObject]:
    """Returns the committed objects of all buckets that are drained, sorted by id. Objects that hold nothing live are
    left out, since the kind ``dead-objects`` destroys them."""
    draining = bucket_list_of(image).draining
    if not draining:
        return []
    found = (
        MovedObject(each, min(draining.intersection(each.every_bucket_id)))
        for each in image.objects.values()
        if each.state is ObjectState.COMMITTED
        and each.ranges
        and not draining.isdisjoint(each.every_bucket_id)
    )
    return sorted(found, key=lambda each: each.metadata.object_id)


class WholeObject(Merge):
    """The copy of one object, as the merge of all its blocks, in the order of their positions. ``tail``: the bytes
    after the last block, which are the index and the footer."""

    def __init__(self, source: Source, tail: bytes) -> None:
        """Raises SourceUnusable if blocks and tail are not the whole object."""
        self.sources = (source.metadata,)
        table = np.frombuffer(source.index.raw, dtype=ENTRY)
        self.table = table[np.argsort(table["position"])]
        self.trailer = tail
        self.parts = tuple(_parts(self.table, tail, source.metadata.size_bytes))
        starts = np.concatenate(([0], np.cumsum(self.table["size_bytes"])))
        if (starts[:-1] != self.table["position"]).any() or self.size_bytes != source.metadata.size_bytes:
            raise SourceUnusable(
                f"object {source.metadata.object_id} has bytes that its index does not name; run siltstone check"
            )

    def new_object(self, object_id: int) -> NewObject:
        (metadata,) = self.sources
        ranges = tuple(msgspec.structs.replace(each, object_id=object_id) for each in metadata.ranges)
        return NewObject(object_id, metadata.size_bytes, ranges)


def tail_position(source: Source) -> int:
    """Returns the position at which the blocks of an object end."""
    table = np.frombuffer(source.index.raw, dtype=ENTRY)
    return int((table["position"] + table["size_bytes"]).max()) if len(table) else 0


def _parts(table: Table, tail: bytes, size_bytes: int) -> Iterator[ReadPart]:
    """Cuts the object into parts of whole blocks. Each part but the last has at least READ_REQUEST_BYTES_MAX."""
    part_bytes = max(READ_REQUEST_BYTES_MAX, -(-size_bytes // (PART_COUNT_MAX - 1)))
    number, position, first, waiting = 1, 0, 0, 0
    for row, block_bytes in enumerate(table["size_bytes"].tolist(), start=1):
        waiting += block_bytes
        if waiting >= part_bytes and row < len(table):
            yield ReadPart(number, position, first, row)
            number, position, first, waiting = number + 1, position + waiting, row, 0
    yield ReadPart(number, position, first, len(table), tail)
