"""Which offsets a round takes: from images made by hand, whose objects have round sizes."""

from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.metadata.entities import PartitionMetadata, StreamMetadata, StreamState, TopicMetadata
from siltstone.model.objects import ObjectRange
from siltstone.tables.failures import TableAhead
from siltstone.tables.ledger import Gap, Ledger, TableIdentity
from siltstone.tables.planning import (
    RoundRanges,
    TopicExport,
    bytes_of,
    is_ahead,
    lag_of,
    round_ranges,
    transactions_in,
)
from siltstone.tables.progress import TableProgress
from siltstone.topic_configs.table_export import TableConfig

Held = tuple[int, int, int]
"""Start, end, bytes."""

THREE: tuple[Held, ...] = ((0, 10, 1_000), (10, 20, 100), (20, 40, 4_000))
ENOUGH = 1_000_000


def stream(*held: Held, start: int = 0, stream_id: int = 0) -> StreamMetadata:
    ranges = tuple(ObjectRange(stream_id, number, *each, 0) for number, each in enumerate(held))
    end = held[-1][1] if held else start
    return StreamMetadata(stream_id, StreamState.OPENED, 0, 1, start, end, (), ranges, {})


def world(*streams: StreamMetadata) -> tuple[Any, TopicExport]:
    partitions = tuple(PartitionMetadata(number, number + 500) for number in range(len(streams)))
    topic = TopicMetadata("f" * 32, "t", partitions, {}, 1, 0, False)
    image = SimpleNamespace(streams=dict(enumerate(streams)), keys={})
    return image, TopicExport(topic, TableConfig())


def ledger(**offsets: int) -> Ledger:
    """``p0=5``: partition 0 was exported up to 5."""
    numbered = {int(name[1:]): offset for name, offset in offsets.items()}
    return Ledger(identity=TableIdentity("", ""), offsets=numbered)


def ranges(
    *streams: StreamMetadata,
    done: Ledger | None = None,
    verdict: Ledger | None = None,
    bytes_max: int = ENOUGH,
    undecided: dict[int, int] | None = None,
) -> RoundRanges:
    image, export = world(*streams)
    waiting = {("t", number): offset for number, offset in (undecided or {}).items()}
    return round_ranges(image, export, done or ledger(), verdict, bytes_max, waiting)


@pytest.mark.parametrize(
    ("start", "bytes_max", "end"),
    [
        (0, 1, 1), (0, 999, 9), (0, 1_000, 10), (0, 1_050, 15), (0, 1_100, 20), (0, 5_099, 39), (0, 5_100, 40),
        (5, 250, 7), (5, 500, 10), (5, 510, 11), (10, 1, 11), (10, 50, 15), (25, 200, 26), (39, 1, 40),
    ],
)  # fmt: skip
def test_a_round_ends_where_its_bytes_are_used_up_and_has_an_offset_at_least(
    start: int, bytes_max: int, end: int
) -> None:
    found = ranges(stream(*THREE), done=ledger(p0=start), bytes_max=bytes_max)
    assert (found.starts, found.ends) == ({0: start}, {0: end})
    assert found.has_remaining == (end < 40)


def test_a_round_ends_where_a_transaction_is_not_decided() -> None:
    found = ranges(stream(*THREE), stream(*THREE, stream_id=1), undecided={1: 15})
    assert (found.ends, found.has_remaining) == ({0: 40, 1: 15}, False)
    again = ranges(stream(*THREE), done=ledger(p0=15), undecided={0: 15})
    assert again.is_empty and not again.has_remaining
    image, export = world(stream(*THREE))
    assert lag_of(image, export.topic, None).offsets == 40
    assert lag_of(image, export.topic, None, {("t", 0): 15}).offsets == 15
    told = transactions_in(image, export.topic, {("t", 0): 15})
    assert told.startswith("t-0 has a transaction that is open since offset 15")
    assert transactions_in(image, export.topic, {("t", 0): 40}) == "", "none of its records is in objects"


def test_partitions_with_something_to_export_share_the_bytes_evenly() -> None:
    long, short, none = stream((0, 100, 10_000)), stream((0, 1, 100)), stream()
    assert ranges(long, none, bytes_max=2_000).ends == {0: 20, 1: 0}
    assert ranges(long, short, bytes_max=2_000).ends == {0: 10, 1: 1}
    assert ranges(long, short, done=ledger(p1=1), bytes_max=2_000).ends == {0: 20, 1: 1}
    assert ranges(none, none, bytes_max=2_000).is_empty


