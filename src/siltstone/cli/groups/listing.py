"""The rows of ``siltstone groups``: one for each consumer group."""

from collections.abc import Sequence

import msgspec
from rich.console import RenderableType

from siltstone.cli.groups.lag import end_offsets, total_lag
from siltstone.cli.output import table
from siltstone.cli.words import cell, count_words
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.groups import all_groups, committed_offsets


class GroupRow(msgspec.Struct, frozen=True):
    """``members``: their number; None if the broker does not report it. ``lag``: the sum over all partitions for
    which the group has committed an offset."""

    group: str
    state: str
    members: int | None
    topics: list[str]
    lag: int


def group_rows(cluster: Cluster) -> list[GroupRow]:
    groups = all_groups(cluster)
    committed = committed_offsets(cluster, [group.group_id for group in groups])
    ends = end_offsets(cluster, (key for offsets in committed.values() for key in offsets))
    return [
        GroupRow(
            group=group.group_id,
            state=group.state,
            members=None if group.members is None else len(group.members),
            topics=sorted({key.topic for key in committed[group.group_id]}),
            lag=total_lag(committed[group.group_id], ends),
        )
        for group in groups
    ]


def groups_table(rows: Sequence[GroupRow]) -> RenderableType:
    shown = table("group", "state", ">members", ">lag", "topics")
    for row in rows:
        members = "-" if row.members is None else count_words(row.members)
        shown.add_row(
            cell(row.group), row.state.lower(), members, count_words(row.lag), cell(" ".join(row.topics))
        )
    return shown
