"""``siltstone transactions describe ID``: shows the newest transaction of a transactional id."""

from typing import Any

import click

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_transactional_ids
from siltstone.cli.output import facts, print_json, results
from siltstone.cli.words import shown, time_words
from siltstone.foundation.quantity_words import duration_words
from siltstone.kafka_client.transactions import NONE, TransactionSummary, find_transaction
from siltstone.runtime.clock import SystemClock


@click.command()
@click.argument("transactional_id", metavar="ID", shell_complete=complete_transactional_ids)
@cluster_options
def describe(choice: ClusterChoice, transactional_id: str, as_json: bool) -> None:
    """Show the newest transaction of a transactional id, and its partitions without a marker yet."""
    with choice.open() as cluster:
        found = find_transaction(cluster, transactional_id)
        coordinator = cluster.address_of(found.coordinator)
    if as_json:
        print_json(as_json_row(found))
        return
    now_ms = SystemClock().now_ms()
    results().print(
        facts(
            transactional_id=shown(found.transactional_id),
            state=found.state,
            coordinator=f"broker {found.coordinator} at {coordinator}",
            producer=f"{found.producer_id}, epoch {found.producer_epoch}",
            time_limit=duration_words(found.timeout_ms),
            began=f"{time_words(found.start_ms)}, {since_words(found, now_ms)} ago"
            if found.is_open
            else None,
            partitions=", ".join(map(str, found.partitions)) or "none",
        )
    )


def since_words(transaction: TransactionSummary, now_ms: int) -> str:
    """Says for how long the transaction has been open; "" if it is not."""
    if not transaction.is_open or transaction.start_ms == NONE:
        return ""
    return duration_words(max(0, now_ms - transaction.start_ms) // 1_000 * 1_000)


def as_json_row(transaction: TransactionSummary) -> dict[str, Any]:
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state,
        "coordinator": transaction.coordinator,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "timeout_ms": transaction.timeout_ms,
        "start_ms": None if transaction.start_ms == NONE else transaction.start_ms,
        "partitions": [{"topic": each.topic, "partition": each.partition} for each in transaction.partitions],
    }
