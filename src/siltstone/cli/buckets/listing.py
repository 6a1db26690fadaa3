"""Makes the rows and the table of ``siltstone buckets``, and says in words what the strategy does with new objects."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
from rich.console import RenderableType

from siltstone.cli.output import table
from siltstone.cli.words import cell, count_words, counted, size_words
from siltstone.maintenance.copies.lost_bucket import LostRange
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.image import MetadataImage
from siltstone.model.buckets import (
    BucketDefinition,
    BucketList,
    BucketState,
    StrategyType,
    WriteStrategy,
)
from siltstone.model.objects import ObjectState


class BucketRow(msgspec.Struct, frozen=True):
    """``objects`` and ``size_bytes`` are those of the committed objects; ``to_delete`` are objects that are destroyed
    and not deleted yet."""

    id: int
    url: str
    state: str
    weight: int
    objects: int
    size_bytes: int
    to_delete: int


def listed_or_opened(image: MetadataImage, opened: Mapping[int, str], default_id: int) -> BucketList:
    """Returns the list in the metadata. A store from before the list has the buckets of its settings, which a broker
    will list at its next start."""
    listed = bucket_list_of(image)
    if listed.buckets:
        return listed
    states = {True: BucketState.WRITABLE, False: BucketState.READ_ONLY}
    return BucketList(
        tuple(BucketDefinition(each, url, 1, states[each == default_id]) for each, url in opened.items())
    )


def bucket_rows(image: MetadataImage, listed: BucketList) -> list[BucketRow]:
    objects: dict[tuple[int, ObjectState], int] = defaultdict(int)
    size_bytes: dict[int, int] = defaultdict(int)
    for each in image.objects.values():
        is_committed = each.state is ObjectState.COMMITTED
        for bucket_id in each.bucket_ids if is_committed else each.every_bucket_id:
            objects[bucket_id, each.state] += 1
            size_bytes[bucket_id] += each.size_bytes * is_committed
    return [
        BucketRow(
            each.id,
            each.url,
            each.state.value,
            each.weight,
            objects[each.id, ObjectState.COMMITTED],
            size_bytes[each.id],
            objects[each.id, ObjectState.DESTROYED],
        )
        for each in listed.buckets
        if each.id not in listed.removed
    ]


def buckets_table(rows: list[BucketRow]) -> RenderableType:
    shown = table(">id", "state", ">weight", ">objects", ">bytes", ">to delete", "url")
    for row in rows:
        shown.add_row(
            str(row.id),
            row.state,
            count_words(row.weight),
            count_words(row.objects),
            size_words(row.size_bytes),
            count_words(row.to_delete),
            cell(row.url),
        )
    return shown


def lost_table(lost: Sequence[LostRange]) -> RenderableType:
    """Ranges that follow each other in a stream share a row."""
    shown = table("partition", "what", ">from offset", ">to offset", ">bytes")
    for run in _runs(lost):
        shown.add_row(
            cell(run[0].partition or f"stream {run[0].stream_id}"),
            "records" if run[0].is_data else "notes of the broker",
            count_words(run[0].start_offset),
            count_words(run[-1].end_offset),
            size_words(sum(each.size_bytes for each in run)),
        )
    return shown


def _runs(lost: Sequence[LostRange]) -> list[list[LostRange]]:
    runs: list[list[LostRange]] = []
    for each in lost:
        last = runs[-1][-1] if runs else None
        if last and (last.stream_id, last.end_offset) == (each.stream_id, each.start_offset):
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs


def strategy_words(listed: BucketList) -> str:
    """Says into which buckets new objects are put."""
    writable = [each.id for each in listed.writable]
    if len(writable) < 2:
        return (
            f"New objects are put into bucket {writable[0]}." if writable else "No bucket takes new objects."
        )
    names = ", ".join(map(str, writable))
    match listed.strategy.name:
        case StrategyType.FAILOVER:
            first, *others = listed.strategy.in_order(writable)
            then = ", then ".join(map(str, others))
            return (
                f"failover: new objects are put into bucket {first}; while it takes no writes, into {then}."
            )
        case StrategyType.ROUND_ROBIN:
            return f"round-robin: new objects are spread over the buckets {names}, by bytes."
        case StrategyType.DYNAMIC_SHARDING:
            return f"dynamic-sharding: new objects are spread over the buckets {names}, by bytes and weight."
        case StrategyType.REPLICATION:
            return f"replication: {_copies_words(listed.strategy, writable)}"


def _copies_words(strategy: WriteStrategy, writable: Sequence[int]) -> str:
    ordered = [str(each) for each in strategy.in_order(writable)]
    firsts, others = ordered[: strategy.copies], ordered[strategy.copies :]
    placed = f"each new object has {strategy.copies} copies, in the buckets {_listed_words(firsts)}"
    if others:
        placed += f", or in {' or '.join(others)} while one of these takes no writes"
    if strategy.copies_needed == strategy.copies:
        return f"{placed}. Uploads wait while fewer than {strategy.copies} buckets take writes."
    enough = counted(strategy.copies_needed, "copy", "copies")
    return f"{placed}. While fewer than {strategy.copies} buckets take writes, {enough} will do."


def _listed_words(names: Sequence[str]) -> str:
    *firsts, last = names
    return f"{', '.join(firsts)} and {last}" if firsts else last
