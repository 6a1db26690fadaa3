"""``siltstone transactions``: lists transactional ids; the parent of the commands for transactions."""

import click

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.in_order import InOrder
from siltstone.cli.output import print_json, results, table
from siltstone.cli.transactions.abort import abort
from siltstone.cli.transactions.describe import as_json_row, describe, since_words
from siltstone.cli.transactions.find_hanging import find_hanging
from siltstone.cli.words import cell, count_words
from siltstone.kafka_client.transactions import all_transactions
from siltstone.runtime.clock import SystemClock


@click.group(cls=InOrder, invoke_without_command=True)
@cluster_options
@click.pass_context
def transactions(context: click.Context, choice: ClusterChoice, as_json: bool) -> None:
    """List transactional ids and what they do; show or abort a transaction, or find one that hangs.

    While a transaction is open, readers of committed records stop before its first record. An open one that is older
    than its time limit is aborted by its coordinator.
    """
    if context.invoked_subcommand is None:
        list_transactions(choice, as_json)


@transactions.command("list")
@cluster_options
def list_(choice: ClusterChoice, as_json: bool) -> None:
    """List transactional ids and what they do, as siltstone transactions does."""
    list_transactions(choice, as_json)


def list_transactions(choice: ClusterChoice, as_json: bool) -> None:
    with choice.open() as cluster:
        rows = all_transactions(cluster)
    if as_json:
        print_json({"transactions": [as_json_row(each) for each in rows]})
    elif not rows:
        results().print("There are no transactional ids.")
    else:
        now_ms = SystemClock().now_ms()
        drawn = table("transactional id", "state", ">partitions", ">open for", ">producer")
        for each in rows:
            drawn.add_row(
                cell(each.transactional_id),
                each.state,
                count_words(len(each.partitions)),
                since_words(each, now_ms),
                str(each.producer_id),
            )
        results().print(drawn)


for command in (describe, abort, find_hanging):
    transactions.add_command(command)
