"""The blocks and the rows of a unit are read from real objects in memory: each wanted offset once, or an error that
names it."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from siltstone.model.limits import MIB
from siltstone.object_store.buckets import UnknownBucket
from siltstone.object_store.copies import Copies
from siltstone.record_columns.kernels import plain
from siltstone.scanning import reading, rows, times
from siltstone.scanning.failures import ScanDamaged, ScanOutdated
from siltstone.scanning.planning import cut, plan_pieces, wanted_partitions
from siltstone.scanning.reading import Indexes, UnitBlocks
from siltstone.scanning.request import ScanRequest
from siltstone.scanning.rows import unit_rows
from siltstone.scanning.times import committed_offset_at
from siltstone.scanning.unit import ScanUnit
from support.maintenance.keyed_world import KeyedWorld, keyed_world


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyedWorld]:
    """Makes topic t, whose only partition has 60 records in two objects, two records in each block and ten ms from one
    batch to the next. The first object has the offsets below 40."""
    for module in (reading, times):
        monkeypatch.setattr(module, "INDEXES", Indexes())
    monkeypatch.setattr(rows, "best_kernels", lambda: plain)  # the others take seconds to load
    with keyed_world() as made:
        (stream,) = made.topic(cleanup_policy="delete")
        for count in (20, 10):
            batches = [[("k", "x" * 90)] * 2 for _ in range(count)]
            made.append_pairs(stream, *batches)
            made.clock.advance_ms(10)
        made.store.calls.clear()
        yield made


def unit_of(world: KeyedWorld, start: int = 0, end: int = 60, **changes: Any) -> ScanUnit:
    request = ScanRequest(topics=("t",), unit_bytes_max=MIB)
    (partition,) = wanted_partitions(world.image, request)
    wanted = cut(partition, start, end, end_offset=60, fail_on_data_loss=True)
    (pieces,) = plan_pieces(world.image, [wanted], request).units
    unit = ScanUnit("store", ("offset",), {0: world.store.url}, 5, 0, pieces)
    return replace(unit, **changes)


def places(unit: ScanUnit, world: KeyedWorld, **limits: int) -> list[tuple[int, int]]:
    """Returns the offsets of the blocks that are read."""
    blocks = UnitBlocks(unit, world.clock, **limits)
    found = [(entry.start_offset, entry.end_offset) for _, entry, _ in blocks.read()]
    assert blocks.bytes_read > 0
    return found


def offsets(unit: ScanUnit) -> list[int]:
    return [offset for batch in unit_rows(unit) for offset in batch.column("offset").to_pylist()]


def gets(world: KeyedWorld) -> int:
    return len(world.store.details("get_range"))


def test_all_blocks_of_the_pieces_are_read_in_order_and_rows_are_the_wanted_offsets(
    world: KeyedWorld,
) -> None:
    found = places(unit_of(world), world)
    assert (found[0][0], found[-1][1]) == (0, 60)
    assert [end for _, end in found[:-1]] == [start for start, _ in found[1:]]
    assert offsets(unit_of(world)) == list(range(60))
    inner = places(unit_of(world, 5, 43), world)
    assert inner[0][0] <= 5 < inner[0][1] and inner[-1][0] < 43 <= inner[-1][1]
    assert offsets(unit_of(world, 5, 43)) == list(range(5, 43))


def test_adjacent_blocks_are_one_request_as_far_as_a_request_may_go(world: KeyedWorld) -> None:
    places(unit_of(world), world)
    begun = gets(world)
    blocks = places(unit_of(world), world)
    assert gets(world) - begun == 2, "one for each object; their indexes are known"
    begun = gets(world)
    assert places(unit_of(world), world, request_bytes_max=1) == blocks
    assert gets(world) - begun == len(blocks), "a block is read whole, however small a request has to be"
    _, start, end = world.store.details("get_range")[-1]  # type: ignore[misc]
    begun = gets(world)
    places(unit_of(world), world, request_bytes_max=2 * (end - start))
    assert gets(world) - begun == len(blocks) // 2


def test_two_pieces_that_meet_inside_a_block_both_have_it_from_one_request(world: KeyedWorld) -> None:
    whole = unit_of(world, 0, 40)
    (piece,) = whole.pieces
    middle = 21
    halves = (replace(piece, end_offset=middle), replace(piece, start_offset=middle))
    cut_in_two = replace(whole, pieces=halves)
    shared = [entry for entry in places(cut_in_two, world) if entry[0] < middle < entry[1]]
    assert len(shared) == 2
    begun = gets(world)
    assert offsets(cut_in_two) == list(range(40))
    assert gets(world) - begun == 1


def test_blocks_that_are_too_old_are_passed_over(world: KeyedWorld) -> None:
    unit = unit_of(world)
    newest = world.clock.now_ms() - 10
    for passed_over_ms, first in ((newest - 10, 0), (newest - 9, 40), (newest, 40)):
        wanted = tuple(replace(piece, passed_over_ms=passed_over_ms) for piece in unit.pieces)
        assert offsets(replace(unit, pieces=wanted)) == list(range(first, 60))


def test_an_object_that_is_gone_says_that_the_plan_is_too_old(world: KeyedWorld) -> None:
    unit = unit_of(world, planned_ms=world.clock.now_ms())
    world.lose(unit.pieces[0].object_id)
    with pytest.raises(ScanOutdated):
        places(unit, world)
    second = unit_of(world, 40, 60)
    places(second, world)
    world.lose(second.pieces[0].object_id)
    with pytest.raises(ScanOutdated, match=f"{second.pieces[0].object_id}"):
        places(second, world)


def test_a_damaged_block_is_an_error_that_names_its_first_wanted_offset(world: KeyedWorld) -> None:
    unit = unit_of(world, 5, 60)
    world.flip(unit.pieces[0].object_id, 40)
    with pytest.raises(ScanDamaged) as damaged:
        offsets(replace(unit, pieces=unit_of(world, 0, 60).pieces))
    assert (damaged.value.partition, damaged.value.offset) == ("t-0", 0)
    with pytest.raises(ScanDamaged) as damaged:
        world.flip(unit.pieces[1].object_id, 40)
        offsets(unit_of(world, 41, 60))
    assert damaged.value.offset == 41


@pytest.mark.parametrize(("start", "end", "named"), [(0, 41, 40), (40, 50, 40)])
def test_offsets_that_the_object_has_not_are_an_error_and_no_missing_rows(
    world: KeyedWorld, start: int, end: int, named: int
) -> None:
    (piece,) = unit_of(world, 0, 40).pieces
    wrong = replace(unit_of(world), pieces=(replace(piece, start_offset=start, end_offset=end),))
    with pytest.raises(ScanDamaged, match=f"has no block for offset {named}"):
        offsets(wrong)


def test_a_bucket_that_the_unit_does_not_name_is_an_error(world: KeyedWorld) -> None:
    with pytest.raises(UnknownBucket):
        places(unit_of(world, bucket_urls={1: world.store.url}), world)


def test_indexes_are_kept_within_a_limit_and_the_oldest_is_dropped_first(world: KeyedWorld) -> None:
    pieces = unit_of(world).pieces
    sizes = [
        len(Indexes().of(Copies([(0, world.store)]), each.object_id, each.object_bytes).raw)
        for each in pieces
    ]

    def asked(held: Indexes, *numbers: int) -> list[int]:
        """Returns which of the indexes are read from the bucket."""
        found = []
        for number in numbers:
            begun = gets(world)
            held.of(Copies([(0, world.store)]), pieces[number].object_id, pieces[number].object_bytes)
            if gets(world) > begun:
                found.append(number)
        return found

    assert asked(Indexes(sum(sizes)), 0, 1, 0, 1) == [0, 1]
    assert asked(Indexes(sum(sizes) - 1), 0, 1, 1, 0, 1) == [0, 1, 0, 1]
    assert asked(Indexes(1), 0, 0, 1, 1) == [0, 1], "one is kept, however large"


# -- times


def at(world: KeyedWorld, timestamp_ms: int) -> int | None:
    (partition,) = wanted_partitions(world.image, ScanRequest(topics=("t",)))
    return committed_offset_at(world.image, partition, timestamp_ms, lambda *_: Copies([(0, world.store)]))


def test_sr13_the_first_offset_at_or_after_a_time(world: KeyedWorld) -> None:
    second = world.clock.now_ms() - 10
    first = second - 10
    assert [at(world, each) for each in (0, first, first + 1, second, second + 1)] == [0, 0, 40, 40, None]
    stream_id = unit_of(world).pieces[0].stream_id
    world.trim(stream_id, 7)
    assert [at(world, each) for each in (0, first, second)] == [7, 7, 40]
    world.trim(stream_id, 60)
    assert at(world, 0) is None


def test_a_damaged_object_is_an_error_and_no_later_offset(world: KeyedWorld) -> None:
    world.flip(unit_of(world).pieces[0].object_id, 40)
    with pytest.raises(ScanDamaged) as damaged:
        at(world, 0)
    assert (damaged.value.partition, damaged.value.offset) == ("t-0", 0)
