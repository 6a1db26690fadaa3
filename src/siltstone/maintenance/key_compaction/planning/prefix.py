"""What of a stream can be compacted at all: the stream objects it begins with.

A pass has to see everything of a key from the beginning on (G7), and reads no stream set object: others' data lies in
them, with a life of its own. Compaction splits compacted streams out of those first.
"""

from collections.abc import Iterable, Sequence

import msgspec

from siltstone.maintenance.key_compaction.unit import SourceObject
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata
from siltstone.metadata.image import ImageView
from siltstone.model.objects import ObjectKind, ObjectRange


class Prefix(msgspec.Struct, frozen=True):
    """``objects`` are contiguous, from the first live one on. ``blocking_object_id``: the stream set object that holds
    what follows, if one does."""

    objects: tuple[SourceObject, ...]
    blocking_object_id: int | None = None

    @property
    def end_offset(self) -> int:
        return self.objects[-1].held.end_offset if self.objects else 0

    def below(self, offset: int) -> tuple[SourceObject, ...]:
        """Those that hold something before ``offset``."""
        return tuple(source for source in self.objects if source.held.start_offset < offset)


def prefix_of(view: ImageView, stream: StreamMetadata) -> Prefix:
    found: list[SourceObject] = []
    for held in _live(stream):
        metadata = view.objects[held.object_id]
        if metadata.kind is not ObjectKind.STREAM_OBJECT:
            return Prefix(tuple(found), metadata.object_id)
        if found and found[-1].held.end_offset != held.start_offset:
            break
        found.append(_source(metadata, held))
    return Prefix(tuple(found))


def _live(stream: StreamMetadata) -> Iterable[ObjectRange]:
    return (held for held in stream.ranges if held.end_offset > stream.start_offset)


def _source(metadata: ObjectMetadata, held: ObjectRange) -> SourceObject:
    return SourceObject(metadata.object_id, metadata.bucket_id, metadata.size_bytes, held)


def bytes_between(sources: Sequence[SourceObject], start_offset: int, end_offset: int) -> int:
    """Of what they hold of [start, end); of an object that holds more, its share by offsets."""
    return sum(_share(source.held, start_offset, end_offset) for source in sources)


def _share(held: ObjectRange, start_offset: int, end_offset: int) -> int:
    inside = min(held.end_offset, end_offset) - max(held.start_offset, start_offset)
    return held.size_bytes * max(0, inside) // (held.end_offset - held.start_offset)
