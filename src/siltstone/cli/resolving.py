"""What a place that people name means in each partition: an offset between its ends."""

from collections.abc import Iterable

import msgspec

from siltstone.cli.positions import Anchor, Position
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.offsets import NO_OFFSET, Ends, ends_of, offsets_at
from siltstone.kafka_client.topic_partition import TopicPartition


class Resolved(msgspec.Struct, frozen=True):
    offset: int
    ends: Ends


def resolve(
    cluster: Cluster, partitions: Iterable[TopicPartition], position: Position
) -> dict[TopicPartition, Resolved]:
    """An offset outside a partition stands for its nearer end, a time after all records for the end. Raises
    KafkaRefusal, KafkaNotReady."""
    ends = ends_of(cluster, partitions)
    match position.anchor:
        case Anchor.EARLIEST:
            wanted = {key: found.start_offset for key, found in ends.items()}
        case Anchor.LATEST:
            wanted = {key: found.end_offset for key, found in ends.items()}
        case Anchor.OFFSET:
            wanted = dict.fromkeys(ends, position.value)
        case Anchor.TIME:
            wanted = _at_time(cluster, ends, position.value)
    return {
        key: Resolved(min(max(wanted[key], found.start_offset), found.end_offset), found)
        for key, found in ends.items()
    }


def _at_time(cluster: Cluster, ends: dict[TopicPartition, Ends], time_ms: int) -> dict[TopicPartition, int]:
    return {
        key: ends[key].end_offset if found.offset == NO_OFFSET else found.offset
        for key, found in offsets_at(cluster, ends, time_ms).items()
    }
