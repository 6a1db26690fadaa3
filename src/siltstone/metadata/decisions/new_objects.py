"""Has what the commits of uploads and of compactions share: checks of the new objects, and the records for them.

It also makes the records that destroy objects and delete streams: a deleted stream is forgotten together with the last
object that holds one of its ranges. ``uploads``, ``compaction`` and ``key_compaction`` are the commits.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from siltstone.metadata.commands import NewObject
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.lookup import committed_object
from siltstone.metadata.records import (
    CopiesAdded,
    CopiesUncertain,
    ObjectCommitted,
    ObjectsDestroyed,
    Record,
    StreamDeleted,
    StreamForgotten,
)
from siltstone.metadata.refusals import CommandMalformed, CompactedObjectsNotFound, ObjectNotExist
from siltstone.metadata.streams import is_live
from siltstone.model.limits import STREAMS_PER_OBJECT_MAX
from siltstone.model.objects import ObjectKind, ObjectRange


def committed_sources(view: ImageView, compacted: Sequence[int]) -> list[ObjectMetadata]:
    """Returns the compacted objects, each once, sorted by id. Raises CompactedObjectsNotFound unless all are
    COMMITTED."""
    wanted = sorted(set(compacted))
    found = [source for each in wanted if (source := committed_object(view, each)) is not None]
    if len(found) < len(wanted):
        missing = sorted(set(wanted) - {source.object_id for source in found})
        raise CompactedObjectsNotFound(
            f"objects {missing[:10]} are not committed: they were compacted or destroyed before; plan again"
        )
    return found


def destruction(view: ImageView, object_ids: Iterable[int], now_ms: int) -> tuple[Record, ...]:
    """Returns the records that destroy the objects, and the records that forget deleted streams without a range in
    another object."""
    leaving = tuple(object_ids)
    if not leaving:
        return ()
    return (ObjectsDestroyed(leaving, now_ms), *_forgetting(view, frozenset(leaving)))


def deletion(view: ImageView, streams: Iterable[StreamMetadata], now_ms: int) -> tuple[Record, ...]:
    """Returns the records that delete the streams; none is deleted yet. Their stream objects are destroyed,
    too; stream set objects, which hold other streams as well, stay until they are compacted."""
    deleted: list[Record] = []
    destroyed: list[int] = []
    forgotten: list[Record] = []
    for stream in streams:
        own = _own_objects(view, stream)
        deleted.append(StreamDeleted(stream.stream_id))
        destroyed += own
        if len(own) == len(stream.ranges):
            forgotten.append(StreamForgotten(stream.stream_id))
    destruction_of_all = (ObjectsDestroyed(tuple(destroyed), now_ms),) if destroyed else ()
    return (*deleted, *destruction_of_all, *forgotten)


def _own_objects(view: ImageView, stream: StreamMetadata) -> list[int]:
    return [
        held.object_id
        for held in stream.ranges
        if view.objects[held.object_id].kind is ObjectKind.STREAM_OBJECT
    ]


def _forgetting(view: ImageView, leaving: frozenset[int]) -> Iterable[StreamForgotten]:
    touched = {held.stream_id for object_id in leaving for held in view.objects[object_id].ranges}
    for stream_id in sorted(touched):
        stream = view.streams[stream_id]
        if stream.state is StreamState.DELETED and all(held.object_id in leaving for held in stream.ranges):
            yield StreamForgotten(stream_id)


class NewObjects(msgspec.Struct, frozen=True):
    """The objects of one commit, each with its kind."""

    members: tuple[tuple[ObjectKind, NewObject], ...]

    @classmethod
    def of(cls, stream_set_object: NewObject | None, stream_objects: Sequence[NewObject]) -> "NewObjects":
        sets = () if stream_set_object is None else ((ObjectKind.STREAM_SET_OBJECT, stream_set_object),)
        return cls((*sets, *((ObjectKind.STREAM_OBJECT, new) for new in stream_objects)))

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(new.object_id for _, new in self.members)

    def ranges(self) -> Iterator[ObjectRange]:
        for _, new in self.members:
            yield from new.ranges


def check_form(objects: NewObjects) -> None:
    """Checks ids and ranges of the new objects, without the image. Raises CommandMalformed."""
    if len(set(objects.ids)) < len(objects.ids):
        raise CommandMalformed("a commit names a new object twice")
    for kind, new in objects.members:
        _check_ranges(kind, new)


def _check_ranges(kind: ObjectKind, new: NewObject) -> None:
    count = len(new.ranges)
    count_max = 1 if kind is ObjectKind.STREAM_OBJECT else STREAMS_PER_OBJECT_MAX
    if not 1 <= count <= count_max:
        raise CommandMalformed(
            f"{kind.label} {new.object_id} has {count} ranges; it must have 1 to {count_max}"
        )
    before = -1
    for held in new.ranges:
        if held.stream_id <= before:
            raise CommandMalformed(
                f"the ranges of object {new.object_id} are not sorted by stream id with one range for each stream"
            )
        if held.object_id != new.object_id or not 0 <= held.start_offset < held.end_offset:
            raise CommandMalformed(f"{held} is not a range of object {new.object_id}")
        before = held.stream_id


def was_done(view: ImageView, object_ids: Sequence[int]) -> bool:
    """Returns whether this commit was done before, even if its objects were destroyed since.

    A commit is atomic: if one of the objects was committed and another is still PREPARED, this is another commit.
    """
    waiting = any(object_id in view.prepared for object_id in object_ids)
    return not waiting and any(_was_committed(view, object_id) for object_id in object_ids)


def _was_committed(view: ImageView, object_id: int) -> bool:
    metadata = view.objects.get(object_id)
    return metadata is not None and metadata.committed_ms > 0


def check_waiting(view: ImageView, object_ids: Sequence[int], now_ms: int) -> None:
    """Raises ObjectNotExist unless all objects are PREPARED and before their deadline."""
    missing = [object_id for object_id in object_ids if view.prepared.get(object_id, now_ms) <= now_ms]
    if missing:
        raise ObjectNotExist(
            f"objects {missing[:10]} were not prepared, or their time limit has passed, perhaps by the clock of a "
            "machine that is ahead; prepare new ones"
        )


def _places(view: ImageView, objects: NewObjects) -> Iterator[Record]:
    """Yields the records that say in which buckets the objects are, beyond the one of each. Raises CommandMalformed."""
    added: defaultdict[int, list[int]] = defaultdict(list)
    uncertain: defaultdict[int, list[int]] = defaultdict(list)
    for _, new in objects.members:
        prepared = view.objects[new.object_id].every_bucket_id
        standing = new.bucket_ids or prepared[:1]
        if not set(standing) <= set(prepared):
            raise CommandMalformed(
                f"object {new.object_id} was prepared for the buckets {list(prepared)}, and is committed in"
                f" {list(standing)}"
            )
        for bucket_id in prepared[1:]:
            if bucket_id in standing:
                added[bucket_id].append(new.object_id)
        if prepared[0] not in standing:
            uncertain[prepared[0]].append(new.object_id)
    for bucket_id, object_ids in added.items():
        yield CopiesAdded(tuple(object_ids), bucket_id)
    for bucket_id, object_ids in uncertain.items():
        yield CopiesUncertain(tuple(object_ids), bucket_id)


def commitment(view: ImageView, objects: NewObjects, data_time_ms: int, now_ms: int) -> tuple[Record, ...]:
    """Returns the records that commit each object with its live ranges, and destroy each object that has none. Raises
    CommandMalformed.

    A range that is dead on arrival (its stream was deleted or trimmed since) is left out, so a deleted stream gets no
    new ranges and can be forgotten.
    """
    records: list[Record] = []
    dead: list[int] = []
    for kind, new in objects.members:
        live = tuple(held for held in new.ranges if is_live(view.streams.get(held.stream_id), held))
        committed = ObjectCommitted(
            object_id=new.object_id,
            kind=kind,
            size_bytes=new.size_bytes,
            committed_ms=now_ms,
            data_time_ms=data_time_ms,
            ranges=live,
        )
        records.append(committed)
        if not live:
            dead.append(new.object_id)
    return (*records, *_places(view, objects), *destruction(view, dead, now_ms))
