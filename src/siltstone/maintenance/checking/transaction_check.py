"""Finds transactions that are open for longer than any producer may ask for: readers of committed records stop before
them, and so do tables and key compaction.

What the objects say is enough: a marker that exists is uploaded within a minute. How long a transaction is open counts
from the commit of the object that has its first record, so it is open for longer than is said, never for less. A
compaction that has written the record again lets it begin later.
"""

from collections.abc import Iterator

from siltstone.maintenance.checking.findings import Finding, FindingKind
from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import find_ranges
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import MINUTE_MS, TRANSACTION_HANGS_AFTER_MS, TRANSACTION_TIMEOUT_MS_MAX
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.topic_streams import transactional_from
from siltstone.scanning.planning import ScanPartition
from siltstone.scanning.transactions import CommittedEnds

OPEN_MS_MAX = TRANSACTION_TIMEOUT_MS_MAX + TRANSACTION_HANGS_AFTER_MS
"""The mark of Kafka's own tool: the longest time-out, and time for the coordinator and the markers."""


def check_transactions(context: MaintenanceContext, image: MetadataImage) -> Iterator[Finding]:
    """A partition whose objects cannot be read has findings of its own, and is passed over."""
    ends, now_ms = CommittedEnds(context), context.now_ms()
    for topic in image.topics.values():
        for number in range(len(topic.partitions)):
            if transactional_from(image, topic.topic_id, number) is not None:
                try:
                    yield from _check(ends, image, topic, number, now_ms)
                except SiltstoneError:
                    continue


def _check(
    ends: CommittedEnds, image: MetadataImage, topic: TopicMetadata, number: int, now_ms: int
) -> Iterator[Finding]:
    stream = image.streams[topic.partitions[number].data_stream_id]
    opened = ends.in_objects(image, ScanPartition(topic, number, stream)).outcomes.opened
    for producer_id, first_offset in sorted(opened.items(), key=lambda each: each[1]):
        for found in find_ranges(image, stream.stream_id, max(first_offset, stream.start_offset), limit=1):
            minutes = (now_ms - image.objects[found.object_id].committed_ms) // MINUTE_MS
            if minutes * MINUTE_MS > OPEN_MS_MAX:
                yield Finding(
                    FindingKind.TRANSACTION_OPEN,
                    f"a transaction of producer {producer_id} in {topic.name}-{number} is open from offset "
                    f"{first_offset} on for {minutes} minutes or longer: readers of committed records, tables and key "
                    "compaction stop there",
                    stream_id=stream.stream_id,
                )
