"""Every kind that copies keeps to its rate, inside its tasks. Virtual time advances only while tasks wait."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.stream_set_compaction.kind import StreamSetObjectCompaction
from siltstone.model.limits import HOUR_MS, MIB
from siltstone.object_store.bandwidth.turns import Grade
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import CompactionSettings, CopyRates
from siltstone.offline.tasks.pacing import PacedRunner, TaskPace
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.offline.tasks.whole_copies import CODEC as WHOLE_COPY
from siltstone.offline.tasks.whole_copies import WholeCopyInput, run_whole_copy
from support.maintenance.compaction_world import CompactionWorld, compaction_world
from support.maintenance.drained_world import drained_world
from support.maintenance.keyed_world import SETTINGS, keyed_world
from support.maintenance.stream_object_world import add_stream_object, joined_up
from support.maintenance.table_world import table_world

SMALL = CompactionSettings(
    split_size_bytes=100_000, memory_bytes=300_000, part_bytes_min=1, small_object_bytes=0, force_split_age_ms=10**15
)  # fmt: skip


@pytest.fixture
def world() -> Iterator[CompactionWorld]:
    with compaction_world() as made:
        yield made


def at_rate(context: MaintenanceContext, per_second: int) -> MaintenanceContext:
    return msgspec.structs.replace(context, rates=CopyRates(of_all=per_second))


def two_objects(world: CompactionWorld, block_bytes: int = 20_000) -> None:
    for first in (0, 10):
        world.upload({stream: [(first, first + 10, block_bytes)] for stream in range(20)})


def compacted(
    world: CompactionWorld,
    settings: CompactionSettings = SMALL,
    *,
    context: MaintenanceContext | None = None,
    budget: Budget | None = None,
    watch: Watch | None = None,
) -> RunReport:
    kind = StreamSetObjectCompaction(settings)
    return run(
        context or world.context, kind, InProcessRunner, Scope(), budget or Budget(),
        watch or Watch(kind.name, world.clock),
    )  # fmt: skip


def test_sso_compaction_keeps_to_its_rate_within_a_tenth(world: CompactionWorld) -> None:
    two_objects(world)
    before, began_ms = world.records(), world.clock.monotonic_ms()
    report = compacted(world, context=at_rate(world.context, 50_000))
    (unit,) = report.done
    assert int(unit.detail["tasks"]) >= 3
    took_ms = world.clock.monotonic_ms() - began_ms
    assert took_ms == pytest.approx(unit.bytes_read / 50_000 * 1000, rel=0.1)
    assert report.held_seconds >= took_ms / 1000 * 0.9 and "held by its rate" in report.in_one_line
    assert world.records() == before
    world.assert_sound()


def test_sso_compaction_spreads_its_bytes_over_the_time_it_is_given(world: CompactionWorld) -> None:
    two_objects(world, block_bytes=400_000)
    watch = Watch("sso-compaction", world.clock)
    began_ms = world.clock.monotonic_ms()
    settings = msgspec.structs.replace(SMALL, memory_bytes=4 * MIB)
    report = compacted(world, settings, budget=Budget(spread_ms=8_000), watch=watch)
    assert report.is_well and watch.rate.spread_ms == 8_000
    assert world.clock.monotonic_ms() - began_ms == pytest.approx(8_000, rel=0.1)
    (job,) = world.metadata.refresh().jobs.values()
    assert job.description.endswith("to read, at 1.9 MiB/s, spread over 8.0 s")


def test_forced_splits_are_not_spread(world: CompactionWorld) -> None:
    two_objects(world)
    world.clock.advance_ms(1_000)
    watch = Watch("sso-compaction", world.clock)
    began_ms = world.clock.monotonic_ms()
    settings = msgspec.structs.replace(SMALL, force_split_age_ms=500)
    assert compacted(world, settings, budget=Budget(spread_ms=8_000_000), watch=watch).is_well
    assert watch.rate.grade is Grade.URGENT
    assert watch.rate.urgency == "2 stream set objects must be split because of age"
    assert world.clock.monotonic_ms() == began_ms


def test_cancelling_ends_a_run_inside_a_task_and_leaves_the_objects(world: CompactionWorld) -> None:
    two_objects(world)
    watch = Watch("sso-compaction", world.clock)
    block = world.clock.block_ms

    def blocked(duration_ms: float) -> None:
        block(duration_ms)
        watch.cancel("Ctrl-C")

    world.clock.block_ms = blocked  # type: ignore[method-assign]
    began_ms = world.clock.monotonic_ms()
    report = compacted(world, context=at_rate(world.context, 100), watch=watch)
    assert report.is_cancelled and not report.units
    assert world.clock.monotonic_ms() - began_ms < 2_000, "a step for each thread, of 8,000 s"
    world.assert_sound()


def test_without_a_rate_nothing_waits_and_nothing_is_said(world: CompactionWorld) -> None:
    two_objects(world)
    began_ms = world.clock.monotonic_ms()
    report = compacted(world)
    assert world.clock.monotonic_ms() == began_ms and report.held_seconds == 0
    assert "rate" not in report.in_one_line
    (job,) = world.metadata.refresh().jobs.values()
    assert job.description.endswith("to read")


def assert_held(context: MaintenanceContext, began_ms: float, report: RunReport, per_second: int) -> None:
    read = sum(each.bytes_read for each in report.done)
    assert report.is_well and read
    took_ms = context.clock.monotonic_ms() - began_ms
    assert took_ms >= read / per_second * 1000 * 0.99, f"{read} bytes at {per_second} a second"
    assert report.held_seconds > 0


def test_so_compaction_is_held_for_the_bytes_that_pass_it(world: CompactionWorld) -> None:
    for at in range(5):
        add_stream_object(world, 0, (at, at + 1, 600 if at else 2_000))
    world.context = at_rate(world.context, 100)
    began_ms = world.clock.monotonic_ms()
    report = joined_up(world)
    assert_held(world.context, began_ms, report, 100)
    assert world.clock.monotonic_ms() - began_ms < 40_000, "what is copied inside the store is not counted"


def test_relocation_is_held() -> None:
    with drained_world() as world:
        world.upload({0: [(0, 5, 3_000)], 1: [(0, 5, 300)]})
        world.drain()
        world.context = at_rate(world.context, 100)
        began_ms = world.clock.monotonic_ms()
        assert_held(world.context, began_ms, world.relocated(), 100)


def test_key_compaction_is_held_in_both_its_scans() -> None:
    with keyed_world() as world:
        (stream,) = world.topic()
        world.fill(stream, 1)
        before = world.records(stream)
        began_ms = world.clock.monotonic_ms()
        settings = msgspec.structs.replace(SETTINGS, allowance_ms=HOUR_MS)
        report = world.compact(settings, context=at_rate(world.context, 10_000))
        assert_held(world.context, began_ms, report, 10_000)
        assert len(world.records(stream)) < len(before)


def test_table_export_is_held(tmp_path: Path) -> None:
    with table_world(tmp_path, "parquet") as world:
        (stream,) = world.kept()
        world.fill(stream, 1, count=60)
        began_ms = world.clock.monotonic_ms()
        report = world.export(context=at_rate(world.context, 1_000))
        assert report.is_well and report.done and report.held_seconds > 0
        assert world.clock.monotonic_ms() - began_ms >= 1_000


def test_whole_copies_are_held() -> None:
    with drained_world() as world:
        (object_id,) = world.upload({0: [(0, 5, 3_000)], 1: [(0, 5, 300)]})
        size_bytes = world.metadata.image.objects[object_id].size_bytes
        given = WholeCopyInput(
            object_id=object_id, size_bytes=size_bytes, sources=((0, world.store.url),), target_url=world.second.url
        )  # fmt: skip
        held_ms: list[float] = []
        runner = PacedRunner(
            InProcessRunner(), TaskPace(100), units=1, clock=world.clock, check=lambda: None, on_held=held_ms.append
        )  # fmt: skip
        (answer,) = runner.run(run_whole_copy, [WHOLE_COPY.encode_input(given)])
        result = WHOLE_COPY.decode_result(answer)
        assert result.failure is None and result.bytes_written == size_bytes
        assert sum(held_ms) >= size_bytes / 100 * 1000 * 0.99
