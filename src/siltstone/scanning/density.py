"""Which offsets of a partition are one record each, as far as the metadata says, and what follows from that: a limit of
records cuts a scan before it is planned, and records are counted without reading them. Pure.

A broker gives consecutive offsets to the records of a batch. An offset is no record for one of three reasons: key
compaction has removed the record (below ``cleaned_offset``), it is the marker of a transaction (from
``transactional_from`` on), or the record was lost with a bucket. The metadata does not keep which ranges were lost, so
objects of a store that may have lost a bucket promise nothing.
"""

from collections.abc import Iterable, Mapping

import msgspec

from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.image import ImageView
from siltstone.metadata.store_id import RESTORED_KEY
from siltstone.offline.topic_streams import PartitionName, transactional_from
from siltstone.scanning.planning import Cut, ScanPartition

END = 2**63 - 1


class RecordOffsets(msgspec.Struct, frozen=True):
    """Every offset in [start, end) that the partition has is one record."""

    start_offset: int
    end_offset: int = END

    def within(self, start: int, end: int) -> tuple[int, int]:
        """Returns the part of [start, end) that is dense; an empty part begins and ends at ``end``."""
        first, last = max(start, self.start_offset), min(end, self.end_offset)
        return (first, last) if first < last else (end, end)


def dense_range(image: ImageView, partition: ScanPartition) -> RecordOffsets:
    """``image`` has to be as new as the end up to which the partition is read: a broker notes the first transaction of
    a partition before it acknowledges a record of the transaction."""
    first = partition.stream.cleaned_offset
    if may_have_lost(image):
        first = max(first, partition.committed_offset)
    transactional = transactional_from(image, partition.topic.topic_id, partition.partition)
    return RecordOffsets(first, END if transactional is None else transactional)


def may_have_lost(image: ImageView) -> bool:
    """Returns whether ranges of the store may have been lost with a bucket. A bucket is given up only when it takes no
    new objects, and a restored store does not know the buckets of the original."""
    return RESTORED_KEY in image.keys or not all(each.is_writable for each in bucket_list_of(image).buckets)


def first_records(
    cuts: Iterable[Cut], rows_max: int, ranges: Mapping[PartitionName, RecordOffsets]
) -> list[Cut]:
    """Returns the cuts, in their order, up to where they have ``rows_max`` records for certain. Offsets that are not
    dense count as none, so the result has enough records, or all there are."""
    found: list[Cut] = []
    left = rows_max
    for each in cuts:
        if left <= 0:
            break
        first, last = ranges[each.of.key].within(each.start_offset, each.end_offset)
        if last - first >= left:
            found.append(msgspec.structs.replace(each, end_offset=first + left))
            break
        left -= last - first
        found.append(each)
    return found
