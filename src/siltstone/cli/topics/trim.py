"""``siltstone topics trim NAME``: deletes the oldest records of a topic."""

from collections.abc import Sequence

import click
import msgspec
from rich.console import RenderableType

from siltstone.cli.asking import confirm, yes_option
from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_topics
from siltstone.cli.output import print_json, remarks, results, table
from siltstone.cli.words import count_words, counted
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.offsets import delete_records
from siltstone.kafka_client.positions import (
    Anchor,
    Position,
    Resolved,
    parse_position,
    parse_time_ms,
    resolve,
)
from siltstone.kafka_client.topics import find_topic, partitions_of
from siltstone.model.errors import InvalidRequest


class TrimUnclear(InvalidRequest):
    """Neither or both of --before and --before-time were given, or --before is a time."""


class TrimRow(msgspec.Struct, frozen=True):
    partition: int
    start_offset: int
    new_start_offset: int
    records: int


@click.command()
@click.argument("name", metavar="NAME", shell_complete=complete_topics)
@click.option("--before", metavar="OFFSET", help="Delete records before this offset; latest deletes all.")
@click.option(
    "--before-time",
    metavar="TIME",
    help="Delete records before the first one of this time, e.g. 2013-07-01 or 7d (ago).",
)
@click.option("-p", "--partition", "numbers", multiple=True, type=click.IntRange(min=0), metavar="N",
              help="Limit to this partition; repeatable.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only show how many records would be deleted.")
@yes_option
@cluster_options
def trim(
    choice: ClusterChoice,
    name: str,
    before: str | None,
    before_time: str | None,
    numbers: tuple[int, ...],
    dry_run: bool,
    is_answered: bool,
    as_json: bool,
) -> None:
    """Delete the oldest records of a topic, permanently.

    The remaining records keep their offsets. An offset beyond the end of a partition means its end. Asks for
    confirmation at a terminal; elsewhere --yes is required.
    """
    with choice.open() as cluster:
        position = _position(before, before_time, cluster.clock.now_ms())
        partitions = partitions_of(find_topic(cluster, name), numbers)
        rows = _rows(resolve(cluster, partitions, position))
        if not as_json:
            results().print(_table(rows))
        lost = sum(row.records for row in rows)
        if lost and not dry_run:
            confirm(f"Delete {counted(lost, 'record')} of {name}?", is_answered=is_answered)
            _trim(cluster, name, rows)
    if as_json:
        print_json({"topic": name, "dry_run": dry_run, "records": lost, "partitions": rows})
        return
    remarks().print("Nothing was deleted." if dry_run or not lost else f"Deleted {counted(lost, 'record')}.")


def _position(before: str | None, before_time: str | None, now_ms: int) -> Position:
    if (before is None) == (before_time is None):
        raise TrimUnclear("say how far to trim, either with --before OFFSET or with --before-time TIME")
    if before_time is not None:
        return Position(Anchor.TIME, parse_time_ms(before_time, "--before-time", now_ms))
    position = parse_position(str(before), "--before", now_ms)
    if position.anchor is Anchor.TIME:
        raise TrimUnclear(f"--before {before} is a time: use --before-time")
    return position


def _rows(resolved: dict[TopicPartition, Resolved]) -> list[TrimRow]:
    return [
        TrimRow(key.partition, where.ends.start_offset, where.offset, where.offset - where.ends.start_offset)
        for key, where in sorted(resolved.items())
    ]


def _trim(cluster: Cluster, name: str, rows: Sequence[TrimRow]) -> None:
    delete_records(
        cluster, {TopicPartition(name, row.partition): row.new_start_offset for row in rows if row.records}
    )


def _table(rows: Sequence[TrimRow]) -> RenderableType:
    shown = table(">partition", ">start", ">new start", ">records to delete")
    for row in rows:
        shown.add_row(
            str(row.partition),
            count_words(row.start_offset),
            count_words(row.new_start_offset),
            count_words(row.records),
        )
    return shown
