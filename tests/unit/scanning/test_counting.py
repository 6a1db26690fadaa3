"""Records are counted by offsets, by indexes, or left for reading; the count is that of the rows."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from siltstone.model.limits import MIB
from siltstone.offline.context import MaintenanceContext
from siltstone.record_columns.kernels import plain
from siltstone.scanning import reading, rows
from siltstone.scanning.arguments import scan_request
from siltstone.scanning.counting import TopicCount, count_records
from siltstone.scanning.rows import unit_rows
from siltstone.scanning.scan import plan_scan
from support.maintenance.keyed_world import KeyedWorld, keyed_world

WORDS = {"tail": "committed", "lease": "0"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyedWorld]:
    reading.INDEXES.clear()  # objects of other worlds have the same ids
    monkeypatch.setattr(rows, "best_kernels", lambda: plain)  # the others take seconds to load
    with keyed_world() as made:
        yield made


def filled(world: KeyedWorld, **configs: str) -> MaintenanceContext:
    """Makes topic t: 120 records of 12 keys in two segments, two records in each block."""
    (stream,) = world.topic(**configs)
    for _ in range(2):
        batches = [[(f"k{(2 * row + each) % 12}", "x" * 90) for each in range(2)] for row in range(30)]
        world.append_pairs(stream, *batches)
        world.roll(stream)
    world.store.calls.clear()
    return world.context


def counted(source: MaintenanceContext, **words: Any) -> TopicCount:
    return count_records(source, scan_request("t", **WORDS, **words))


def read(source: MaintenanceContext, **words: Any) -> int:
    plan = plan_scan(source, scan_request("t", columns="offset", **WORDS, **words))
    return sum(batch.num_rows for unit in plan.units for batch in unit_rows(unit, source.clock))


def gets(world: KeyedWorld) -> int:
    return len(world.store.details("get_range"))


def test_plain_records_are_counted_without_a_request(world: KeyedWorld) -> None:
    source = filled(world, cleanup_policy="delete")
    found = counted(source)
    assert (found.records, found.by_offsets, found.to_read) == (120, 120, {})
    assert counted(source, start=7, end=100).records == 93
    assert counted(source, partitions=0, limit=5).records == 120, "a count has no limit"
    assert gets(world) == 0
    assert str(found) == "120 records by offsets, without a read"


def test_what_key_compaction_left_is_counted_by_indexes(world: KeyedWorld) -> None:
    source = filled(world)
    assert counted(source).by_offsets == 120
    world.compact()
    found = counted(source)
    assert found.by_indexes > 0 and found.objects_asked > 0, found
    assert found.records == read(source) < 120
    assert f"{found.by_indexes} records by " in str(found)


@pytest.mark.parametrize(("start", "end"), [(1, 120), (0, 119), (63, 97), (109, 111), (50, 50)])
def test_blocks_that_a_cut_divides_are_read(world: KeyedWorld, start: int, end: int) -> None:
    source = filled(world)
    world.compact()
    assert counted(source, start=start, end=end).records == read(source, start=start, end=end)


def test_times_and_transactions_are_left_for_reading(world: KeyedWorld) -> None:
    source = filled(world, cleanup_policy="delete")
    timed = counted(source, timestamp_from=datetime(1970, 1, 1, tzinfo=UTC))
    assert (timed.records, timed.to_read) == (0, {("t", 0): (0, 120)})
    assert 0 < timed.bytes_to_read < MIB
    assert "the rest of 1 partition by reading" in str(timed)
