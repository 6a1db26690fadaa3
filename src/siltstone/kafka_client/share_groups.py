"""Where groups continue in partitions: the committed offsets of a consumer group, and the start offsets of a share
group, which have APIs of their own (KIP-932)."""

from collections.abc import Mapping, Sequence

import msgspec

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.failures import refuse_error
from siltstone.kafka_client.groups import GroupSummary, commit_offsets, committed_offsets
from siltstone.kafka_client.offsets import by_topic
from siltstone.kafka_protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from siltstone.kafka_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponsePartition,
)

SHARE = "share"
"""The protocol of a share group in a GroupSummary."""


class InFlight(msgspec.Struct, frozen=True):
    """The records of a partition that a share group has not passed, by their states. ``acquired``: members hold them.
    ``available``: they were delivered, and will be again. ``acknowledged`` and ``archived``: they are done with, and
    records before them are not. ``deliveries_max``: the most deliveries of one of the first two."""

    acquired: int
    available: int
    acknowledged: int
    archived: int
    deliveries_max: int

    @property
    def completed(self) -> int:
        """The records that are no part of the lag."""
        return self.acknowledged + self.archived


def offsets_of_groups(
    cluster: Cluster, groups: Sequence[GroupSummary]
) -> dict[str, dict[TopicPartition, int]]:
    """Group → partition → the offset at which it continues. Raises KafkaRefusal, KafkaNotReady."""
    shares = [group.group_id for group in groups if group.protocol == SHARE]
    others = [group.group_id for group in groups if group.protocol != SHARE]
    found = committed_offsets(cluster, others) if others else {}
    return found | cluster.patiently(lambda: _start_offsets(cluster, shares))


def set_offsets(cluster: Cluster, group: GroupSummary, offsets: Mapping[TopicPartition, int]) -> None:
    """Sets where a group without members continues. Raises KafkaRefusal, KafkaNotReady."""
    if group.protocol != SHARE:
        commit_offsets(cluster, group.group_id, offsets)
    else:
        cluster.patiently(lambda: _set_start_offsets(cluster, group.group_id, offsets))


def in_flight_of_groups(
    cluster: Cluster, groups: Sequence[GroupSummary]
) -> dict[str, dict[TopicPartition, InFlight]]:
    """Returns what each share group has in flight in each partition that it has used; nothing if the broker is not
    Siltstone's, since Kafka has no field for that. Raises KafkaRefusal, KafkaNotReady."""
    shares = [group.group_id for group in groups if group.protocol == SHARE]
    found = cluster.patiently(lambda: _described(cluster, shares)) if shares else {}
    return {
        group_id: {
            key: InFlight(row.acquired, row.available, row.acknowledged, row.archived, row.deliveries_max)
            for key, row in rows.items()
            if row.acquired >= 0
        }
        for group_id, rows in found.items()
    }


def _start_offsets(cluster: Cluster, group_ids: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    return {
        group_id: {key: row.start_offset for key, row in rows.items()}
        for group_id, rows in _described(cluster, group_ids).items()
    }


def _described(
    cluster: Cluster, group_ids: Sequence[str]
) -> dict[str, dict[TopicPartition, DescribeShareGroupOffsetsResponsePartition]]:
    """Returns the partitions that each group has used."""
    found: dict[str, dict[TopicPartition, DescribeShareGroupOffsetsResponsePartition]] = {}
    for node_id, theirs in cluster.coordinators_of(group_ids).items() if group_ids else ():
        asked = [DescribeShareGroupOffsetsRequestGroup(group_id=each, topics=None) for each in theirs]
        request = DescribeShareGroupOffsetsRequest(groups=asked)
        for group in cluster.broker(node_id).call(request, DescribeShareGroupOffsetsResponse).groups:
            refuse_error(group.error_code, f"group {group.group_id}", group.error_message)
            found[group.group_id] = {}
            for topic in group.topics:
                for row in topic.partitions:
                    key = TopicPartition(topic.topic_name, row.partition_index)
                    refuse_error(row.error_code, f"group {group.group_id}, {key}", row.error_message)
                    if row.start_offset >= 0:
                        found[group.group_id][key] = row
    return found


def _set_start_offsets(cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    (node_id,) = cluster.coordinators_of([group_id])
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=topic,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(
                    partition_index=number, start_offset=offsets[TopicPartition(topic, number)]
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(offsets).items()
    ]
    request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)
    answer = cluster.broker(node_id).call(request, AlterShareGroupOffsetsResponse)
    refuse_error(answer.error_code, f"group {group_id}", answer.error_message)
    for topic in answer.responses:
        for each in topic.partitions:
            what = f"group {group_id}, {topic.topic_name}-{each.partition_index}"
            refuse_error(each.error_code, what, each.error_message)
