"""Rule 4, checked on the image: a compaction removes no live offset and adds none.

An *extent* is what ranges that touch make when they are joined. For each stream of the compacted objects:

* every live part of an extent of the compacted objects lies in an extent of the new ranges;
* every new range lies in an extent of the compacted objects, and no two new ranges overlap.

The objects that stay hold other offsets (the ranges of a stream never overlap), so a new range that lies in an extent
of the compacted objects cannot overlap them. A new range may begin below the stream's start offset: when a trim falls
inside a block, the whole block is kept.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from siltstone.metadata.entities import StreamMetadata, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.refusals import CoverageNotMatched
from siltstone.metadata.streams import joined
from siltstone.model.objects import ObjectRange

Extents = list[tuple[int, int]]


def check_coverage(view: ImageView, leaving: Iterable[ObjectRange], arriving: Iterable[ObjectRange]) -> None:
    """Checks the ranges of the compacted objects against those of the new ones. Raises CoverageNotMatched."""
    held = _by_stream(leaving)
    new = _by_stream(arriving)
    if invented := new.keys() - held.keys():
        raise CoverageNotMatched(
            f"the new objects hold ranges of streams {sorted(invented)[:10]}, and the compacted objects hold none of "
            "them; plan again"
        )
    for stream_id, ranges in held.items():
        _check_stream(view.streams[stream_id], ranges, new.get(stream_id, ()))


def _by_stream(ranges: Iterable[ObjectRange]) -> dict[int, list[ObjectRange]]:
    grouped: defaultdict[int, list[ObjectRange]] = defaultdict(list)
    for held in ranges:
        grouped[held.stream_id].append(held)
    for members in grouped.values():
        members.sort(key=lambda held: held.start_offset)
    return grouped


def _check_stream(
    stream: StreamMetadata, leaving: Sequence[ObjectRange], arriving: Sequence[ObjectRange]
) -> None:
    for before, after in pairwise(arriving):
        if after.start_offset < before.end_offset:
            _refuse(stream, "new ranges overlap", (after.start_offset, before.end_offset))
    held_extents = joined(leaving)
    new_extents = joined(arriving)
    if invented := _first_not_inside(new_extents, held_extents):
        _refuse(stream, "the compacted objects do not hold the new range", invented)
    if lost := _first_not_inside(_live(stream, held_extents), new_extents):
        _refuse(stream, "no new object holds the live range", lost)


def _live(stream: StreamMetadata, extents: Extents) -> Extents:
    """Returns the parts of the extents that a reader may still read: nothing of a deleted stream, otherwise what lies
    above its start offset."""
    if stream.state is StreamState.DELETED:
        return []
    start = stream.start_offset
    return [(max(extent[0], start), extent[1]) for extent in extents if extent[1] > start]


def _first_not_inside(inner: Extents, outer: Extents) -> tuple[int, int] | None:
    """Returns the first inner extent that no single outer extent contains, or None. Both lists are sorted and
    disjoint."""
    at = 0
    for start, end in inner:
        while at < len(outer) and outer[at][1] < end:
            at += 1
        if at == len(outer) or start < outer[at][0]:
            return start, end
    return None


def _refuse(stream: StreamMetadata, what: str, extent: tuple[int, int]) -> None:
    raise CoverageNotMatched(f"stream {stream.stream_id}: {what} [{extent[0]}, {extent[1]}); plan again")
