"""What an upload's commit and a compaction's commit have in common: judging the new objects, and recording them."""

from collections.abc import Iterator, Sequence

import msgspec

from siltstone.metadata.commands import NewObject
from siltstone.metadata.decisions.destroying import destruction
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import ObjectCommitted, Record
from siltstone.metadata.refusals import CommandMalformed, ObjectNotExist
from siltstone.metadata.stream_ranges import is_live
from siltstone.model.limits import STREAMS_PER_OBJECT_MAX
from siltstone.model.objects import ObjectKind, ObjectRange


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
    """Raises CommandMalformed."""
    if len(set(objects.ids)) < len(objects.ids):
        raise CommandMalformed("an object is named twice in one commit")
    for kind, new in objects.members:
        _check_ranges(kind, new)


def _check_ranges(kind: ObjectKind, new: NewObject) -> None:
    count = len(new.ranges)
    if not 1 <= count <= (1 if kind is ObjectKind.STREAM_OBJECT else STREAMS_PER_OBJECT_MAX):
        raise CommandMalformed(f"{kind.label} {new.object_id} has {count} ranges; see STREAMS_PER_OBJECT_MAX")
    before = -1
    for held in new.ranges:
        if held.stream_id <= before:
            raise CommandMalformed(f"ranges of object {new.object_id} are not sorted, one to a stream")
        if held.object_id != new.object_id or not 0 <= held.start_offset < held.end_offset:
            raise CommandMalformed(f"{held} is no range of object {new.object_id}")
        before = held.stream_id


def was_done(view: ImageView, object_ids: Sequence[int]) -> bool:
    """Whether this commit was done before; what happened to its objects since does not matter.

    A commit is atomic: when one of its objects was committed, none can still be waiting, else it is another commit.
    """
    waiting = any(object_id in view.prepared for object_id in object_ids)
    return not waiting and any(_was_committed(view, object_id) for object_id in object_ids)


def _was_committed(view: ImageView, object_id: int) -> bool:
    metadata = view.objects.get(object_id)
    return metadata is not None and metadata.committed_ms > 0


def check_waiting(view: ImageView, object_ids: Sequence[int], now_ms: int) -> None:
    """Raises ObjectNotExist unless all are PREPARED and within their time limit."""
    missing = [object_id for object_id in object_ids if view.prepared.get(object_id, now_ms) <= now_ms]
    if missing:
        raise ObjectNotExist(
            f"objects {missing[:10]} are not prepared or past their time limit; prepare new ones"
        )


def commitment(view: ImageView, objects: NewObjects, data_time_ms: int, now_ms: int) -> tuple[Record, ...]:
    """Commits the objects with their live ranges; one that has none is destroyed in the same batch.

    A range that is dead on arrival (its stream was deleted or trimmed meanwhile) is left out, so a deleted stream
    gains no ranges and can be forgotten.
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
    return (*records, *destruction(view, dead, now_ms))
