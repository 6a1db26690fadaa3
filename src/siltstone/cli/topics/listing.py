"""The rows of ``siltstone topics``: one for each topic."""

from collections.abc import Callable, Sequence

import msgspec
from rich.console import RenderableType

from siltstone.cli.output import table
from siltstone.cli.words import cell, count_words, size_words, written_topic_id
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.configs import topic_configs
from siltstone.kafka_client.offsets import ends_of
from siltstone.kafka_client.topics import all_topics, topic_bytes
from siltstone.kafka_protocol.messages.metadata import MetadataResponseTopic

CLEANUP_POLICY = "cleanup.policy"


class TopicRow(msgspec.Struct, frozen=True):
    """``records_max``: the sum of end offset minus start offset; compaction leaves gaps, so it is an upper bound.
    ``without_leader``: partitions that no broker leads now; ``records_max`` does not count them, nor does
    ``size_bytes``, which is None where the brokers do not report it. ``end_offsets``: their sum, which counts all
    records that were ever written. The rates are of what clients wrote, None where they were not measured."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: int
    records_max: int
    cleanup_policy: str
    without_leader: list[int]
    size_bytes: int | None = None
    end_offsets: int = 0
    records_per_s: float | None = None
    bytes_per_s: float | None = None

    @property
    def records_words(self) -> str:
        return records_words(self.records_max, has_gaps="compact" in self.cleanup_policy)


def records_words(count: int, *, has_gaps: bool) -> str:
    """``has_gaps``: it is a number of offsets, and compaction may have removed some."""
    return ("≤ " if count and has_gaps else "") + count_words(count)


def topic_rows(cluster: Cluster, *, internal: bool) -> list[TopicRow]:
    topics = [topic for topic in all_topics(cluster) if internal or not topic.is_internal]
    names = [topic.name or "" for topic in topics]
    configs = topic_configs(cluster, names, [CLEANUP_POLICY])
    ends = ends_of(cluster, [key for topic in topics for key in led_partitions(topic)])
    sizes = topic_bytes(cluster)
    return [
        TopicRow(
            name=name,
            topic_id=written_topic_id(topic.topic_id),
            is_internal=topic.is_internal,
            partitions=len(topic.partitions),
            records_max=sum(ends[key].span for key in led_partitions(topic)),
            cleanup_policy=configs[name][CLEANUP_POLICY].value or "",
            without_leader=_without_leader(topic),
            size_bytes=None if sizes is None else sizes.get(name, 0),
            end_offsets=sum(ends[key].end_offset for key in led_partitions(topic)),
        )
        for name, topic in zip(names, topics, strict=True)
    ]


def rated_rows(before: Sequence[TopicRow], after: Sequence[TopicRow], seconds: float) -> list[TopicRow]:
    """Returns the rows of ``after`` with the rates since ``before``. A topic has no rate if it was created in between,
    or if a partition lost its leader or got one; no bytes/s if records were deleted or compacted in between."""
    earlier = {row.topic_id: row for row in before}
    return [_rated(earlier[row.topic_id], row, seconds) if row.topic_id in earlier else row for row in after]


def _rated(before: TopicRow, after: TopicRow, seconds: float) -> TopicRow:
    records = after.end_offsets - before.end_offsets
    if before.without_leader != after.without_leader or records < 0:
        return after
    rated = msgspec.structs.replace(after, records_per_s=records / seconds)
    if before.size_bytes is None or after.size_bytes is None:
        return rated
    size_bytes = after.size_bytes - before.size_bytes
    was_trimmed = after.records_max - before.records_max != records
    was_compacted = size_bytes < 0 or (records == 0) != (size_bytes == 0)
    return (
        rated
        if was_trimmed or was_compacted
        else msgspec.structs.replace(rated, bytes_per_s=size_bytes / seconds)
    )


def led_partitions(topic: MetadataResponseTopic) -> list[TopicPartition]:
    numbers = sorted(partition.partition_index for partition in topic.partitions if not partition.error_code)
    return [TopicPartition(topic.name or "", number) for number in numbers]


def _without_leader(topic: MetadataResponseTopic) -> list[int]:
    return sorted(partition.partition_index for partition in topic.partitions if partition.error_code)


def topics_table(rows: Sequence[TopicRow], *, rates: bool = False) -> RenderableType:
    """``rates``: with the rates of ``rated_rows``."""
    measured = (">records/s", ">bytes/s") if rates else ()
    shown = table("topic", ">partitions", ">records", ">bytes", *measured, "cleanup")
    for row in rows:
        size = "-" if row.size_bytes is None else size_words(row.size_bytes)
        per_s = (_rate(row.records_per_s, count_words), _rate(row.bytes_per_s, size_words)) if rates else ()
        shown.add_row(
            cell(row.name), str(row.partitions), row.records_words, size, *per_s, row.cleanup_policy
        )
    return shown


def _rate(per_s: float | None, words: Callable[[int], str]) -> str:
    return "-" if per_s is None else words(round(per_s))
