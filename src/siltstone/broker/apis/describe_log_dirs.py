"""DescribeLogDirs: the bytes of each partition, as if they lay in one directory, that of this node's write-ahead log.

Tools show the sizes as those of the partitions, so a size is that of all batches from the partition's start to its high
watermark, whether they are in objects or in the log alone. It is counted from the metadata and the tail cache; no
object is read, and batches in objects count with their frames. The volume has no figures, because most of the bytes
are in buckets.
"""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from siltstone.broker.backlog.quota_rules import BacklogMeasure
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from siltstone.metadata.entities import StreamMetadata
from siltstone.runtime.turns import let_others_run

Wanted = tuple[Topic, int]

PIECES_PER_TURN = 2_000
"""Ranges and segments that are added up in one turn of the event loop: a few milliseconds."""


async def handle_describe_log_dirs(
    parts: BrokerParts, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Partitions that do not exist, or that another node leads, are left out, as in Kafka; one that is named twice is
    described once."""
    rows: dict[str, dict[int, DescribeLogDirsPartition]] = {}
    visited = 0
    for topic, index in _wanted(parts, request):
        of_topic = rows.setdefault(topic.name, {})
        if index in of_topic or not parts.cluster.leads(topic.metadata.partitions[index]):
            continue
        stream = parts.metadata.image.streams.get(topic.metadata.partitions[index].data_stream_id)
        if stream is None:
            continue  # the topic was deleted meanwhile
        size_bytes = _size_bytes(parts, topic, index, stream)
        of_topic[index] = DescribeLogDirsPartition(partition_index=index, partition_size=size_bytes)
        visited += 1 + len(stream.ranges) + len(stream.segments)
        if visited >= PIECES_PER_TURN:
            await let_others_run()
            visited = 0
    topics = [DescribeLogDirsTopic(name=name, partitions=[*each.values()]) for name, each in rows.items()]
    folder = DescribeLogDirsResult(log_dir=_folder_of_log(parts), topics=topics)
    return DescribeLogDirsResponse(results=[folder])


def _wanted(parts: BrokerParts, request: DescribeLogDirsRequest) -> Iterator[Wanted]:
    if request.topics is None:
        for topic in parts.topics.all():
            yield from ((topic, index) for index in range(topic.partition_count))
        return
    for asked in request.topics:
        known = parts.topics.by_name(asked.topic)
        if known is not None:
            yield from ((known, index) for index in asked.partitions if 0 <= index < known.partition_count)


def _size_bytes(parts: BrokerParts, topic: Topic, index: int, stream: StreamMetadata) -> int:
    partition = parts.partitions.opened(topic.id, index)
    if partition is None or partition.is_closed:
        measure = BacklogMeasure(stream, stream.end_offset, lambda _: None)
        return measure.bytes_from(stream.start_offset)
    measure = BacklogMeasure(stream, partition.high_watermark, partition.cached_bytes)
    return measure.bytes_from(partition.log_start_offset)


def _folder_of_log(parts: BrokerParts) -> str:
    """Returns the path; the location itself where it is none."""
    location = parts.metadata.image.nodes[parts.node_id].wal_location
    place = urlsplit(location)
    return str(Path(unquote(place.path))) if place.scheme == "file" else location
