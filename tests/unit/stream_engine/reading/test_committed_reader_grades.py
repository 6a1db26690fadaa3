"""The grade of a read, and the reads that are held because of it."""

import asyncio

import pytest
from msgspec.structs import replace

from siltstone.model.limits import MIB, TAIL_READ_BYTES_MAX
from siltstone.model.objects import ObjectRange
from siltstone.object_store.bandwidth.limiter import Limiter
from siltstone.object_store.bandwidth.turns import BandwidthSettings, Direction, Grade, TooMuchWaits
from siltstone.stream_engine.reading import committed_reader
from siltstone.stream_engine.reading.committed_reader import (
    GIVING_WAY_BYTES_MAX,
    RANGES_PER_PLAN_MAX,
    grade_of_read,
)
from siltstone.stream_engine.settings import ReadSettings
from support.engine.batches import batch
from support.engine.committed_world import CommittedWorld, read_all, settle
from support.scenarios import in_loop

IN = Direction.IN


def ranges(*sizes: int) -> list[ObjectRange]:
    return [
        ObjectRange(
            object_id=at,
            stream_id=1,
            start_offset=at,
            end_offset=at + 1,
            size_bytes=size,
            largest_timestamp_ms=0,
        )
        for at, size in enumerate(sizes)
    ]


def test_a_read_that_is_far_from_the_end_catches_up() -> None:
    assert grade_of_read(ranges(TAIL_READ_BYTES_MAX - 1, 1), 0) is Grade.TAIL_READ
    assert grade_of_read(ranges(TAIL_READ_BYTES_MAX, 1), 0) is Grade.CATCH_UP_READ
    assert grade_of_read(ranges(*[1] * RANGES_PER_PLAN_MAX), 0) is Grade.CATCH_UP_READ, (
        "more are not looked at"
    )
    assert grade_of_read([], 0) is Grade.TAIL_READ


def test_what_lies_behind_a_reader_in_the_same_object_does_not_count() -> None:
    (held,) = ranges(10 * TAIL_READ_BYTES_MAX)
    held = replace(held, end_offset=100)
    assert grade_of_read([held], 80) is Grade.CATCH_UP_READ
    assert grade_of_read([held], 95) is Grade.TAIL_READ


class Reading:
    """100 batches of 10 KiB in one object; a reader that has read its index."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, tail_bytes: int, in_bytes_per_second: int = 0
    ) -> None:
        monkeypatch.setattr(committed_reader, "TAIL_READ_BYTES_MAX", tail_bytes)
        self.world = CommittedWorld()
        self.world.commit(0, [batch(1, offset, 1, 10_000) for offset in range(100)])
        self.reader = self.world.reader(ReadSettings())
        self.limiter = self.reader._buckets.limiter = Limiter(
            BandwidthSettings(in_bytes_per_second), self.world.clock
        )

    async def ended(self, read):
        """Awaits a call while virtual time advances."""
        task = asyncio.ensure_future(read)
        while not task.done():
            self.world.clock.advance_ms(1)
            await settle(3)
        return await task

    def passed(self, grade: Grade) -> int:
        return self.limiter.statistics().of(IN, grade).size_bytes


@pytest.mark.parametrize(("tail_bytes", "grade"), [(MIB * 10, Grade.TAIL_READ), (1, Grade.CATCH_UP_READ)])
@in_loop
async def test_the_blocks_of_a_read_pass_in_its_grade(monkeypatch, tail_bytes: int, grade: Grade) -> None:
    of = Reading(monkeypatch, tail_bytes)
    assert len(await of.reader.read(1, 0, 100, 50_000)) == 5
    assert of.passed(grade) >= 40_000
    assert of.passed(Grade.TAIL_READ) + of.passed(Grade.CATCH_UP_READ) == of.passed(grade)
    is_catch_up = grade is Grade.CATCH_UP_READ
    assert (of.reader.statistics().catch_up.of(IN, grade).size_bytes > 0) == is_catch_up


@in_loop
async def test_a_limited_read_waits_before_its_request_and_ends(monkeypatch) -> None:
    of = Reading(monkeypatch, 1, in_bytes_per_second=100_000)
    await of.ended(of.reader.read(1, 0, 1, 1))
    gets = len(of.world.store.gets)
    read = asyncio.ensure_future(of.reader.read(1, 50, 100, 100_000))
    await settle()
    assert len(of.world.store.gets) == gets and not read.done()
    assert len(await of.ended(read)) == 10
    assert of.limiter.statistics().of(IN, Grade.CATCH_UP_READ).held_seconds > 0.5


@in_loop
async def test_a_read_at_the_tail_passes_one_that_catches_up(monkeypatch) -> None:
    of = Reading(monkeypatch, 50_000, in_bytes_per_second=100_000)
    await of.ended(of.reader.read(1, 0, 1, 1))
    far = asyncio.ensure_future(of.reader.read(1, 10, 100, 400_000))
    await settle()
    near = asyncio.ensure_future(of.reader.read(1, 98, 100, 20_000))
    await of.ended(near)
    assert not far.done()
    far.cancel()
    await settle()


@in_loop
async def test_while_catch_up_reads_give_way_each_returns_about_a_block(monkeypatch) -> None:
    of = Reading(monkeypatch, 1)
    of.reader.catch_up.change(IN, 100 * MIB)
    first = await of.ended(of.reader.read(1, 0, 100, MIB))
    assert 400_000 < sum(map(len, first)) <= GIVING_WAY_BYTES_MAX
    found = await of.ended(read_all(of.reader, 1, 0, 100, MIB))
    assert [each.base_offset for each in found] == list(range(100))
    of.reader.catch_up.change(IN, 0)
    assert len(await of.reader.read(1, 0, 100, 2 * MIB)) == 100


@in_loop
async def test_reads_at_the_tail_do_not_give_way(monkeypatch) -> None:
    of = Reading(monkeypatch, 100 * MIB)
    of.reader.catch_up.change(IN, 1)
    assert len(await of.reader.read(1, 0, 100, 2 * MIB)) == 100


@in_loop
async def test_too_much_that_waits_is_refused_by_name_and_not_remembered(monkeypatch) -> None:
    of = Reading(monkeypatch, 1, in_bytes_per_second=1)
    waits = asyncio.ensure_future(of.limiter.wait(IN, Grade.TAIL_READ, 100 * MIB))
    await settle()
    with pytest.raises(TooMuchWaits):
        await of.reader.read(1, 0, 100, 50_000)
    waits.cancel()
    await settle()
    of.limiter.change(IN, 0)
    assert len(await of.reader.read(1, 0, 100, 50_000)) == 5
