"""``siltstone topics create NAME``: creates a topic."""

import click

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.output import print_json, results
from siltstone.cli.topics.configure import (
    PARTITIONS_MAX,
    note_assignments,
    parse_assignments,
    refusals_explained,
)
from siltstone.cli.words import counted, written_topic_id
from siltstone.kafka_client.failures import KafkaRefusal
from siltstone.kafka_client.topics import create_topic
from siltstone.kafka_protocol.error_code import ErrorCode

REPLICAS_MAX = 2**15 - 1
"""The protocol has 16 bits for it."""


@click.command()
@click.argument("name", metavar="NAME")
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1, PARTITIONS_MAX),
    metavar="N",
    help="Number of partitions [num.partitions of the broker].",
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(1, REPLICAS_MAX),
    metavar="N",
    help="Number of replicas, for a broker that keeps several; Siltstone stores records in the bucket, whatever N is.",
)
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Configuration, e.g. cleanup.policy=compact or retention.ms=7d; repeatable.",
)
@click.option("--if-missing", is_flag=True, help="Succeed if the topic already exists.")
@cluster_options
def create(
    choice: ClusterChoice,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_missing: bool,
    as_json: bool,
) -> None:
    """Create a topic."""
    assigned = parse_assignments(configs, "--config")
    with choice.open() as cluster:
        try:
            with refusals_explained(assigned):
                made = create_topic(cluster, name, partitions, assigned, replicas=replication_factor)
        except KafkaRefusal as refusal:
            if if_missing and refusal.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                _say(as_json, {"name": name, "made": False}, f"{name} already exists.")
                return
            raise
    if not as_json:
        note_assignments(configs)
    document = {
        "name": name,
        "made": True,
        "topic_id": written_topic_id(made.topic_id),
        "partitions": made.num_partitions,
    }
    of_partitions = f", {counted(made.num_partitions, 'partition')}" if made.num_partitions > 0 else ""
    _say(as_json, document, f"Created {name}{of_partitions}.")


def _say(as_json: bool, document: dict[str, object], sentence: str) -> None:
    if as_json:
        print_json(document)
    else:
        results().print(sentence, markup=False)
