"""A map of a stream over its offsets: which object holds which of them, what is trimmed, and what follows. Pure.

A map has at most ``PIECES_MAX`` pieces; neighbours of one kind in further objects are drawn together.
"""

from collections.abc import Iterator

import msgspec

from siltstone.metadata.entities import StreamMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.model.objects import ObjectRange

PIECES_MAX = 400


class MapPiece(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets [start_offset, end_offset) in one object, or in ``objects`` of them that are drawn together.

    ``kind``: SSO or SO; ``trimmed`` for offsets below the start of the stream, whose object still exists.
    ``dead_share``: the part of the object's bytes that no stream needs any more."""

    kind: str
    start_offset: int
    end_offset: int
    size_bytes: int
    object_id: int
    objects: int
    bucket_ids: tuple[int, ...]
    committed_ms: int
    dead_share: float


class StreamMap(msgspec.Struct, frozen=True):
    """``first_offset`` and ``last_offset`` are where the drawing begins and ends."""

    stream_id: int
    start_offset: int
    end_offset: int
    first_offset: int
    last_offset: int
    pieces: tuple[MapPiece, ...]
    is_joined: bool
    segment_ends: tuple[int, ...]


def stream_map(image: MetadataImage, stream: StreamMetadata) -> StreamMap:
    pieces = [_piece(image, stream, held) for held in stream.ranges]
    joined = _joined(pieces, PIECES_MAX) if len(pieces) > PIECES_MAX else pieces
    first = min([stream.start_offset, *(each.start_offset for each in pieces)])
    return StreamMap(
        stream_id=stream.stream_id,
        start_offset=stream.start_offset,
        end_offset=stream.end_offset,
        first_offset=first,
        last_offset=max(stream.end_offset, first + 1),
        pieces=tuple(joined),
        is_joined=len(joined) < len(pieces),
        segment_ends=tuple(each.end_offset for each in stream.segments[-PIECES_MAX:]),
    )


def piece_at(image: MetadataImage, stream: StreamMetadata, offset: int) -> MapPiece | None:
    """Returns the piece that holds the offset; None if no object does."""
    for held in stream.ranges:
        if held.start_offset <= offset < held.end_offset:
            return _piece(image, stream, held)
    return None


def dead_share(image: MetadataImage, object_id: int) -> float:
    """Returns the share of an object's bytes that lie below the starts of their streams, or belong to deleted ones."""
    found = image.objects.get(object_id)
    if found is None or not found.ranges:
        return 0.0
    size = sum(each.size_bytes for each in found.ranges)
    live = sum(each.size_bytes for each in found.ranges if _is_live(image, each))
    return 1 - live / size if size else 0.0


def _is_live(image: MetadataImage, held: ObjectRange) -> bool:
    stream = image.streams.get(held.stream_id)
    return stream is not None and stream.state.name != "DELETED" and held.end_offset > stream.start_offset


def _piece(image: MetadataImage, stream: StreamMetadata, held: ObjectRange) -> MapPiece:
    found = image.objects.get(held.object_id)
    kind = found.kind.label if found is not None and found.kind is not None else "object"
    return MapPiece(
        kind="trimmed" if held.end_offset <= stream.start_offset else kind,
        start_offset=held.start_offset,
        end_offset=held.end_offset,
        size_bytes=held.size_bytes,
        object_id=held.object_id,
        objects=1,
        bucket_ids=found.bucket_ids if found is not None else (),
        committed_ms=found.committed_ms if found is not None else 0,
        dead_share=dead_share(image, held.object_id),
    )


def _joined(pieces: list[MapPiece], pieces_max: int) -> list[MapPiece]:
    """Draws neighbours together until ``pieces_max`` are left: as many objects in each as are needed."""
    each_of = -(-len(pieces) // pieces_max)
    return [_together(pieces[at : at + each_of]) for at in range(0, len(pieces), each_of)]


def _together(pieces: list[MapPiece]) -> MapPiece:
    first, last = pieces[0], pieces[-1]
    kinds = {each.kind for each in pieces}
    return msgspec.structs.replace(
        first,
        kind=first.kind if len(kinds) == 1 else "several",
        end_offset=last.end_offset,
        size_bytes=sum(each.size_bytes for each in pieces),
        objects=len(pieces),
        bucket_ids=tuple(sorted(set(_bucket_ids(pieces)))),
        committed_ms=max(each.committed_ms for each in pieces),
        dead_share=max(each.dead_share for each in pieces),
    )


def _bucket_ids(pieces: list[MapPiece]) -> Iterator[int]:
    for each in pieces:
        yield from each.bucket_ids
