"""The rows of ``siltstone groups``: one for each consumer group."""

from collections.abc import Mapping, Sequence

import msgspec
from rich.console import RenderableType

from siltstone.cli.groups.lag import end_offsets, partitions_of_topics, total_lag, without_commit
from siltstone.cli.output import table
from siltstone.cli.words import cell, count_words
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.groups import GroupSummary, all_groups
from siltstone.kafka_client.share_groups import in_flight_of_groups, offsets_of_groups


class GroupRow(msgspec.Struct, frozen=True):
    """``members``: their number; None if the broker does not report it. ``topics``: the topics in which it has
    committed an offset, or reads a partition now. ``lag``: the sum over all partitions for which the group has
    committed an offset; ``partitions_without_commit`` counts the other ones of its topics that have had records."""

    group: str
    state: str
    members: int | None
    topics: list[str]
    lag: int
    partitions_without_commit: int = 0


def group_rows(cluster: Cluster) -> list[GroupRow]:
    groups = all_groups(cluster)
    committed = offsets_of_groups(cluster, groups)
    committed_keys = {key for offsets in committed.values() for key in offsets}
    topics = {key.topic for key in committed_keys}.union(*map(_topics_read, groups))
    there = partitions_of_topics(cluster, topics)
    by_topic: dict[str, list[TopicPartition]] = {}
    for key in there:
        by_topic.setdefault(key.topic, []).append(key)
    ends = end_offsets(cluster, committed_keys | there)
    completed = {
        group_id: {key: each.completed for key, each in theirs.items()}
        for group_id, theirs in in_flight_of_groups(cluster, groups).items()
    }
    return [
        _row(group, committed[group.group_id], by_topic, ends, completed.get(group.group_id, {}))
        for group in groups
    ]


def _topics_read(group: GroupSummary) -> set[str]:
    """Returns the topics whose partitions are assigned to members now, whether or not a member has committed."""
    return {key.topic for member in group.members or () for key in member.partitions}


def _row(
    group: GroupSummary,
    committed: Mapping[TopicPartition, int],
    by_topic: Mapping[str, Sequence[TopicPartition]],
    ends: Mapping[TopicPartition, int],
    completed: Mapping[TopicPartition, int],
) -> GroupRow:
    topics = sorted({key.topic for key in committed} | _topics_read(group))
    return GroupRow(
        group=group.group_id,
        state=group.state,
        members=None if group.members is None else len(group.members),
        topics=topics,
        lag=total_lag(committed, ends, completed),
        partitions_without_commit=sum(
            without_commit(committed, by_topic.get(topic, ()), ends) for topic in topics
        ),
    )


def groups_table(rows: Sequence[GroupRow]) -> RenderableType:
    shown = table("group", "state", ">members", ">lag", ">no commit", "topics")
    for row in rows:
        members = "-" if row.members is None else count_words(row.members)
        lag, others = count_words(row.lag), count_words(row.partitions_without_commit)
        known = f"≥ {lag}" if row.lag else "?"
        shown.add_row(
            cell(row.group), row.state.lower(), members, known if row.partitions_without_commit else lag, others,
            cell(" ".join(row.topics)),
        )  # fmt: skip
    return shown
