"""The topic and partition of each stream are read from the image: maintenance needs no broker for it.

A partition has two streams: its data stream holds record batches, its meta stream holds snapshots of its state.

From which offset on a partition may have batches of transactions, says a key of the metadata:

    key      transactional/<topic id, 32 hex digits>/<partition>
    value    an offset, as decimal digits

A broker writes the key before it appends the first batch of a transaction to the partition, once and for all. So an
image that shows an object with such a batch has the key, too, and a program that reads objects without a broker knows
where records may belong to a transaction that was aborted, or is not decided. Below the offset none does.
"""

from collections.abc import Iterator, Mapping
from enum import Enum

import msgspec

from siltstone.metadata.commands import PutKey, RemoveKey
from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata.image import ImageView
from siltstone.topic_configs.table import TopicConfig, stored_topic_config

TOPIC_DEFAULTS_KEY = "topic-defaults"
"""The metadata key under which a broker writes its defaults of topic configurations: a JSON object, name to value."""

_TRANSACTIONAL = "transactional/"

PartitionName = tuple[str, int]
"""Topic name and partition number."""


class Role(Enum):
    BATCHES = "batches"
    SNAPSHOTS = "snapshots"


class TopicStream(msgspec.Struct, frozen=True):
    """``config`` is the topic's configuration with the defaults filled in; ``topic.configs`` is the stored one."""

    stream_id: int
    topic: TopicMetadata
    partition: int
    role: Role
    config: TopicConfig

    @property
    def name(self) -> str:
        return f"{self.topic.name}-{self.partition}"

    @property
    def is_compacted(self) -> bool:
        return self.role is Role.BATCHES and self.config.is_compacted


def topic_streams(image: ImageView) -> dict[int, TopicStream]:
    """Returns the streams of all topics by stream id. Streams that belong to no topic are missing."""
    return {each.stream_id: each for each in _all(image, topic_defaults(image))}


def put_topic_defaults(image: ImageView, defaults: Mapping[str, str]) -> PutKey | None:
    """Returns the command by which a starting broker stores its defaults; None when the same defaults are stored
    already."""
    if dict(topic_defaults(image)) == dict(defaults):
        return None
    return PutKey(TOPIC_DEFAULTS_KEY, msgspec.json.encode(dict(sorted(defaults.items()))), overwrite=True)


def topic_defaults(image: ImageView) -> Mapping[str, str]:
    stored = image.keys.get(TOPIC_DEFAULTS_KEY)
    return {} if stored is None else msgspec.json.decode(stored, type=dict[str, str])


def put_transactional_from(topic_id: str, partition: int, offset: int) -> PutKey:
    """Returns the command; where an offset stands already, that one stays."""
    return PutKey(f"{_TRANSACTIONAL}{topic_id}/{partition}", str(offset).encode())


def transactional_flags_of(image: ImageView, topic: TopicMetadata) -> list[RemoveKey]:
    """Returns the commands that remove the keys of a topic that is deleted."""
    keys = (f"{_TRANSACTIONAL}{topic.topic_id}/{partition}" for partition in range(len(topic.partitions)))
    return [RemoveKey(key) for key in keys if key in image.keys]


def transactional_from(image: ImageView, topic_id: str, partition: int) -> int | None:
    """Returns the offset; None if no transaction has written to the partition. A value that is no number counts as 0:
    all of the partition may have transactions."""
    stored = image.keys.get(f"{_TRANSACTIONAL}{topic_id}/{partition}")
    if stored is None:
        return None
    return int(stored) if stored.isdigit() else 0


def _all(image: ImageView, defaults: Mapping[str, str]) -> Iterator[TopicStream]:
    for topic in image.topics.values():
        config = stored_topic_config(topic.configs, defaults)
        for number, partition in enumerate(topic.partitions):
            yield TopicStream(partition.data_stream_id, topic, number, Role.BATCHES, config)
            yield TopicStream(partition.meta_stream_id, topic, number, Role.SNAPSHOTS, config)
