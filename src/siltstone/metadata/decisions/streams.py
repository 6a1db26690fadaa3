"""Decisions about one stream: create, open, close, trim and delete it (T23, T26)."""

from siltstone.metadata import streams as stream_steps
from siltstone.metadata.commands import CloseStream, CreateStream, DeleteStream, OpenStream, TrimStream
from siltstone.metadata.decisions.fences import (
    Decision,
    check_node,
    check_of_no_topic,
    check_owner,
    check_stream_epoch,
    existing_stream,
    owned_stream,
)
from siltstone.metadata.decisions.leaders import check_leader_of_stream
from siltstone.metadata.decisions.new_objects import deletion
from siltstone.metadata.entities import StreamMetadata, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import StreamClosed, StreamCreated, StreamOpened, StreamTrimmed
from siltstone.metadata.refusals import OffsetNotMatched, StreamNotClosed, StreamNotExist, StreamNotOpened


def decide_create_stream(view: ImageView, command: CreateStream, now_ms: int) -> Decision[int]:
    check_node(view, command.node_id, command.node_epoch)
    stream_id = view.next_stream_id
    return Decision((StreamCreated(stream_id, command.tags),), stream_id)


def decide_open_stream(view: ImageView, command: OpenStream, now_ms: int) -> Decision[StreamMetadata]:
    """Decides to open a stream. A stream that its owner opens again under the same epoch does not change. If the node
    was started again since, a record says so: the log of this start now holds records of open streams."""
    node = check_node(view, command.node_id, command.node_epoch)
    stream = existing_stream(view, command.stream_id)
    if command.stream_epoch > stream.epoch:
        if stream.state is StreamState.OPENED:
            raise StreamNotClosed(
                f"stream {stream.stream_id} is open at node {stream.owner}; that node has to close it first"
            )
    else:
        check_stream_epoch(stream, command.stream_epoch)
        check_owner(stream, command.node_id)
        if stream.state is StreamState.OPENED and node.log_epoch == node.node_epoch:
            return Decision((), stream)
    taken = check_leader_of_stream(view, node, stream)
    record = StreamOpened(stream.stream_id, command.stream_epoch, command.node_id)
    return Decision((*taken, record), stream_steps.opened(stream, command.stream_epoch, command.node_id))


def decide_close_stream(view: ImageView, command: CloseStream, now_ms: int) -> Decision[None]:
    check_node(view, command.node_id, command.node_epoch)
    stream = owned_stream(view, command.node_id, command.stream_id, command.stream_epoch)
    if stream.state is StreamState.CLOSED:
        return Decision((), None)
    return Decision((StreamClosed(stream.stream_id),), None)


def decide_trim_stream(view: ImageView, command: TrimStream, now_ms: int) -> Decision[None]:
    check_node(view, command.node_id, command.node_epoch)
    stream = owned_stream(view, command.node_id, command.stream_id, command.stream_epoch)
    if stream.state is not StreamState.OPENED:
        raise StreamNotOpened(f"stream {stream.stream_id} is closed; open it to trim it")
    if command.start_offset < stream.start_offset:
        raise OffsetNotMatched(
            f"stream {stream.stream_id} cannot be trimmed to {command.start_offset}: it begins at "
            f"{stream.start_offset} already"
        )
    if command.start_offset == stream.start_offset:
        return Decision((), None)
    return Decision((StreamTrimmed(stream.stream_id, command.start_offset),), None)


def decide_delete_stream(view: ImageView, command: DeleteStream, now_ms: int) -> Decision[None]:
    check_node(view, command.node_id, command.node_epoch)
    stream = view.streams.get(command.stream_id)
    if stream is None and not 0 <= command.stream_id < view.next_stream_id:
        raise StreamNotExist(f"stream {command.stream_id} was never created; look up its id again")
    if stream is None or stream.state is StreamState.DELETED:
        return Decision((), None)
    check_stream_epoch(stream, command.stream_epoch)
    if stream.state is StreamState.OPENED:
        raise StreamNotClosed(f"stream {stream.stream_id} is open at node {stream.owner}; close it first")
    check_of_no_topic(view, stream)
    return Decision(deletion(view, (stream,), now_ms), None)
