"""Decisions of retention: close segments and move start offsets forward. Retention trims streams; no object is deleted
here."""

from collections.abc import Iterator

from msgspec.structs import replace

from siltstone.metadata.commands import RollSegments, TopicTrims, TrimStreams
from siltstone.metadata.decisions.fences import Decision, check_node, running_job
from siltstone.metadata.entities import StreamMetadata, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import SegmentsRolled, StreamTrimmed
from siltstone.metadata.refusals import CommandMalformed
from siltstone.model.segments import ClosedSegment


def decide_roll_segments(view: ImageView, command: RollSegments, now_ms: int) -> Decision[None]:
    _check_requester(view, command)
    if len({stream_id for stream_id, _ in command.rolled}) < len(command.rolled):
        raise CommandMalformed("the command closes two segments of one stream; close one with each command")
    rolled = tuple(_rolled(view, command))
    return Decision((SegmentsRolled(rolled),) if rolled else (), None)


def _check_requester(view: ImageView, command: RollSegments) -> None:
    match command.node_id, command.node_epoch, command.job_id:
        case int(node_id), int(node_epoch), None:
            check_node(view, node_id, node_epoch)
        case None, None, int(job_id):
            running_job(view, job_id)
        case _:
            raise CommandMalformed(
                "segments are closed by a node with its epoch or by a job; give exactly one of them"
            )


def _rolled(view: ImageView, command: RollSegments) -> Iterator[tuple[int, ClosedSegment]]:
    for stream_id, segment in command.rolled:
        _check_form(segment)
        stream = view.streams.get(stream_id)
        if (
            stream is None
            or stream.state is StreamState.DELETED
            or segment.end_offset <= stream.active_offset
        ):
            continue
        if command.job_id is None and stream.owner != command.node_id:
            continue
        if command.job_id is not None and segment.end_offset > stream.end_offset:
            raise CommandMalformed(
                f"{segment} of stream {stream_id} reaches beyond {stream.end_offset}, the stream's committed end"
            )
        yield stream_id, replace(segment, start_offset=stream.active_offset)


def _check_form(segment: ClosedSegment) -> None:
    if not 0 <= segment.start_offset < segment.end_offset:
        raise CommandMalformed(f"{segment} must begin at 0 or later and end after its start")
    if segment.size_bytes < 0 or segment.batch_count < 0:
        raise CommandMalformed(f"{segment} has a negative size or number of batches")


def decide_trim_streams(view: ImageView, command: TrimStreams, now_ms: int) -> Decision[tuple[int, ...]]:
    running_job(view, command.job_id)
    records = tuple(record for topic in command.topics for record in _trims(view, topic))
    return Decision(records, tuple(record.stream_id for record in records))


def _trims(view: ImageView, trims: TopicTrims) -> Iterator[StreamTrimmed]:
    topic = view.topics.get(trims.topic_id)
    if topic is None or topic.configs != trims.configs:
        return
    streams = {partition.data_stream_id for partition in topic.partitions}
    for stream_id, start_offset in trims.trims:
        if stream_id not in streams:
            raise CommandMalformed(f"stream {stream_id} is not a data stream of topic {topic.name}")
        stream = view.streams[stream_id]
        _check_within(stream, start_offset)
        if start_offset > stream.start_offset:
            yield StreamTrimmed(stream_id, start_offset)


def _check_within(stream: StreamMetadata, start_offset: int) -> None:
    if not 0 <= start_offset <= stream.end_offset:
        raise CommandMalformed(
            f"stream {stream.stream_id} ends at {stream.end_offset}: it cannot be trimmed to {start_offset}"
        )
