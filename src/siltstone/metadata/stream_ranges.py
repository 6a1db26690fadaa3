"""A stream's ranges: one tuple, sorted by offset, without overlap. What is done to it, and what is found in it."""

from bisect import bisect_right
from collections.abc import Container, Iterable, Sequence
from operator import attrgetter

from siltstone.metadata.entities import StreamMetadata, StreamState
from siltstone.model.objects import ObjectRange

Ranges = tuple[ObjectRange, ...]

_start_offset = attrgetter("start_offset")


def inserted(ranges: Ranges, new: ObjectRange) -> Ranges:
    """With one more. Nearly always it goes to the end."""
    if not ranges or ranges[-1].end_offset <= new.start_offset:
        return (*ranges, new)
    at = bisect_right(ranges, new.start_offset, key=_start_offset)
    assert at == 0 or ranges[at - 1].end_offset <= new.start_offset, f"{new} overlaps {ranges[at - 1]}"
    assert new.end_offset <= ranges[at].start_offset, f"{new} overlaps {ranges[at]}"
    return (*ranges[:at], new, *ranges[at:])


def without_objects(ranges: Ranges, object_ids: Container[int]) -> Ranges:
    return tuple(held for held in ranges if held.object_id not in object_ids)


def first_holding(ranges: Sequence[ObjectRange], offset: int) -> int:
    """Index of the range that holds the offset, or the number of ranges when none does."""
    at = bisect_right(ranges, offset, key=_start_offset) - 1
    return at if at >= 0 and offset < ranges[at].end_offset else len(ranges)


def is_live(stream: StreamMetadata | None, held: ObjectRange) -> bool:
    """Whether a reader may still ask for an offset of the range. No stream: it was deleted and forgotten."""
    return (
        stream is not None
        and stream.state is not StreamState.DELETED
        and held.end_offset > stream.start_offset
    )


def joined(ranges: Iterable[ObjectRange]) -> list[tuple[int, int]]:
    """The runs [start, end) that sorted ranges of one stream make when those that touch are joined."""
    runs: list[tuple[int, int]] = []
    for held in ranges:
        if runs and runs[-1][1] >= held.start_offset:
            runs[-1] = (runs[-1][0], max(runs[-1][1], held.end_offset))
        else:
            runs.append((held.start_offset, held.end_offset))
    return runs
