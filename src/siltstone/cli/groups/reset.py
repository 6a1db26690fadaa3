"""``siltstone groups reset GROUP``: commits other offsets for a consumer group."""

from collections.abc import Sequence

import click
from rich.console import RenderableType

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_groups, complete_topics
from siltstone.cli.output import print_json, remarks, results, table
from siltstone.cli.words import cell, count_words
from siltstone.kafka_client.groups import find_group
from siltstone.kafka_client.positions import parse_position
from siltstone.kafka_client.resetting import ResetRow, confirmed_reset, planned_reset, refuse_members
from siltstone.kafka_client.topics import find_topics, partitions_of


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
        refuse_members(group)
        found = find_topics(cluster, list(dict.fromkeys(topics)))
        partitions = [key for topic in found for key in partitions_of(topic, numbers)]
        rows = planned_reset(cluster, group, partitions, position)
        if not dry_run:
            confirmed_reset(cluster, group_id, rows)
    if as_json:
        print_json({"group": group_id, "dry_run": dry_run, "partitions": rows})
        return
    results().print(_table(rows))
    if dry_run:
        remarks().print("Nothing was changed.")


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
