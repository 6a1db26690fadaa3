"""Runs: stream objects of one stream whose offsets touch, from the image alone.

A run ends where another object holds the offsets in between, or none, and where the bucket changes: a store copies
within one bucket. Objects without a live offset are in none: they are destroyed unread, by the kind ``dead-objects``.
"""

from collections.abc import Iterator, Mapping

from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState
from siltstone.metadata.stream_ranges import is_live
from siltstone.model.objects import ObjectKind, ObjectRange

Run = tuple[ObjectMetadata, ...]


def held_by(member: ObjectMetadata) -> ObjectRange:
    """The one range of a stream object."""
    (held,) = member.ranges
    return held


def runs_of(
    stream: StreamMetadata, objects: Mapping[int, ObjectMetadata], *, is_compacted: bool
) -> Iterator[Run]:
    """In offset order, those of a single object too.

    In a stream whose topic is compacted by key a run ends at the offset below which it is clean. What lies behind it
    is what the next key compaction is about: with it in one object, all that is clean beside it would look dirty and
    be copied now only to be written anew then.
    """
    if stream.state is StreamState.DELETED:
        return
    cleaned_offset = stream.cleaned_offset if is_compacted else 0
    run: list[ObjectMetadata] = []
    for member in _live_members(stream, objects):
        if run and (member is None or not _joins(run[-1], member, cleaned_offset)):
            yield tuple(run)
            run = []
        if member is not None:
            run.append(member)
    if run:
        yield tuple(run)


def _live_members(
    stream: StreamMetadata, objects: Mapping[int, ObjectMetadata]
) -> Iterator[ObjectMetadata | None]:
    """None for a range that lies in a stream set object."""
    for held in stream.ranges:
        if is_live(stream, held):
            holder = objects[held.object_id]
            yield holder if holder.kind is ObjectKind.STREAM_OBJECT else None


def _joins(before: ObjectMetadata, after: ObjectMetadata, cleaned_offset: int) -> bool:
    first, second = held_by(before), held_by(after)
    return (
        first.end_offset == second.start_offset
        and before.bucket_id == after.bucket_id
        and (first.end_offset <= cleaned_offset) == (second.end_offset <= cleaned_offset)
    )
