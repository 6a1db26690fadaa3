"""Streams for which the allowance is too short: what they cost the others, and how they are compacted all the same."""

from collections.abc import Callable

from msgspec.structs import replace

from siltstone.carrying.pipeline.driver import Driver
from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import RunReport
from siltstone.maintenance.key_compaction.kind import KeyCompaction
from siltstone.maintenance.key_compaction.task import compact_keys, run_key_compaction
from siltstone.maintenance.key_compaction.task_input import CODEC, KeyCompactionInput
from siltstone.metadata.commands import CancelJob
from siltstone.model.limits import HOUR_MS, MINUTE_MS
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.record_columns.kernels import plain
from support.maintenance.keyed_world import KeyedWorld
from support.maintenance.slow_keys import PATIENT, SlowClock, fill_slowly, slow


def all_runs(
    keyed: KeyedWorld, kind: KeyCompaction, on_report: Callable[[RunReport], object]
) -> list[RunReport]:
    driver = Driver(keyed.context, InProcessRunner, Scope(is_forced=True), Budget())
    reports = []
    for report in driver.run([kind]):
        reports.append(report)
        on_report(report)
    return reports


def test_k33_a_slow_stream_costs_the_others_nothing(keyed: KeyedWorld) -> None:
    streams = keyed.topic(partitions=3)
    for stream in streams:
        fill_slowly(keyed, stream)
    tables = [keyed.table(stream) for stream in streams]
    clean_when_begun: list[list[int]] = []

    def task(data: bytes) -> bytes:
        clean_when_begun.append([keyed.stream(stream).cleaned_offset for stream in streams])
        return slow(keyed, "t-1")(data)

    report = keyed.compact(replace(PATIENT, wave_streams_max=3), task=task)
    assert report.is_well
    assert [unit.name for unit in report.units] == ["t-0", "t-2", "t-1"], (
        "the slow one is tried again after all others"
    )
    assert clean_when_begun[1] == [120, 0, 0], "t-0 is committed before the task of t-1 begins"
    assert clean_when_begun[3] == [120, 0, 120]
    assert keyed.stream(streams[1]).cleaned_offset > 0
    assert [keyed.table(stream) for stream in streams] == tables
    keyed.assert_sound()


def test_k33_what_was_committed_before_a_cancel_stays(keyed: KeyedWorld) -> None:
    streams = keyed.topic(partitions=2)
    for stream in streams:
        fill_slowly(keyed, stream)

    def task(data: bytes) -> bytes:
        if CODEC.decode_input(data).name == "t-1":
            keyed.metadata.execute(CancelJob(0, "enough"))
        return run_key_compaction(data)

    report = keyed.compact(PATIENT, task=task)
    assert report.is_cancelled and [unit.name for unit in report.units] == ["t-0"]
    assert [keyed.stream(stream).cleaned_offset for stream in streams] == [120, 0]


def test_k33_a_stream_that_needs_three_allowances_ends_compacted(keyed: KeyedWorld) -> None:
    (stream,) = keyed.topic()
    fill_slowly(keyed, stream)
    table = keyed.table(stream)
    whole = SlowClock(keyed)

    def measure(data: bytes) -> bytes:
        compact_keys(CODEC.decode_input(data), plain, whole)
        raise RuntimeError("measured")

    keyed.compact(replace(PATIENT, allowance_ms=1_000 * HOUR_MS), task=measure)
    assert whole.looks * MINUTE_MS > 3 * PATIENT.allowance_ms
    cleaned: list[int] = []
    kind = KeyCompaction(PATIENT, slow(keyed, "t-0"))
    reports = all_runs(keyed, kind, lambda _: cleaned.append(keyed.stream(stream).cleaned_offset))
    assert all(report.is_well for report in reports)
    assert cleaned == sorted(set(cleaned)) and cleaned[-1] == 120, "each run comes further"
    assert len(cleaned) >= 3
    assert [unit.has_remaining for report in reports for unit in report.units] == [True] * (
        len(cleaned) - 1
    ) + [False]
    assert "a longer pass ran late: the next run continues" in reports[0].units[0].text
    assert keyed.table(stream) == table
    keyed.assert_sound()


def test_k33_a_pass_that_a_smaller_part_does_not_help_gets_more_time(keyed: KeyedWorld) -> None:
    (stream,) = keyed.topic()
    fill_slowly(keyed, stream)
    given: list[KeyCompactionInput] = []

    def task(data: bytes) -> bytes:
        given.append(CODEC.decode_input(data))
        keyed.clock.advance_ms(3 * HOUR_MS)
        return run_key_compaction(data)

    report = keyed.compact(PATIENT, task=task)
    assert report.is_well and report.has_remaining
    day_ms = given[0].horizon_ms - given[0].now_ms - HOUR_MS
    assert [(each.horizon_ms - each.now_ms - day_ms) // HOUR_MS for each in given] == [1, 2, 4]
    assert [each.bound for each in given] == [120, 60, 30]
    assert keyed.stream(stream).cleaned_offset == 30


def test_k33_when_no_time_suffices_the_refusal_names_the_setting(keyed: KeyedWorld) -> None:
    (stream,) = keyed.topic()
    fill_slowly(keyed, stream)
    allowances: list[int] = []

    def task(data: bytes) -> bytes:
        allowances.append(CODEC.decode_input(data).pass_ms_max)
        keyed.clock.advance_ms(100 * HOUR_MS)
        return run_key_compaction(data)

    report = keyed.compact(PATIENT, task=task)
    (unit,) = report.failed
    assert unit.text == (
        "a pass over it takes longer than 16 h 00 min, which is 16 times maintenance.key_compaction.allowance_ms:"
        " nothing was changed; set maintenance.key_compaction.allowance_ms higher"
    )
    assert [each * 4 // 3 // HOUR_MS for each in allowances] == [1, 2, 4, 8, 16]
    assert keyed.stream(stream).cleaned_offset == 0
    keyed.assert_sound()


def test_k33_no_further_try_is_begun_when_the_time_of_the_run_is_over(keyed: KeyedWorld) -> None:
    (stream,) = keyed.topic()
    fill_slowly(keyed, stream)
    driver = Driver(keyed.context, InProcessRunner, Scope(), Budget(seconds_max=60))
    (report,) = driver.run([KeyCompaction(PATIENT, slow(keyed, "t-0"))])
    assert report.units == () and report.postponed == ("t-0",)
    assert report.is_well, "it is not set aside: the next run continues with it"
    assert keyed.stream(stream).cleaned_offset == 0
