"""``siltstone groups reset GROUP``: commits other offsets for a consumer group."""

from collections.abc import Sequence

import click
import msgspec
from rich.console import RenderableType

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_groups, complete_topics
from siltstone.cli.output import print_json, remarks, results, table
from siltstone.cli.positions import parse_position, resolve
from siltstone.cli.words import cell, count_words, counted
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.groups import GroupSummary, find_group
from siltstone.kafka_client.share_groups import offsets_of_groups, set_offsets
from siltstone.kafka_client.topics import find_topics, partitions_of
from siltstone.model.errors import InvalidRequest


class GroupInUse(InvalidRequest):
    """The group has members, which would overwrite the offsets with their own."""


class ResetRow(msgspec.Struct, frozen=True):
    """``before``: the committed offset until now; None if there was none."""

    topic: str
    partition: int
    before: int | None
    after: int


@click.command()
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="NAME",
    shell_complete=complete_topics,
    help="Topic to reset; repeatable.",
)
@click.option(
    "--to",
    "to",
    required=True,
    metavar="POSITION",
    help="earliest, latest, an offset, 2013-07-01T12:30, or 2h (ago).",
)
@click.option("-p", "--partition", "numbers", multiple=True, type=click.IntRange(min=0), metavar="N",
              help="Limit to this partition; repeatable.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@cluster_options
def reset(
    choice: ClusterChoice,
    group_id: str,
    topics: tuple[str, ...],
    to: str,
    numbers: tuple[int, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Set the offsets at which a group continues to read.

    The group must have no members. Offsets out of range are clamped. A time means the first record at or after it.
    """
    with choice.open() as cluster:
        position = parse_position(to, "--to", cluster.clock.now_ms())
        group = find_group(cluster, group_id)
        _refuse_members(group)
        found = find_topics(cluster, list(dict.fromkeys(topics)))
        partitions = [key for topic in found for key in partitions_of(topic, numbers)]
        targets = {key: where.offset for key, where in resolve(cluster, partitions, position).items()}
        rows = _rows(cluster, group, targets)
        if not dry_run:
            set_offsets(cluster, group, targets)
    if as_json:
        print_json({"group": group_id, "dry_run": dry_run, "partitions": rows})
        return
    results().print(_table(rows))
    if dry_run:
        remarks().print("Nothing was changed.")


def _refuse_members(group: GroupSummary) -> None:
    if not group.is_empty:
        members = "members" if group.members is None else counted(len(group.members), "member")
        raise GroupInUse(
            f"group {group.group_id} is {group.state.lower()} and has {members}: stop them first"
        )


def _rows(cluster: Cluster, group: GroupSummary, targets: dict[TopicPartition, int]) -> list[ResetRow]:
    before = offsets_of_groups(cluster, [group])[group.group_id]
    return [
        ResetRow(key.topic, key.partition, before.get(key), after) for key, after in sorted(targets.items())
    ]


def _table(rows: Sequence[ResetRow]) -> RenderableType:
    shown = table("topic", ">partition", ">before", ">after", ">change")
    for row in rows:
        change = "-" if row.before is None else f"{row.after - row.before:+,}"
        shown.add_row(
            cell(row.topic),
            str(row.partition),
            "-" if row.before is None else count_words(row.before),
            count_words(row.after),
            change,
        )
    return shown