def test_what_was_trimmed_since_the_last_export_is_a_gap_and_before_the_first_is_none() -> None:
    trimmed = stream((20, 40, 4_000), start=25)
    first = ranges(trimmed)
    assert (first.starts, first.ends, first.gaps) == ({0: 25}, {0: 40}, ())
    later = ranges(trimmed, done=ledger(p0=22))
    assert (later.starts, later.gaps) == ({0: 25}, (Gap(0, 22, 25),))
    assert ranges(trimmed, done=ledger(p0=25)).gaps == ()
    assert ranges(trimmed, done=ledger(p0=30)).starts == {0: 30}


def test_a_round_with_a_gap_and_no_offsets_is_not_empty() -> None:
    emptied = stream(start=40)
    found = ranges(emptied, done=ledger(p0=30))
    assert (found.starts, found.ends, found.gaps) == ({0: 40}, {0: 40}, (Gap(0, 30, 40),))
    assert not found.is_empty
    assert ranges(emptied, done=ledger(p0=40)).is_empty
    assert not ranges(stream(*THREE), done=ledger(p0=39)).is_empty


def test_a_round_that_is_done_again_ends_where_its_dead_letters_end() -> None:
    two = stream(*THREE), stream(*THREE)
    found = ranges(*two, done=ledger(p0=5), verdict=ledger(p0=12), bytes_max=1)
    assert (found.starts, found.ends) == ({0: 5, 1: 0}, {0: 12, 1: 0}), (
        "a partition that it lacks has no rows"
    )
    assert found.has_remaining
    assert ranges(*two, done=ledger(p0=15), verdict=ledger(p0=12, p1=1)).ends == {0: 15, 1: 1}
    assert not ranges(*two, verdict=ledger(p0=40, p1=40)).has_remaining


def test_a_ledger_beyond_the_end_of_its_partition_is_refused_and_names_its_table() -> None:
    with pytest.raises(
        TableAhead, match=r"kafka\.t holds the offsets of t-0 up to 41, and the partition ends at 40"
    ):
        ranges(stream(*THREE), done=ledger(p0=41))
    with pytest.raises(TableAhead, match=r"kafka\.t__errors holds the offsets of t-0 up to 41"):
        ranges(stream(*THREE), verdict=ledger(p0=41))
    assert ranges(stream(*THREE), done=ledger(p0=40), verdict=ledger(p0=40)).is_empty


@pytest.mark.parametrize(
    ("dead_letters", "table", "ahead"),
    [
        ({}, {}, False), ({"p0": 1}, {}, True), ({"p0": 0}, {}, False), ({"p0": 5}, {"p0": 5}, False),
        ({"p0": 6}, {"p0": 5}, True), ({"p0": 5, "p1": 1}, {"p0": 5}, True), ({}, {"p0": 5}, False),
    ],
)  # fmt: skip
def test_dead_letters_are_ahead_where_any_partition_is(
    dead_letters: dict[str, int], table: dict[str, int], ahead: bool
) -> None:
    assert is_ahead(ledger(**dead_letters), ledger(**table)) is ahead


def test_bytes_of_a_part_are_a_share_of_each_object() -> None:
    held = stream(*THREE)
    shares = [bytes_of(held, start, end) for start, end in ((0, 40), (2, 5), (5, 15), (15, 20), (20, 20))]
    assert shares == [5_100, 300, 550, 50, 0]


def test_the_lag_counts_offsets_bytes_and_partitions_that_have_some() -> None:
    image, export = world(stream(*THREE), stream((20, 40, 4_000), start=25), stream())

    def lag(**offsets: int) -> tuple[int, int, int]:
        numbered = {int(name[1:]): offset for name, offset in offsets.items()}
        progress = TableProgress(table="kafka.t", table_format="parquet", offsets=numbered)
        found = lag_of(image, export.topic, progress)
        return found.offsets, found.size_bytes, found.partitions

    whole = lag_of(image, export.topic, None)
    assert (whole.offsets, whole.size_bytes, whole.partitions) == (55, 8_100, 2)
    assert lag(p0=15) == (40, 7_050, 2)
    assert lag(p0=40, p1=10) == (15, 3_000, 1)
    assert lag(p0=40, p1=40) == (0, 0, 0)
    assert lag(p0=41, p1=50) == (0, 0, 0), "a table that is ahead owes nothing"
