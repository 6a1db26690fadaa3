"""``siltstone topics describe NAME``: shows the partitions and configurations of a topic."""

from collections.abc import Mapping, Sequence

import click
import msgspec
from rich.console import Console, RenderableType

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_topics
from siltstone.cli.output import facts, print_json, results, table
from siltstone.cli.topics.listing import CLEANUP_POLICY, led_partitions, records_words
from siltstone.cli.words import cell, count_words, time_words, written_topic_id
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.configs import ConfigSource, KnownConfig, topic_configs
from siltstone.kafka_client.offsets import NEWEST, ends_of, offsets_at
from siltstone.kafka_client.topics import find_topic
from siltstone.kafka_protocol.messages.metadata import MetadataResponseTopic


class PartitionRow(msgspec.Struct, frozen=True):
    """``leader``, the offsets and ``newest_timestamp_ms`` are None while the partition has no leader; the last one also
    while it has no record."""

    partition: int
    leader: int | None
    leader_epoch: int
    start_offset: int | None = None
    end_offset: int | None = None
    newest_timestamp_ms: int | None = None


@click.command()
@click.argument("name", metavar="NAME", shell_complete=complete_topics)
@click.option("--all", "all_configs", is_flag=True, help="Show configurations with default values, too.")
@cluster_options
def describe(choice: ClusterChoice, name: str, all_configs: bool, as_json: bool) -> None:
    """Show the partitions and the configurations of a topic.

    A partition holds the offsets from start up to, not including, end; newest is the largest timestamp of its records.
    Without --all, configurations with default values are left out.
    """
    with choice.open() as cluster:
        topic = find_topic(cluster, name)
        rows = partition_rows(cluster, topic)
        configs = _configs(cluster, name, all_configs)
    if as_json:
        print_json(_as_json(topic, rows, configs))
    else:
        _print(results(), topic, rows, configs)


def partition_rows(cluster: Cluster, topic: MetadataResponseTopic) -> list[PartitionRow]:
    led = led_partitions(topic)
    ends = {key.partition: found for key, found in ends_of(cluster, led).items()}
    newest = {key.partition: found for key, found in offsets_at(cluster, led, NEWEST).items()}
    rows: list[PartitionRow] = []
    for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index):
        number = partition.partition_index
        if number not in ends:
            rows.append(PartitionRow(number, None, partition.leader_epoch))
            continue
        newest_ms = newest[number].timestamp_ms
        rows.append(
            PartitionRow(
                number,
                partition.leader_id,
                partition.leader_epoch,
                ends[number].start_offset,
                ends[number].end_offset,
                newest_ms if newest_ms >= 0 else None,
            )
        )
    return rows


def _configs(cluster: Cluster, name: str, all_configs: bool) -> dict[str, KnownConfig]:
    configs = topic_configs(cluster, [name])[name]
    return {
        key: configs[key]
        for key in sorted(configs)
        if all_configs or configs[key].source is not ConfigSource.DEFAULT
    }


def _print(
    out: Console,
    topic: MetadataResponseTopic,
    rows: Sequence[PartitionRow],
    configs: Mapping[str, KnownConfig],
) -> None:
    out.print(facts(topic=cell(topic.name or ""), id=written_topic_id(topic.topic_id),
                    internal="yes" if topic.is_internal else None))  # fmt: skip
    policy = configs.get(CLEANUP_POLICY)
    has_gaps = policy is not None and "compact" in (policy.value or "")
    out.print("", _partitions_table(rows, has_gaps=has_gaps), "", sep="\n")
    out.print(
        _configs_table(configs)
        if configs
        else "Every configuration has its default value (--all shows them)."
    )


def _partitions_table(rows: Sequence[PartitionRow], *, has_gaps: bool) -> RenderableType:
    """``has_gaps``: the topic is compacted, so the number of its offsets is only the most records that it can have."""
    shown = table(">partition", ">leader", ">epoch", ">start", ">end", ">records", "newest")
    for row in rows:
        if row.start_offset is None or row.end_offset is None:
            shown.add_row(
                str(row.partition), "none", str(row.leader_epoch), "-", "-", "-", "-", style="yellow"
            )
            continue
        shown.add_row(
            str(row.partition),
            str(row.leader),
            str(row.leader_epoch),
            count_words(row.start_offset),
            count_words(row.end_offset),
            records_words(row.end_offset - row.start_offset, has_gaps=has_gaps),
            "-" if row.newest_timestamp_ms is None else time_words(row.newest_timestamp_ms),
        )
    return shown


def _configs_table(configs: Mapping[str, KnownConfig]) -> RenderableType:
    shown = table("configuration", "value", "set by")
    for config in configs.values():
        value = "(hidden)" if config.value is None else config.value
        shown.add_row(cell(config.name), cell(value), config.source.words)
    return shown


def _as_json(
    topic: MetadataResponseTopic, rows: Sequence[PartitionRow], configs: Mapping[str, KnownConfig]
) -> dict[str, object]:
    return {
        "name": topic.name,
        "topic_id": written_topic_id(topic.topic_id),
        "is_internal": topic.is_internal,
        "partitions": rows,
        "configs": {
            name: {"value": config.value, "set_by": config.source.words} for name, config in configs.items()
        },
    }
