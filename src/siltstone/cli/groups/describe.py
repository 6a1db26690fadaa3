"""``siltstone groups describe GROUP``: shows the members of a consumer group and its lag in each partition."""

from collections.abc import Sequence

import click
import msgspec
from rich.console import RenderableType

from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_groups
from siltstone.cli.groups.lag import (
    LagRate,
    PartitionLag,
    end_offsets,
    lag_bytes,
    partitions_of_topics,
    rate_between,
    record_bytes,
)
from siltstone.cli.output import facts, print_json, results, table
from siltstone.cli.words import cell, count_words, counted, seconds_words, size_words
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.groups import (
    GroupSummary,
    ListedMember,
    QueryText,
    committed_texts,
    find_group,
    query_of_texts,
)
from siltstone.kafka_client.share_groups import SHARE, InFlight, in_flight_of_groups, offsets_of_groups
from siltstone.runtime.clock import SystemClock

PROTOCOL_WORDS = {"consumer": "consumer (KIP-848)", SHARE: "share (KIP-932)"}


class GroupPartition(msgspec.Struct, frozen=True):
    """``member``: the member to which the partition is assigned now; None for no member. ``in_flight``: what a share
    group has there, if the broker reports that. ``lag_bytes``: about how many bytes the lag has, as stored; None if
    there is none, or the broker does not say."""

    where: PartitionLag
    member: ListedMember | None
    in_flight: InFlight | None = None
    lag_bytes: int | None = None


@click.command()
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--rate",
    "rate_seconds",
    type=click.FloatRange(min=0.1, max=3_600),
    metavar="SECONDS",
    help="Look twice, so many seconds apart, and say how fast the lag grows or shrinks.",
)
@cluster_options
def describe(choice: ClusterChoice, group_id: str, rate_seconds: float | None, as_json: bool) -> None:
    """Show the members, the committed offsets and the lag of a group.

    The lag is the number of offsets from the committed offset to the end of the partition. In a share group it begins
    at the start offset, without the records that the group has accepted or archived. The bytes are an estimate: the
    records of the lag, times the average stored size of a record in their partitions. A partition for which the group
    has never committed is listed without a lag, and counted if it has had records. Consumers commit every few seconds:
    give --rate 10 seconds or more. For a streaming query, the command also shows what waited at its last commit.

    Of a share group, it shows the records behind the start offset that members hold (acquired), that will be delivered
    again, and that are done with although earlier ones are not: accepted, or archived. The deliveries are those of the
    record that was delivered most often.
    """
    with choice.open() as cluster:
        group = find_group(cluster, group_id)
        rows = _rows(cluster, group)
        query = None if group.protocol == SHARE else _query(cluster, group_id)
        rate = None
        if rate_seconds is not None:
            clock = SystemClock()
            began_ms = clock.monotonic_ms()
            clock.block_ms(rate_seconds * 1_000)
            before, group = rows, find_group(cluster, group_id)
            rows = _rows(cluster, group)
            seconds = max(rate_seconds, (clock.monotonic_ms() - began_ms) / 1_000)
            rate = rate_between([row.where for row in before], [row.where for row in rows], seconds)
        coordinator = cluster.address_of(group.coordinator)
    if as_json:
        print_json({**_as_json(group, rows, rate), **({} if query is None else {"query": query})})
        return
    results().print(_facts(group, rows, coordinator, rate, query))
    if rows:
        shown = _shared_table(rows) if group.protocol == SHARE else _partitions_table(rows)
        results().print("", shown, sep="\n")
    if group.protocol == SHARE and group.members:
        results().print("", _sharing_table(group.members), sep="\n")
    if idle := [member for member in group.members or () if not member.partitions]:
        results().print("", _idle_table(idle), sep="\n")


def _rows(cluster: Cluster, group: GroupSummary) -> list[GroupPartition]:
    committed = offsets_of_groups(cluster, [group])[group.group_id]
    readers: dict[TopicPartition, ListedMember | None]
    readers = {key: member for member in group.members or () for key in member.partitions}
    if group.protocol == SHARE:  # a partition has several members
        readers = dict.fromkeys(readers)
    in_flight = in_flight_of_groups(cluster, [group]).get(group.group_id, {})
    topics = {key.topic for key in committed}
    keys = sorted(committed.keys() | readers.keys() | partitions_of_topics(cluster, topics))
    ends = end_offsets(cluster, keys)
    rows: list[GroupPartition] = []
    for key in keys:
        there = in_flight.get(key)
        completed = 0 if there is None else there.completed
        lag = PartitionLag(key, committed.get(key), ends.get(key), completed)
        rows.append(GroupPartition(lag, readers.get(key), there))
    sizes = record_bytes(cluster, {row.where.key for row in rows if row.where.lag}, ends)
    return [
        msgspec.structs.replace(
            row, lag_bytes=None if row.where.lag is None else lag_bytes([row.where], sizes)
        )
        for row in rows
    ]


def _query(cluster: Cluster, group_id: str) -> QueryText | None:
    """Returns the streaming query that commits for the group; None if none does."""
    return query_of_texts(committed_texts(cluster, [group_id])[group_id].values())


def _query_words(query: QueryText) -> str:
    left = f"{counted(query.records, 'record')}, {size_words(query.bytes)}, {seconds_words(query.seconds)}"
    named = f"{query.siltstone_query} ({query.id})" if query.id else query.siltstone_query
    return f"{cell(named)}: {left} behind at its last commit"


