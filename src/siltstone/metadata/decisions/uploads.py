"""CommitUpload: commits the objects of one sealed cache block and moves their streams' ends (T24, rules 3 and 7).

One range that does not continue its stream refuses the whole command.
"""

from siltstone.metadata.commands import CommitUpload
from siltstone.metadata.decisions.fences import Decision, check_node, check_owner
from siltstone.metadata.decisions.new_objects import (
    NewObjects,
    check_form,
    check_waiting,
    commitment,
    destruction,
    was_done,
)
from siltstone.metadata.entities import NO_NODE, StreamMetadata, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import StreamsAdvanced
from siltstone.metadata.refusals import CommandMalformed, OffsetNotMatched, StreamNotExist, StreamNotOpened
from siltstone.model.objects import ObjectRange


def decide_commit_upload(view: ImageView, command: CommitUpload, now_ms: int) -> Decision[None]:
    """Decides the commit of an upload. Whether the commit was done before is checked before any fence, because a
    refusal permits the caller to delete what it uploaded."""
    objects = NewObjects.of(command.stream_set_object, command.stream_objects)
    if not objects.members:
        raise CommandMalformed("the commit of an upload names no object")
    check_form(objects)
    if not set(command.released).isdisjoint(objects.ids):
        raise CommandMalformed("the commit of an upload releases an object that it commits")
    if was_done(view, objects.ids):
        return Decision((), None)
    check_node(view, command.node_id, command.node_epoch)
    check_waiting(view, objects.ids, now_ms)
    ends = _ends_after(view, command.node_id, objects)
    committed = commitment(view, objects, command.data_time_ms or now_ms, now_ms)
    advanced = (StreamsAdvanced(tuple(sorted(ends.items()))),) if ends else ()
    unneeded = sorted({each for each in command.released if each in view.prepared})
    return Decision((*committed, *advanced, *destruction(view, unneeded, now_ms)), None)


def _ends_after(view: ImageView, node_id: int, objects: NewObjects) -> dict[int, int]:
    """Returns stream id → new end offset. Raises StreamFenced, StreamNotExist, StreamNotOpened, OffsetNotMatched."""
    ends: dict[int, int] = {}
    ranges = sorted(objects.ranges(), key=lambda held: (held.stream_id, held.start_offset))
    for held in ranges:
        stream = _writable_stream(view, node_id, held)
        if stream is None or held.end_offset <= stream.start_offset:
            continue
        _check_continuity(stream, ends.get(held.stream_id, stream.end_offset), held)
        ends[held.stream_id] = held.end_offset
    return ends


def _writable_stream(view: ImageView, node_id: int, held: ObjectRange) -> StreamMetadata | None:
    """Returns the range's stream; None when it was deleted, since a range that is dead on arrival need not continue
    anything. Raises StreamFenced, StreamNotExist, StreamNotOpened."""
    stream = view.streams.get(held.stream_id)
    if stream is None and held.stream_id >= view.next_stream_id:
        raise StreamNotExist(
            f"the upload's object {held.object_id} holds a range of stream {held.stream_id}, which was never created"
        )
    if stream is None or stream.state is StreamState.DELETED:
        return None
    if stream.owner == NO_NODE:
        raise StreamNotOpened(f"stream {stream.stream_id} was never opened; open it before appending")
    check_owner(stream, node_id)
    return stream


def _check_continuity(stream: StreamMetadata, end_offset: int, held: ObjectRange) -> None:
    """Checks that each range begins at its stream's end offset. After a trim past the committed end has moved the end,
    the first range committed across the new start may begin below it, but not inside a range that an object holds
    already. Raises OffsetNotMatched."""
    if held.start_offset == end_offset:
        return
    held_until = stream.ranges[-1].end_offset if stream.ranges else 0
    crosses_trim = held.start_offset < stream.start_offset == end_offset and held.start_offset >= held_until
    if not crosses_trim:
        raise OffsetNotMatched(
            f"stream {stream.stream_id} ends at {end_offset}, and the range [{held.start_offset}, {held.end_offset}) "
            f"of object {held.object_id} does not begin there"
        )
