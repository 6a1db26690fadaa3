"""The tables ``topics``, ``partitions`` and ``streams``. Pure.

Bytes are those in committed objects, as compaction has left them; what is only in the log of a broker is in none of
these tables.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import msgspec

from siltstone.metadata.entities import (
    NO_NODE,
    SINK_NODE,
    PartitionMetadata,
    StreamMetadata,
    StreamState,
    TopicMetadata,
)
from siltstone.metadata_tables.columns import (
    MetadataTable,
    MetadataType,
    computed,
    field,
    labelled,
    time,
    whole,
)
from siltstone.metadata_tables.moment import Moment
from siltstone.model.objects import ObjectRange
from siltstone.offline.topic_streams import topic_defaults
from siltstone.topic_configs.table import TopicConfig, stored_topic_config

_STATES = (None, "CLOSED", "OPENED", "DELETED")


def json_text(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _node(node_id: int) -> int | None:
    return node_id if node_id not in (NO_NODE, SINK_NODE) else None


def _size_bytes(ranges: tuple[ObjectRange, ...]) -> int:
    return sum(each.size_bytes for each in ranges)


def _object_count(ranges: tuple[ObjectRange, ...]) -> int:
    return len({each.object_id for each in ranges})


def _newest_ms(ranges: tuple[ObjectRange, ...]) -> int:
    return max((each.largest_timestamp_ms for each in ranges), default=0)


# -- topics ----------------------------------------------------------------------------------------------------------


class _TopicRow:
    """A topic with the streams of its partitions."""

    def __init__(self, topic: TopicMetadata, moment: Moment) -> None:
        self.topic = topic
        self._moment = moment

    @cached_property
    def config(self) -> TopicConfig:
        return stored_topic_config(self.topic.configs, topic_defaults(self._moment.image))

    @cached_property
    def streams(self) -> list[StreamMetadata]:
        """The data streams; one may be missing while the image is that of a damaged log."""
        found = (self._moment.image.streams.get(each.data_stream_id) for each in self.topic.partitions)
        return [each for each in found if each is not None]

    @property
    def meta_bytes(self) -> int:
        found = (self._moment.image.streams.get(each.meta_stream_id) for each in self.topic.partitions)
        return sum(_size_bytes(each.ranges) for each in found if each is not None)

    @property
    def offsets(self) -> int:
        return sum(self._moment.end_of(each.stream_id) - each.start_offset for each in self.streams)

    @property
    def size_bytes(self) -> int:
        return sum(_size_bytes(each.ranges) for each in self.streams)

    @property
    def objects(self) -> int:
        return len({held.object_id for each in self.streams for held in each.ranges})

    @property
    def newest_ms(self) -> int:
        return max((_newest_ms(each.ranges) for each in self.streams), default=0)


def _topics(moment: Moment, topic: str | None) -> Iterator[_TopicRow]:
    names = sorted(moment.image.topic_ids) if topic is None else [topic]
    for name in names:
        if (topic_id := moment.image.topic_ids.get(name)) is not None:
            yield _TopicRow(moment.image.topics[topic_id], moment)


def _limit(number: int) -> int | None:
    return number if number >= 0 else None


TOPICS = MetadataTable(
    "topics",
    "The topics of the store, with what they hold.",
    (
        field("topic", MetadataType.TEXT, "The name.", "topic.name"),
        field(
            "topic_id",
            MetadataType.TEXT,
            "The id, which a topic of the same name that is created later does not have.",
            "topic.topic_id",
        ),
        computed(
            "partitions",
            MetadataType.WHOLE,
            "How many partitions it has.",
            lambda _, row: len(row.topic.partitions),
        ),
        field(
            "is_internal",
            MetadataType.FLAG,
            "Whether it is a topic of the brokers themselves.",
            "topic.is_internal",
        ),
        time("created_at", "When it was created.", "topic.created_ms"),
        whole(
            "offsets", "Offsets from start to end, over all partitions. Key compaction leaves gaps in them."
        ),
        whole("bytes", "Bytes of its records in objects.", "size_bytes"),
        whole("meta_bytes", "Bytes of what the brokers know about its partitions, in objects."),
        whole("objects", "How many objects hold its records."),
        time("newest_at", "The largest timestamp of its records in objects.", "newest_ms"),
        computed(
            "cleanup_policy",
            MetadataType.TEXT,
            "`delete`, `compact`, or both with a comma between them.",
            lambda _, row: ",".join(sorted(row.config.cleanup_policy)),
        ),
        computed(
            "retention_ms",
            MetadataType.WHOLE,
            "How long its records are kept; null for ever.",
            lambda _, row: _limit(row.config.retention_ms),
        ),
        computed(
            "retention_bytes",
            MetadataType.WHOLE,
            "How many bytes of a partition are kept; null for all.",
            lambda _, row: _limit(row.config.retention_bytes),
        ),
        computed(
            "configs",
            MetadataType.TEXT,
            "The configurations that were set for it, as a JSON object.",
            lambda _, row: json_text(row.topic.configs),
        ),
    ),
    _topics,
)


# -- partitions ------------------------------------------------------------------------------------------------------


class _PartitionRow(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    placed: PartitionMetadata
    stream: StreamMetadata
    end_offset: int


def _partitions(moment: Moment, topic: str | None) -> Iterator[_PartitionRow]:
    for row in _topics(moment, topic):
        for number, placed in enumerate(row.topic.partitions):
            if (stream := moment.image.streams.get(placed.data_stream_id)) is not None:
                yield _PartitionRow(row.topic.name, number, placed, stream, moment.end_of(stream.stream_id))


PARTITIONS = MetadataTable(
    "partitions",
    "The partitions of all topics.",
    (
        field("topic", MetadataType.TEXT, "The topic."),
        field("partition", MetadataType.PARTITION, "The number of the partition."),
        computed(
            "leader",
            MetadataType.WHOLE,
            "The node that leads it; null if it has none yet.",
            lambda _, row: _node(row.placed.leader),
        ),
        computed(
            "target",
            MetadataType.WHOLE,
            "The node to which it is being moved; null if it is not moved.",
            lambda _, row: _node(row.placed.target),
        ),
        labelled(
            "state", "`OPENED` while a node may append to it, otherwise `CLOSED`.", "stream.state", _STATES
        ),
        whole("epoch", "The epoch of its leader.", "stream.epoch"),
        whole("start_offset", "The first offset that is kept.", "stream.start_offset"),
        whole("end_offset", "The offset after the last one that is in objects."),
        computed(
            "offsets",
            MetadataType.WHOLE,
            "Offsets from start to end.",
            lambda _, row: row.end_offset - row.stream.start_offset,
        ),
        computed(
            "bytes",
            MetadataType.WHOLE,
            "Bytes of its records in objects.",
            lambda _, row: _size_bytes(row.stream.ranges),
        ),
        computed(
            "objects",
            MetadataType.WHOLE,
            "How many objects hold them.",
            lambda _, row: _object_count(row.stream.ranges),
        ),
        computed(
            "newest_at",
            MetadataType.TIME,
            "The largest timestamp of its records in objects.",
            lambda _, row: _newest_ms(row.stream.ranges),
        ),
        computed(
            "segments",
            MetadataType.WHOLE,
            "How many closed segments it has, by which retention deletes.",
            lambda _, row: len(row.stream.segments),
        ),
        whole(
            "cleaned_offset",
            "Up to this offset key compaction has removed what newer records replace.",
            "stream.cleaned_offset",
        ),
        whole("data_stream_id", "The stream with its records.", "placed.data_stream_id"),
        whole("meta_stream_id", "The stream with what the broker knows about them.", "placed.meta_stream_id"),
    ),
    _partitions,
)


# -- streams ---------------------------------------------------------------------------------------------------------


def _streams(moment: Moment, topic: str | None) -> Iterator[StreamMetadata]:
    streams = moment.image.streams
    ids = sorted(streams) if topic is None else moment.stream_ids_of(topic)
    return (streams[each] for each in ids if each in streams)


def _name(attribute: str) -> Any:
    return lambda moment, row: getattr(moment.name_of(row.stream_id), attribute)


STREAMS = MetadataTable(
    "streams",
    "The streams of the store: two for each partition, and those of deleted topics as long as objects hold them.",
    (
        whole("stream_id", "The number of the stream."),
        computed(
            "topic",
            MetadataType.TEXT,
            "Its topic, also if it was deleted; null if it has none.",
            _name("topic"),
        ),
        computed("partition", MetadataType.PARTITION, "Its partition.", _name("partition")),
        computed(
            "role",
            MetadataType.TEXT,
            "`data` for records, `meta` for what the broker knows about them.",
            _name("role"),
        ),
        labelled("state", "`CLOSED`, `OPENED` or `DELETED`.", "state", _STATES),
        whole("epoch", "The epoch of its owner; -1 before it was opened."),
        computed(
            "owner",
            MetadataType.WHOLE,
            "The node that opened it last; null if none has, or if a sink wrote last.",
            lambda _, row: _node(row.owner),
        ),
        whole("start_offset", "The first offset that is kept."),
        computed(
            "end_offset",
            MetadataType.WHOLE,
            "The offset after the last one that is in objects.",
            lambda moment, row: moment.end_of(row.stream_id),
        ),
        computed(
            "ranges",
            MetadataType.WHOLE,
            "How many ranges of objects hold it, trimmed ones included.",
            lambda _, row: len(row.ranges),
        ),
        computed("bytes", MetadataType.WHOLE, "Their bytes.", lambda _, row: _size_bytes(row.ranges)),
        computed(
            "is_deleted",
            MetadataType.FLAG,
            "Whether compaction may drop all of it.",
            lambda _, row: row.state is StreamState.DELETED,
        ),
        computed(
            "tags", MetadataType.TEXT, "Its tags, as a JSON object.", lambda _, row: json_text(row.tags)
        ),
    ),
    _streams,
)
