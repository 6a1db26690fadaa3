"""The rows of ``siltstone groups``: one for each consumer group."""

from collections.abc import Iterable, Sequence

import msgspec
from rich.console import RenderableType

from siltstone.cli.groups.lag import (
    PartitionLag,
    end_offsets,
    lag_bytes,
    partition_lags,
    partitions_of_topics,
    record_bytes,
    total_lag,
    without_commit,
)
from siltstone.cli.output import table
from siltstone.cli.words import cell, count_words, seconds_words, size_words
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.groups import GroupSummary, all_groups, committed_texts, query_of_texts
from siltstone.kafka_client.share_groups import SHARE, in_flight_of_groups, offsets_of_groups


class GroupRow(msgspec.Struct, frozen=True):
    """``members``: their number; None if the broker does not report it. ``topics``: the topics in which it has
    committed an offset, or reads a partition now. ``lag``: the sum over all partitions for which the group has
    committed an offset; ``partitions_without_commit`` counts the other ones of its topics that have had records.
    ``lag_bytes``: about how many bytes the lag has, as stored; None if a broker does not say. ``lag_seconds_min``: the
    oldest of these records has been in the store for so long, or longer; None if that is not known, as of groups that
    are no streaming queries."""

    group: str
    state: str
    members: int | None
    topics: list[str]
    lag: int
    partitions_without_commit: int = 0
    lag_bytes: int | None = None
    lag_seconds_min: float | None = None


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
    lags = {
        group_id: partition_lags(theirs, ends, completed.get(group_id, {}))
        for group_id, theirs in committed.items()
    }
    sizes = record_bytes(cluster, {each.key for rows in lags.values() for each in rows if each.lag}, ends)
    texts = committed_texts(cluster, [each.group_id for each in groups if each.protocol != SHARE])
    found = []
    for group in groups:
        rows = lags[group.group_id]
        names = sorted({each.key.topic for each in rows} | _topics_read(group))
        theirs = committed[group.group_id]
        others = sum(without_commit(theirs, by_topic.get(topic, ()), ends) for topic in names)
        late = _seconds_min(rows, others, texts.get(group.group_id, {}).values())
        members = None if group.members is None else len(group.members)
        found.append(
            GroupRow(
                group.group_id, group.state, members, names, total_lag(rows), others, lag_bytes(rows, sizes), late
            )
        )  # fmt: skip
    return found


def _seconds_min(rows: Sequence[PartitionLag], others: int, texts: Iterable[str]) -> float | None:
    """A streaming query commits, beside its offsets, for how long the record at which it continues has been in the
    store. That record is not read yet, so by now it is longer."""
    if not total_lag(rows):
        return None if others else 0.0
    query = query_of_texts(texts)
    return None if query is None else query.seconds


def _topics_read(group: GroupSummary) -> set[str]:
    """Returns the topics whose partitions are assigned to members now, whether or not a member has committed."""
    return {key.topic for member in group.members or () for key in member.partitions}


def groups_table(rows: Sequence[GroupRow]) -> RenderableType:
    shown = table("group", "state", ">members", ">lag", ">bytes", ">late", ">no commit", "topics")
    for row in rows:
        members = "-" if row.members is None else count_words(row.members)
        lag, others = count_words(row.lag), count_words(row.partitions_without_commit)
        known = f"≥ {lag}" if row.lag else "?"
        shown.add_row(
            cell(row.group), row.state.lower(), members, known if row.partitions_without_commit else lag,
            _bytes_words(row), _late_words(row), others, cell(" ".join(row.topics)),
        )  # fmt: skip
    return shown


def _bytes_words(row: GroupRow) -> str:
    if row.lag_bytes is None or (row.partitions_without_commit and not row.lag):
        return "-"
    return size_words(row.lag_bytes)


def _late_words(row: GroupRow) -> str:
    if row.lag_seconds_min is None:
        return "-"
    words = seconds_words(row.lag_seconds_min)
    return f"≥ {words}" if row.lag else words
