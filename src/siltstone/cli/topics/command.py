"""``siltstone topics``: lists all topics; the group of the commands for topics."""

import click

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.in_order import InOrder
from siltstone.cli.output import print_json, remark_at_a_terminal, remarks, results
from siltstone.cli.topics.configure import configure
from siltstone.cli.topics.create import create
from siltstone.cli.topics.delete import delete
from siltstone.cli.topics.describe import describe
from siltstone.cli.topics.listing import TopicRow, rated_rows, topic_rows, topics_table
from siltstone.cli.topics.move import move
from siltstone.cli.topics.trim import trim
from siltstone.kafka_client.cluster import Cluster

ELSEWHERE = {
    "--list": "siltstone topics",
    "--describe": "siltstone topics describe NAME",
    "--create": "siltstone topics create NAME",
    "--delete": "siltstone topics delete NAME",
    "alter": "siltstone topics configure NAME KEY=VALUE, or --partitions N",
    "--alter": "siltstone topics configure NAME KEY=VALUE, or --partitions N",
    "partitions": "siltstone topics configure NAME --partitions N",
    "add-partitions": "siltstone topics configure NAME --partitions N",
}
"""What other tools call it → how it is written here."""


RATE_SECONDS = 5.0

rate_option = click.option(
    "--rate",
    "rate_seconds",
    type=click.FloatRange(min=0.1),
    is_flag=False,
    flag_value=RATE_SECONDS,
    metavar="[SECONDS]",
    help=f"Measure for so long how much clients write [{RATE_SECONDS:g} s].",
)


@click.group(cls=InOrder, invoke_without_command=True, elsewhere=ELSEWHERE)
@click.option("--internal", is_flag=True, help="List internal topics of the brokers, too.")
@rate_option
@cluster_options
@click.pass_context
def topics(
    context: click.Context,
    choice: ClusterChoice,
    internal: bool,
    rate_seconds: float | None,
    as_json: bool,
) -> None:
    """List the topics of a broker; create, change or delete them.

    The number of records is computed from the offsets. Compaction leaves gaps between offsets, so a compacted topic has
    at most (≤) that many. The bytes are the size of its batches, in objects or in the log; copies are not counted.

    With --rate the records and bytes that are written in a second are measured, too. A topic whose records are deleted
    or compacted meanwhile has no bytes/s.
    """
    if context.invoked_subcommand is None:
        list_topics(choice, internal, rate_seconds, as_json)


@topics.command("list")
@click.option("--internal", is_flag=True, help="List internal topics of the brokers, too.")
@rate_option
@cluster_options
@click.pass_context
def list_(
    context: click.Context,
    choice: ClusterChoice,
    internal: bool,
    rate_seconds: float | None,
    as_json: bool,
) -> None:
    """List the topics of a broker, as siltstone topics does."""
    assert context.parent is not None
    before = context.parent.params
    list_topics(choice, internal or before["internal"], rate_seconds or before["rate_seconds"], as_json)


def list_topics(choice: ClusterChoice, internal: bool, rate_seconds: float | None, as_json: bool) -> None:
    with choice.open() as cluster:
        rows = topic_rows(cluster, internal=internal)
        if rate_seconds is not None:
            rows = _measured(cluster, rows, rate_seconds, internal)
    if as_json:
        print_json({"topics": rows})
        return
    if not rows:
        user = cluster.security.settings.username
        hidden = f", or none that {user} may see" if user else ""
        results().print(
            f"There are no topics yet{hidden}; siltstone topics create NAME creates one.",
            markup=False,
            soft_wrap=True,
        )
        return
    results().print(topics_table(rows, rates=rate_seconds is not None))
    for row in rows:
        if row.without_leader:
            numbers = ", ".join(map(str, row.without_leader))
            remarks().print(f"{row.name}: no broker leads partition {numbers}", style="yellow", markup=False)


def _measured(cluster: Cluster, before: list[TopicRow], seconds: float, internal: bool) -> list[TopicRow]:
    began_ms = cluster.clock.monotonic_ms()
    remark_at_a_terminal(f"measuring for {seconds:g} s")
    cluster.clock.block_ms(1_000 * seconds)
    after = topic_rows(cluster, internal=internal)
    return rated_rows(before, after, (cluster.clock.monotonic_ms() - began_ms) / 1_000)


for command in (create, describe, configure, move, trim, delete):
    topics.add_command(command)
