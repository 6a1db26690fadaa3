"""``siltstone transactions abort``: ends a transaction by its transactional id, or one that hangs in a partition."""

import click

from siltstone.cli.asking import confirm, yes_option
from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_topics, complete_transactional_ids
from siltstone.cli.output import print_json, results
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.failures import TransactionUnknown
from siltstone.kafka_client.topics import find_topic, partitions_of
from siltstone.kafka_client.transactions import (
    HangingTransaction,
    abort_hanging,
    abort_transaction,
    find_transaction,
    hanging_transactions,
)
from siltstone.model.errors import InvalidRequest

_EVER_MS = 2**63 - 1


class AbortUnclear(InvalidRequest):
    """The command names neither a transactional id nor a partition with an offset, or both."""


@click.command()
@click.argument("transactional_id", metavar="ID", required=False, shell_complete=complete_transactional_ids)
@click.option(
    "--topic", metavar="NAME", shell_complete=complete_topics, help="Topic of a hanging transaction."
)
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Its partition.")
@click.option("--start-offset", type=click.IntRange(min=0), metavar="N", help="Its first offset there.")
@yes_option
@cluster_options
def abort(
    choice: ClusterChoice,
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    is_answered: bool,
    as_json: bool,
) -> None:
    """Abort a transaction: the open one of a transactional id, or one that hangs.

    With an ID the coordinator aborts, and the producer of the id is fenced, as by the next producer with this id. A
    hanging transaction has no coordinator: name its partition and first offset, as find-hanging shows them. Asks for
    confirmation at a terminal; elsewhere --yes is required.
    """
    named = [topic, partition, start_offset]
    with choice.open() as cluster:
        if transactional_id is not None and named == [None, None, None]:
            _abort_by_id(cluster, transactional_id, is_answered, as_json)
        elif (
            transactional_id is None
            and topic is not None
            and partition is not None
            and start_offset is not None
        ):
            _abort_hanging(cluster, topic, partition, start_offset, is_answered, as_json)
        else:
            raise AbortUnclear("name a transactional ID, or --topic, --partition and --start-offset together")


def _abort_by_id(cluster: Cluster, transactional_id: str, is_answered: bool, as_json: bool) -> None:
    found = find_transaction(cluster, transactional_id)
    if not found.is_open:
        if as_json:
            print_json({"aborted": False, "state": found.state})
        else:
            results().print(f"Nothing to abort: the state is {found.state}.")
        return
    confirm(
        f"Abort the open transaction of {transactional_id} and fence its producer?", is_answered=is_answered
    )
    abort_transaction(cluster, found)
    if as_json:
        print_json({"aborted": True, "state": "Empty"})
    else:
        results().print("Aborted, and the producer is fenced.")


def _abort_hanging(
    cluster: Cluster, topic: str, partition: int, start_offset: int, is_answered: bool, as_json: bool
) -> None:
    (wanted,) = partitions_of(find_topic(cluster, topic), [partition])
    hanging = _found(hanging_transactions(cluster, [wanted], _EVER_MS), wanted, start_offset)
    confirm(
        f"Abort the transaction that began at offset {start_offset} of {wanted}?", is_answered=is_answered
    )
    abort_hanging(cluster, hanging)
    if as_json:
        print_json({"aborted": True, "topic": topic, "partition": partition, "start_offset": start_offset})
    else:
        results().print(f"Aborted the transaction of producer {hanging.producer_id} in {wanted}.")


def _found(
    hanging: list[HangingTransaction], wanted: TopicPartition, start_offset: int
) -> HangingTransaction:
    for each in hanging:
        if each.start_offset == start_offset:
            return each
    there = ", ".join(str(each.start_offset) for each in hanging)
    raise TransactionUnknown(
        f"no transaction that began at offset {start_offset} hangs in {wanted}; "
        + (
            f"hanging ones began at {there}"
            if there
            else "if one is open there, abort it by its transactional id"
        )
    )
