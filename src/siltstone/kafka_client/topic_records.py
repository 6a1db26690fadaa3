"""All records of a topic at once, in memory, with the place of each: for assertions in tests."""

import msgspec

from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.following import Following
from siltstone.kafka_client.offsets import READ_COMMITTED, ends_of
from siltstone.kafka_client.topics import find_topic, partitions_of


class TopicRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record and its place. ``key`` and ``value`` are None for null; ``timestamp_ms`` counts from 1970."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def read_records(cluster: Cluster, name: str) -> list[TopicRecord]:
    """Returns the committed records between the ends that the topic has now, sorted by partition and offset. Raises
    TopicUnknown, KafkaRefusal, KafkaNotReady, and Unavailable after a minute without the broker."""
    partitions = partitions_of(find_topic(cluster, name))
    ends = ends_of(cluster, partitions, READ_COMMITTED)
    begin = {key: each.start_offset for key, each in ends.items()}
    until = {key: each.end_offset for key, each in ends.items()}
    reading = Following(cluster, lambda _: None, isolation=READ_COMMITTED)
    found = [
        TopicRecord(
            topic=where.topic,
            partition=where.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            key=None if record.key is None else bytes(record.key),
            value=None if record.value is None else bytes(record.value),
            headers=tuple((name, None if value is None else bytes(value)) for name, value in record.headers),
        )
        for where, record in filter(None, reading.records(begin, until))
    ]
    return sorted(found, key=lambda record: (record.partition, record.offset))
