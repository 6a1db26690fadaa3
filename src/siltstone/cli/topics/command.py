"""``siltstone topics``: the list, and what can be done with topics."""

import click

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.in_order import InOrder
from siltstone.cli.output import print_json, remarks, results
from siltstone.cli.topics.configure import configure
from siltstone.cli.topics.create import create
from siltstone.cli.topics.delete import delete
from siltstone.cli.topics.describe import describe
from siltstone.cli.topics.listing import topic_rows, topics_table
from siltstone.cli.topics.trim import trim


@click.group(cls=InOrder, invoke_without_command=True)
@click.option("--internal", is_flag=True, help="Also those that brokers keep for themselves.")
@cluster_options
@click.pass_context
def topics(context: click.Context, choice: ClusterChoice, internal: bool, as_json: bool) -> None:
    """List the topics of a broker; make, show, change and delete them.

    The number of records is the span of the offsets. Compaction leaves gaps: a compacted topic has at most that many.
    """
    if context.invoked_subcommand is None:
        list_topics(choice, internal, as_json)


def list_topics(choice: ClusterChoice, internal: bool, as_json: bool) -> None:
    with choice.open() as cluster:
        rows = topic_rows(cluster, internal=internal)
    if as_json:
        print_json({"topics": rows})
        return
    if not rows:
        results().print("There are no topics yet; siltstone topics create NAME makes one.", markup=False)
        return
    results().print(topics_table(rows))
    for row in rows:
        if row.without_leader:
            numbers = ", ".join(map(str, row.without_leader))
            remarks().print(f"{row.name}: nobody leads partition {numbers}", style="yellow", markup=False)


for command in (create, describe, configure, trim, delete):
    topics.add_command(command)
