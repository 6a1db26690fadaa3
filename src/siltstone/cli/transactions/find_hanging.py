"""``siltstone transactions find-hanging [TOPIC …]``: shows transactions that no coordinator will end."""

import click

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_topics
from siltstone.cli.failures import Failure
from siltstone.cli.output import print_json, remarks, results, table
from siltstone.cli.words import cell, counted, time_words
from siltstone.kafka_client.topics import all_topics, find_topics, partitions_of
from siltstone.kafka_client.transactions import hanging_transactions
from siltstone.model.errors import InvalidRequest
from siltstone.offline.opening.values import Unit, written_quantity
from siltstone.runtime.clock import SystemClock

OLDER_THAN = "15min"
"""The longest time limit that a producer may set by default [Kafka: transaction.max.timeout.ms]."""


class AgeRefused(InvalidRequest):
    """The value of --older-than is not a time."""


@click.command("find-hanging")
@click.argument("topics", metavar="[TOPIC...]", nargs=-1, shell_complete=complete_topics)
@click.option(
    "--older-than", "age", default=OLDER_THAN, show_default=True, metavar="TIME",
    help="Pass over transactions with a newer record, such as 30s, 15min or 1h.",
)  # fmt: skip
@cluster_options
def find_hanging(choice: ClusterChoice, topics: tuple[str, ...], age: str, as_json: bool) -> None:
    """Find transactions that hang: open in a partition, and unknown to every coordinator.

    Looks at all topics, or at these. Readers of committed records stop before a hanging transaction until it is
    aborted. Exit status 1 if one is found.
    """
    age_ms = written_quantity(Unit.MILLISECONDS, age)
    if age_ms is None:
        raise AgeRefused(f"--older-than {age}: write a time, such as 30s, 15min or 1h")
    with choice.open() as cluster:
        there = find_topics(cluster, topics) if topics else all_topics(cluster)
        partitions = [each for topic in there for each in partitions_of(topic)]
        found = hanging_transactions(cluster, partitions, SystemClock().now_ms() - age_ms)
    if as_json:
        print_json({
            "hanging": [
                {
                    "topic": each.partition.topic, "partition": each.partition.partition,
                    "start_offset": each.start_offset, "producer_id": each.producer_id,
                    "producer_epoch": each.producer_epoch, "last_timestamp_ms": each.last_ms,
                }
                for each in found
            ]
        })  # fmt: skip
    elif found:
        drawn = table("topic", ">partition", ">first offset", ">producer", ">epoch", "newest record")
        for each in found:
            drawn.add_row(
                cell(each.partition.topic), str(each.partition.partition), str(each.start_offset),
                str(each.producer_id), str(each.producer_epoch), time_words(each.last_ms),
            )  # fmt: skip
        results().print(drawn)
        first = found[0]
        remarks().print(
            f"Abort one: siltstone transactions abort --topic {first.partition.topic} --partition "
            f"{first.partition.partition} --start-offset {first.start_offset}",
            markup=False,
            soft_wrap=True,
        )
    else:
        results().print(f"No transaction hangs in {counted(len(partitions), 'partition')}.")
    if found:
        raise Failure
