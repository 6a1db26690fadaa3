"""Makes the name of a scan for people, such as ``scan flights, 12 objects, 340.0 MiB``. Pure.

A name is made from the image before the scan is planned, so it asks no broker and resolves no time. It counts the
objects that the scan reads, and for a scan between times the objects that it reads at most.
"""

from collections.abc import Iterator, Sequence

from siltstone.foundation.quantity_words import counted, size_words
from siltstone.metadata.image import ImageView
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import MERGED_BLOCK_SIZE_BYTES
from siltstone.scanning.density import dense_range, first_records
from siltstone.scanning.planning import Cut, ScanPartition, plan_pieces
from siltstone.scanning.request import BoundKind, Bounds, ScanRequest

TOPICS_NAMED_MAX = 3
CUT_BYTES_MAX = 2 * MERGED_BLOCK_SIZE_BYTES
"""A cut reads the whole blocks in which it begins and ends."""


def scan_name(image: ImageView, request: ScanRequest, partitions: Sequence[ScanPartition]) -> str:
    """Returns the name of the scan of these partitions on this image. A request that cannot be planned gets the names
    of its topics, because planning will say what is wrong with it."""
    topics = request.topics or tuple(request.assigned or ()) or (request.pattern or "",)
    try:
        cuts = list(_cuts(partitions, request))
        if request.rows_max and request.times is None:
            ranges = {each.key: dense_range(image, each) for each in partitions}
            cuts = first_records(cuts, request.rows_max, ranges)
        pieces = [piece for unit in plan_pieces(image, cuts, request).units for piece in unit]
    except SiltstoneError:
        return f"scan {_listed(topics)}"
    if request.pattern is not None or request.assigned is not None:
        topics = tuple(dict.fromkeys(each.of.topic.name for each in cuts))
    at_most = "at most " if _has_times(request) or request.rows_max else ""
    count = len({piece.object_id for piece in pieces})
    size_bytes = sum(piece.size_bytes for piece in pieces)
    first = ""
    if request.rows_max:
        first = f"the first {counted(request.rows_max, 'record')}, "
        size_bytes = sum(min(piece.object_bytes, piece.size_bytes + CUT_BYTES_MAX) for piece in pieces)
    return f"scan {_listed(topics)}, {first}{at_most}{counted(count, 'object')}, {size_words(size_bytes)}"


def _listed(topics: Sequence[str]) -> str:
    more = len(topics) - TOPICS_NAMED_MAX
    named = ", ".join(topics[:TOPICS_NAMED_MAX])
    return f"{named} and {more} more" if more > 0 else named


def _cuts(partitions: Sequence[ScanPartition], request: ScanRequest) -> Iterator[Cut]:
    for each in partitions:
        first, last = each.start_offset, each.committed_offset
        start = min(max(_offset(each, request.start, first), first), last)
        end = max(min(_offset(each, request.end, last), last), start)
        yield Cut(each, start, end)


def _offset(partition: ScanPartition, bounds: Bounds, otherwise: int) -> int:
    bound = bounds.of(partition.key)
    if bound is None:
        return otherwise
    match bound.kind:
        case BoundKind.OFFSET:
            return bound.value
        case BoundKind.EARLIEST:
            return partition.start_offset
        case BoundKind.LATEST:
            return partition.committed_offset
    return otherwise


def _has_times(request: ScanRequest) -> bool:
    bounds = [each for of in (request.start, request.end) for each in (of.default, *of.named.values())]
    return any(each is not None and each.kind is BoundKind.TIME for each in bounds)