def _facts(
    group: GroupSummary,
    rows: Sequence[GroupPartition],
    coordinator: str,
    rate: LagRate | None = None,
    query: QueryText | None = None,
) -> RenderableType:
    return facts(
        group=cell(group.group_id),
        state=group.state.lower(),
        protocol=PROTOCOL_WORDS.get(group.protocol),
        members="not reported by this broker" if group.members is None else count_words(len(group.members)),
        assignor=cell(group.assignor) if group.assignor else None,
        coordinator=f"broker {group.coordinator} at {coordinator}" if group.coordinator >= 0 else None,
        query=None if query is None else _query_words(query),
        lag=_lag_words(rows),
        rate=None if rate is None else _rate_words(rate, sum(row.where.lag or 0 for row in rows)),
    )


def _without_commit(rows: Sequence[GroupPartition]) -> int:
    return sum(row.where.is_without_commit for row in rows)


def _lag_words(rows: Sequence[GroupPartition]) -> str:
    """Says the lag as far as it is known. Where nothing is committed, a consumer begins at the start or at the end, as
    it is configured, and the broker does not know which."""
    known = counted(sum(row.where.lag or 0 for row in rows), "record")
    of_partitions = [row.lag_bytes for row in rows if row.where.lag]
    if of_partitions and None not in of_partitions:
        known += f", about {size_words(sum(each or 0 for each in of_partitions))}"
    if not (others := _without_commit(rows)):
        return known
    have = "has" if others == 1 else "have"
    unknown = f"{counted(others, 'partition')} with records {have} no committed offset yet"
    if all(row.where.lag is None for row in rows):
        return f"not known: {unknown}"
    return f"≥ {known}: {unknown}"


def _rate_words(rate: LagRate, lag: int) -> str:
    """Says whether the lag grows or shrinks, and how long it lasts at this rate."""
    written, committed = f"{rate.written_per_s:,.1f} written/s", f"{rate.committed_per_s:,.1f} committed/s"
    facts = f"{written}, {committed} in {rate.seconds:.3g} s"
    if rate.written == rate.committed:
        return f"the lag stays: {facts}"
    if rate.change_per_s > 0:
        return f"the lag grows by {rate.change_per_s:,.1f} records/s: {facts}"
    left = f", gone in {seconds_words(-lag / rate.change_per_s)}" if lag else ""
    return f"the lag shrinks by {-rate.change_per_s:,.1f} records/s{left}: {facts}"


def _partitions_table(rows: Sequence[GroupPartition]) -> RenderableType:
    shown = table("topic", ">partition", ">committed", ">end", ">lag", "member", "host")
    for row in rows:
        where = row.where
        shown.add_row(
            cell(where.key.topic),
            str(where.key.partition),
            _number(where.committed),
            "deleted" if where.end_offset is None else count_words(where.end_offset),
            _number(where.lag),
            cell(row.member.name) if row.member else "-",
            cell(row.member.host) if row.member else "-",
        )
    return shown


def _shared_table(rows: Sequence[GroupPartition]) -> RenderableType:
    counts = ("acquired", "again", "accepted", "archived", "deliveries")
    shown = table("topic", ">partition", ">start", ">end", ">lag", *(f">{name}" for name in counts))
    for row in rows:
        where, there = row.where, row.in_flight
        numbers = [None] * len(counts) if there is None else msgspec.structs.astuple(there)
        shown.add_row(
            cell(where.key.topic),
            str(where.key.partition),
            _number(where.committed),
            "deleted" if where.end_offset is None else count_words(where.end_offset),
            _number(where.lag),
            *map(_number, numbers),
        )
    return shown


def _number(number: int | None) -> str:
    return "-" if number is None else count_words(number)


def _sharing_table(members: Sequence[ListedMember]) -> RenderableType:
    shown = table("member", "host", "partitions")
    for member in members:
        shown.add_row(cell(member.name), cell(member.host), cell(" ".join(map(str, member.partitions))))
    return shown


def _idle_table(members: Sequence[ListedMember]) -> RenderableType:
    shown = table("member without a partition", "host")
    for member in members:
        shown.add_row(cell(member.name), cell(member.host))
    return shown


def _as_json(
    group: GroupSummary, rows: Sequence[GroupPartition], rate: LagRate | None = None
) -> dict[str, object]:
    measured = {} if rate is None else {"rate": _rate_json(rate)}
    return {
        **measured,
        "group": group.group_id,
        "state": group.state,
        "protocol": group.protocol or None,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "partitions_without_commit": _without_commit(rows),
        "members": None if group.members is None else [_member_json(member) for member in group.members],
        "partitions": [
            {
                "topic": row.where.key.topic,
                "partition": row.where.key.partition,
                "committed_offset": row.where.committed,
                "end_offset": row.where.end_offset,
                "lag": row.where.lag,
                "lag_bytes": row.lag_bytes,
                "member": row.member.member_id if row.member else None,
                **({} if row.in_flight is None else {"in_flight": row.in_flight}),
            }
            for row in rows
        ],
    }


def _rate_json(rate: LagRate) -> dict[str, float]:
    return {
        "seconds": rate.seconds,
        "written_per_s": rate.written_per_s,
        "committed_per_s": rate.committed_per_s,
        "lag_change_per_s": rate.change_per_s,
    }


def _member_json(member: ListedMember) -> dict[str, object]:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.host,
        "partitions": member.partitions,
    }
