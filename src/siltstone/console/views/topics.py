"""Topics and their partitions as rows. Pure."""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from siltstone.foundation.quantity_words import duration_words, size_words
from siltstone.metadata.entities import NO_NODE, StreamMetadata, TopicMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import DAY_MS
from siltstone.offline.topic_streams import topic_defaults
from siltstone.topic_configs.rows import TABLE
from siltstone.topic_configs.table import TopicConfig, stored_topic_config

Sees = Callable[[str], bool]
"""Says whether the visitor may see the topic of this name."""


class TopicCounts(msgspec.Struct, frozen=True):
    """``records`` counts offsets that are committed and kept: key compaction leaves fewer records than offsets.
    ``grown_bytes``: by how much the topic grew in the last day. ``kept``: for how long records stay, in words."""

    name: str
    topic_id: str
    partitions: int
    records: int
    size_bytes: int
    grown_bytes: int
    objects: int
    kept: str
    table_format: str
    is_internal: bool


class PartitionCounts(msgspec.Struct, frozen=True):
    """``leader`` is None while the partition has none. The engine's start and end offsets are those of the metadata:
    records that are in no object yet lie beyond the end."""

    number: int
    leader: int | None
    target: int | None
    stream_id: int
    state: str
    start_offset: int
    end_offset: int
    size_bytes: int
    objects: int
    segments: int
    cleaned_offset: int


class ConfigView(msgspec.Struct, frozen=True):
    """``source`` says where the value comes from: the topic, the broker's defaults, or Siltstone."""

    name: str
    value: str
    source: str
    documentation: str


def topic_counts(image: MetadataImage, sees: Sees, now_ms: int) -> list[TopicCounts]:
    """Returns a row for each topic that the visitor may see, by name."""
    found = (topic for topic in image.topics.values() if sees(topic.name))
    return sorted((counts_of(image, topic, now_ms) for topic in found), key=lambda row: row.name)


class TopicTally:
    """Counts a topic, stream by stream, so that the caller may pause in a topic of thousands of partitions. ``at_ms``:
    the end of the day whose growth is counted."""

    def __init__(self, image: MetadataImage, topic: TopicMetadata, at_ms: int) -> None:
        self._image = image
        self._topic = topic
        self._at_ms = at_ms
        self._records = self._size_bytes = self._grown_bytes = 0
        self._objects: set[int] = set()

    def add(self, stream: StreamMetadata) -> None:
        self._records += stream.end_offset - stream.start_offset
        self._size_bytes += live_bytes(stream)
        self._grown_bytes += grown_bytes(self._image, stream, self._at_ms - DAY_MS, self._at_ms)
        self._objects.update(held.object_id for held in stream.ranges)

    def counts(self, defaults: Mapping[str, str]) -> TopicCounts:
        """Returns the counts; ``defaults`` are the configurations of topics that set none themselves."""
        topic = self._topic
        config = stored_topic_config(topic.configs, defaults)
        return TopicCounts(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=len(topic.partitions),
            records=self._records,
            size_bytes=self._size_bytes,
            grown_bytes=self._grown_bytes,
            objects=len(self._objects),
            kept=kept_words(config),
            table_format=config.table.table_format,
            is_internal=topic.is_internal,
        )


def kept_words(config: TopicConfig) -> str:
    """Says for how long records stay, such as ``7 days`` or ``7 days, 1.0 GiB a partition``."""
    limits = ["newest of each key"] if config.is_compacted else []
    if config.is_deleted_by_age:
        limits += [duration_words(config.retention_ms)] if config.retention_ms >= 0 else []
        limits += [f"{size_words(config.retention_bytes)} a partition"] if config.retention_bytes >= 0 else []
    return ", ".join(limits) or "for ever"


def counts_of(image: MetadataImage, topic: TopicMetadata, now_ms: int) -> TopicCounts:
    tally = TopicTally(image, topic, now_ms)
    for each in data_streams(image, topic):
        tally.add(each)
    return tally.counts(topic_defaults(image))


def partition_counts(image: MetadataImage, topic: TopicMetadata) -> list[PartitionCounts]:
    rows = []
    for number, partition in enumerate(topic.partitions):
        stream = image.streams.get(partition.data_stream_id)
        if stream is None:
            continue
        rows.append(
            PartitionCounts(
                number=number,
                leader=None if partition.leader == NO_NODE else partition.leader,
                target=None if partition.target == NO_NODE else partition.target,
                stream_id=stream.stream_id,
                state=stream.state.name.lower(),
                start_offset=stream.start_offset,
                end_offset=stream.end_offset,
                size_bytes=live_bytes(stream),
                objects=len({held.object_id for held in stream.ranges}),
                segments=len(stream.segments) + 1,
                cleaned_offset=stream.cleaned_offset,
            )
        )
    return rows


def configs_shown(image: MetadataImage, topic: TopicMetadata) -> list[ConfigView]:
    """Returns all configurations with their sources, changed ones first."""
    defaults = topic_defaults(image)
    rows = []
    for name, row in TABLE.items():
        if name in topic.configs:
            value, source = topic.configs[name], "topic"
        elif name in defaults:
            value, source = defaults[name], "broker"
        else:
            value, source = row.default, "default"
        rows.append(ConfigView(name, str(value), source, row.documentation))
    return sorted(rows, key=lambda each: (("topic", "broker", "default").index(each.source), each.name))


def data_streams(image: MetadataImage, topic: TopicMetadata) -> Iterator[StreamMetadata]:
    for partition in topic.partitions:
        stream = image.streams.get(partition.data_stream_id)
        if stream is not None:
            yield stream


def live_bytes(stream: StreamMetadata) -> int:
    """Returns the bytes of the stream's blocks in objects; blocks below its start do not count."""
    return sum(each.size_bytes for each in stream.ranges if each.end_offset > stream.start_offset)


def grown_bytes(image: MetadataImage, stream: StreamMetadata, from_ms: int, until_ms: int) -> int:
    """Returns an estimate of the bytes that were appended in [from_ms, until_ms).

    A closed segment says how many bytes were appended between two times, before any compaction; they are taken as
    appended evenly. What follows the last closed segment is counted as it is in objects, from their first upload on."""
    closed = sum(
        _share(each.size_bytes, each.opened_ms, each.closed_ms, from_ms, until_ms) for each in stream.segments
    )
    active = [each for each in stream.ranges if each.start_offset >= stream.active_offset]
    since_ms = stream.segments[-1].closed_ms if stream.segments else 0
    for each in active[:1]:
        found = image.objects.get(each.object_id)
        since_ms = max(since_ms, 0 if found is None else found.data_time_ms)
    return closed + _share(sum(each.size_bytes for each in active), since_ms, until_ms, from_ms, until_ms)


def _share(size_bytes: int, start_ms: int, end_ms: int, from_ms: int, until_ms: int) -> int:
    """Returns the part of ``size_bytes``, spread over [start_ms, end_ms], that is inside [from_ms, until_ms)."""
    if not size_bytes or start_ms >= until_ms or end_ms < from_ms:
        return 0
    length_ms = end_ms - start_ms
    if length_ms <= 0:
        return size_bytes
    inside_ms = min(end_ms, until_ms) - max(start_ms, from_ms)
    return round(size_bytes * inside_ms / length_ms)
