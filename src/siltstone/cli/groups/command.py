"""``siltstone groups``: lists all consumer groups; the parent of the commands for consumer groups."""

import click

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.groups.delete import delete
from siltstone.cli.groups.describe import describe
from siltstone.cli.groups.listing import group_rows, groups_table
from siltstone.cli.groups.reset import reset
from siltstone.cli.in_order import InOrder
from siltstone.cli.output import print_json, results


@click.group(cls=InOrder, invoke_without_command=True)
@cluster_options
@click.pass_context
def groups(context: click.Context, choice: ClusterChoice, as_json: bool) -> None:
    """List consumer groups and their lag; show, reset or delete them.

    The lag is the number of offsets between the committed offset and the end, summed over all partitions for which the
    group has committed one. "no commit" counts the other partitions of its topics that have had records: the true lag
    is then larger, or not known (?).

    The bytes are an estimate: the records of the lag, times the average stored size of a record in their partitions.
    For a streaming query of Siltstone, "late" is how long its oldest unread record has been in the store, at least.
    """
    if context.invoked_subcommand is None:
        list_groups(choice, as_json)


@groups.command("list")
@cluster_options
def list_(choice: ClusterChoice, as_json: bool) -> None:
    """List consumer groups and their lag, as siltstone groups does."""
    list_groups(choice, as_json)


def list_groups(choice: ClusterChoice, as_json: bool) -> None:
    with choice.open() as cluster:
        rows = group_rows(cluster)
    if as_json:
        print_json({"groups": rows})
    elif not rows:
        results().print("There are no consumer groups.")
    else:
        results().print(groups_table(rows))


for command in (describe, reset, delete):
    groups.add_command(command)
