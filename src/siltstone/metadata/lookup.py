"""Selects from an image the ranges that hold the offsets of a read, and the objects that are due. Pure.

PREPARED objects are due past their deadline, DESTROYED objects past their grace period if no scan pin holds them (rule
6), and scan pins past their lease. The decisions about objects, the reader (``stream_engine.reading``) and the sweep
(``maintenance.sweep``) use these selections.

Which objects a pin holds is decided by versions of the log, never by clocks: an object that was destroyed before the
pin was put is named by no image of that version or later, so no scan under the pin reads it (SR27).
"""

from collections.abc import Container, Iterable
from heapq import nsmallest

from siltstone.metadata.entities import ObjectMetadata, ScanPin, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.refusals import StreamNotExist
from siltstone.metadata.streams import first_holding
from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import KIB, SCAN_PIN_OVERDUE_MS
from siltstone.model.objects import ObjectRange, ObjectState

OFFSET_BYTES_UNKNOWN = 1 * KIB
"""The size of a record, as long as no object has one."""

RANGES_COUNTED_MAX = 1_000
"""The size of a backlog is a figure for people: a longer one is estimated from its beginning."""


class OffsetOutOfRange(InvalidRequest):
    """The read begins before the stream's start offset, or ends before it begins."""


def committed_object(image: ImageView, object_id: int) -> ObjectMetadata | None:
    """Returns the object if it is COMMITTED; None if it is in another state or unknown."""
    metadata = image.objects.get(object_id)
    return metadata if metadata is not None and metadata.state is ObjectState.COMMITTED else None


def find_ranges(
    image: ImageView, stream_id: int, start: int, end: int | None = None, limit: int | None = None
) -> list[ObjectRange]:
    """Returns the ranges that hold [start, end) in order, each beginning where the one before ends; at most ``limit``.

    The first range may begin before ``start``, the last may end after ``end``; without ``end`` the ranges reach to the
    end of the stream. The list ends early where no committed object holds the next offset; it is empty when none
    holds ``start``, because that offset is in the tail cache of a node only. Raises StreamNotExist, OffsetOutOfRange.
    """
    stream = image.streams.get(stream_id)
    if stream is None or stream.state is StreamState.DELETED:
        raise StreamNotExist(f"stream {stream_id} does not exist; look up its id again")
    if start < stream.start_offset or (end is not None and end < start):
        raise OffsetOutOfRange(
            f"offsets {start} to {'the end' if end is None else end} of stream {stream_id} cannot be read: the stream"
            f" begins at {stream.start_offset}, and a range ends where it begins or later"
        )
    found: list[ObjectRange] = []
    next_offset = start
    for at in range(first_holding(stream.ranges, start), len(stream.ranges)):
        held = stream.ranges[at]
        enough = len(found) == limit or (end is not None and next_offset >= end)
        if enough or held.start_offset > next_offset:
            break
        found.append(held)
        next_offset = held.end_offset
    return found


def bytes_between(
    image: ImageView, stream_id: int, start: int, end: int, ranges_max: int = RANGES_COUNTED_MAX
) -> int:
    """Returns about how many bytes, as stored, the offsets [start, end) of a stream have. Offsets in no object, and
    behind the first ``ranges_max`` ranges, are taken to be as large as those before them. Raises what
    ``find_ranges`` does."""
    total = covered = 0
    per_offset = OFFSET_BYTES_UNKNOWN
    for held in find_ranges(image, stream_id, start, max(start, end), ranges_max):
        offsets = held.end_offset - held.start_offset
        per_offset = max(1, held.size_bytes // offsets)
        within = min(held.end_offset, end) - max(held.start_offset, start)
        total += held.size_bytes * within // offsets
        covered += within
    return total + max(0, end - start - covered) * per_offset


def expired_objects(
    image: ImageView, now_ms: int, count_max: int, object_ids: Iterable[int] | None = None
) -> list[int]:
    """Returns at most ``count_max`` ids of PREPARED objects whose deadline has passed, oldest first. ``object_ids`` are
    candidates; without them all PREPARED objects are considered."""
    if object_ids is None:
        due = (object_id for object_id, deadline_ms in image.prepared.items() if deadline_ms <= now_ms)
        return nsmallest(count_max, due)
    prepared = image.prepared
    return sorted({each for each in object_ids if each in prepared and prepared[each] <= now_ms})[:count_max]


def bytes_by_bucket(image: ImageView) -> dict[int, int]:
    """Returns the bytes of all committed objects, by bucket id; a copy counts like the object."""
    held: dict[int, int] = {}
    for metadata in image.objects.values():
        if metadata.state is ObjectState.COMMITTED:
            for bucket_id in metadata.bucket_ids:
                held[bucket_id] = held.get(bucket_id, 0) + metadata.size_bytes
    return held


def grace_is_over(destroyed_ms: int, now_ms: int, grace_period_ms: int) -> bool:
    return destroyed_ms + grace_period_ms <= now_ms


def is_overdue(pin: ScanPin, now_ms: int) -> bool:
    """Returns whether the pin's lease ended so long ago that a sweep ends the pin."""
    return pin.until_ms + SCAN_PIN_OVERDUE_MS <= now_ms


def overdue_pins(image: ImageView, now_ms: int) -> list[str]:
    """Returns the tokens of the pins that a sweep ends before it deletes anything, sorted."""
    return sorted(pin.token for pin in image.pins.values() if is_overdue(pin, now_ms))


def pinned_from(image: ImageView, without: Container[str] = ()) -> int | None:
    """Returns the version from which on destroyed objects are held: the smallest version of the pins, except those with
    the tokens ``without``. None if there is no other pin."""
    return min((pin.version for pin in image.pins.values() if pin.token not in without), default=None)


def is_pinned(metadata: ObjectMetadata, held_from: int | None) -> bool:
    """Returns whether a scan may still read the destroyed object. ``held_from`` is what ``pinned_from`` returned."""
    return held_from is not None and metadata.destroyed_version >= held_from


def deletable_objects(
    image: ImageView, now_ms: int, grace_period_ms: int, count_max: int, pins_ended: Container[str] = ()
) -> list[ObjectMetadata]:
    """Returns at most ``count_max`` objects destroyed so long ago that no reader still has an image that names them,
    and which no scan pin holds, oldest first. The caller deletes their bytes from their bucket and then forgets them
    (ForgetObjects). A plan gives the tokens of the pins that will have been ended by then as ``pins_ended``."""
    held_from = pinned_from(image, pins_ended)
    due = (
        object_id
        for object_id, destroyed_ms in image.destroyed.items()
        if grace_is_over(destroyed_ms, now_ms, grace_period_ms)
        and not is_pinned(image.objects[object_id], held_from)
    )
    return [image.objects[object_id] for object_id in nsmallest(count_max, due)]
