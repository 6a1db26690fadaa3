"""How a stream changes: pure steps from one StreamMetadata to the next. Offsets never move back."""

from msgspec.structs import replace

from siltstone.metadata.entities import NO_EPOCH, NO_NODE, OwnerRange, StreamMetadata, StreamState
from siltstone.model.segments import ClosedSegment


def created(stream_id: int, tags: dict[str, str]) -> StreamMetadata:
    return StreamMetadata(
        stream_id=stream_id,
        state=StreamState.CLOSED,
        epoch=NO_EPOCH,
        owner=NO_NODE,
        start_offset=0,
        end_offset=0,
        owner_ranges=(),
        ranges=(),
        tags=tags,
    )


def opened(stream: StreamMetadata, epoch: int, node_id: int) -> StreamMetadata:
    """A new owner or epoch begins a new owner range at the end; owner ranges that stayed empty go."""
    owners = stream.owner_ranges
    if (epoch, node_id) != (stream.epoch, stream.owner):
        new = OwnerRange(node_id, epoch, stream.end_offset, stream.end_offset)
        owners = (*(held for held in owners if held.start_offset < held.end_offset), new)
    return replace(stream, state=StreamState.OPENED, epoch=epoch, owner=node_id, owner_ranges=owners)


def closed(stream: StreamMetadata) -> StreamMetadata:
    return replace(stream, state=StreamState.CLOSED)


def deleted(stream: StreamMetadata) -> StreamMetadata:
    return replace(stream, state=StreamState.DELETED)


def trimmed(stream: StreamMetadata, start_offset: int) -> StreamMetadata:
    start = max(stream.start_offset, start_offset)
    end = max(stream.end_offset, start)
    owners = _trimmed_owners(stream.owner_ranges, start)
    segments = tuple(each for each in stream.segments if each.end_offset > start)
    return replace(stream, start_offset=start, end_offset=end, owner_ranges=owners, segments=segments)


def _trimmed_owners(owners: tuple[OwnerRange, ...], start: int) -> tuple[OwnerRange, ...]:
    """Those wholly below the start go, except the last, which says who owns what comes."""
    kept = (held for held in owners if held.end_offset > start or held is owners[-1])
    return tuple(
        replace(held, start_offset=max(held.start_offset, start), end_offset=max(held.end_offset, start))
        for held in kept
    )


def rolled(stream: StreamMetadata, segment: ClosedSegment) -> StreamMetadata:
    assert segment.start_offset >= stream.active_offset, (
        f"{segment} overlaps the segments of {stream.stream_id}"
    )
    return replace(stream, segments=(*stream.segments, segment))


def cleaned(stream: StreamMetadata, cleaned_offset: int) -> StreamMetadata:
    return replace(stream, cleaned_offset=max(stream.cleaned_offset, cleaned_offset))


def advanced(stream: StreamMetadata, end_offset: int) -> StreamMetadata:
    if end_offset <= stream.end_offset:
        return stream
    last = replace(stream.owner_ranges[-1], end_offset=end_offset)
    return replace(stream, end_offset=end_offset, owner_ranges=(*stream.owner_ranges[:-1], last))
