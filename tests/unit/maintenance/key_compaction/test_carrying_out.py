"""Failures of one stream, and what they mean for the others."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from siltstone.carrying.pipeline.kind import Budget, Outcome, Scope
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.key_compaction.kind import KeyCompaction
from siltstone.maintenance.key_compaction.task import run_key_compaction
from siltstone.maintenance.key_compaction.task_input import CODEC, KeyCompactionInput, KeyCompactionResult
from siltstone.metadata.client import CommitUnknown
from siltstone.metadata.commands import CancelJob, Command, CommitKeyCompaction
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import object_key
from siltstone.offline.tasks.runner import InProcessRunner, Task, TaskFailure
from support.maintenance.keyed_world import SETTINGS, KeyedWorld
from support.metadata.faulty_log import Fault

NAMES = ["t-0", "t-1", "t-2"]
ONE_BY_ONE = replace(SETTINGS, wave_streams_max=1)


@pytest.fixture
def streams(keyed: KeyedWorld) -> list[int]:
    made = keyed.topic(partitions=3)
    for seed, stream in enumerate(made):
        keyed.fill(stream, seed)
    return made


def outcomes(report: RunReport) -> dict[str, Outcome]:
    return {unit.name: unit.outcome for unit in report.units}


def text_of(report: RunReport, name: str) -> str:
    return next(unit.text for unit in report.units if unit.name == name)


def before(act: Callable[[KeyCompactionInput], object]) -> Task:
    """The task, once ``act`` has heard of its input."""

    def task(given: bytes) -> bytes:
        act(CODEC.decode_input(given))
        return run_key_compaction(given)

    return task


def after(act: Callable[[KeyCompactionResult], object], name: str = "t-1") -> Task:
    """The task, and then ``act`` once it is done with one of the streams."""

    def task(given: bytes) -> bytes:
        answer = run_key_compaction(given)
        if CODEC.decode_result(answer).name == name:
            act(CODEC.decode_result(answer))
        return answer

    return task


def assert_untouched(keyed: KeyedWorld, stream: int) -> None:
    assert keyed.stream(stream).cleaned_offset == 0
    keyed.assert_sound()


def test_a_task_that_answers_a_failure(keyed: KeyedWorld, streams: list[int]) -> None:
    def task(given: bytes) -> bytes:
        if CODEC.decode_input(given).name == "t-1":
            failure = TaskFailure("offset 7 cannot be read", 3)
            return CODEC.encode_result(KeyCompactionResult(name="t-1", failure=failure))
        return run_key_compaction(given)

    report = keyed.compact(task=task)
    assert outcomes(report) == {"t-0": Outcome.DONE, "t-1": Outcome.FAILED, "t-2": Outcome.DONE}
    assert text_of(report, "t-1") == "offset 7 cannot be read"
    assert_untouched(keyed, streams[1])
    again = keyed.compact()
    assert again.units == () and again.postponed == ("t-1",), "set aside"


def test_a_damaged_object_fails_its_stream_and_no_other(keyed: KeyedWorld, streams: list[int]) -> None:
    damaged = keyed.stream(streams[2]).ranges[0].object_id
    keyed.flip(damaged, 100)
    report = keyed.compact()
    assert outcomes(report) == {"t-0": Outcome.DONE, "t-1": Outcome.DONE, "t-2": Outcome.FAILED}
    assert str(damaged) in text_of(report, "t-2")


@pytest.mark.parametrize("threads", [1, 3])
def test_of_a_wave_that_failed_the_bad_one_is_found(
    keyed: KeyedWorld, streams: list[int], threads: int
) -> None:
    def explode(given: KeyCompactionInput) -> None:
        if given.name == "t-1":
            raise MemoryError("too large for the executor")

    report = keyed.compact(task=before(explode), runner=InProcessRunner(threads))
    assert outcomes(report) == {"t-0": Outcome.DONE, "t-1": Outcome.FAILED, "t-2": Outcome.DONE}
    assert text_of(report, "t-1") == "MemoryError: too large for the executor"
    assert_untouched(keyed, streams[1])


def test_streams_run_again_write_to_ids_of_their_own(keyed: KeyedWorld, streams: list[int]) -> None:
    """Attempts of the first run may be writing yet."""
    firsts: dict[str, list[int]] = {}

    def note(given: KeyCompactionInput) -> None:
        firsts.setdefault(given.name, []).append(given.first_object_id)
        if given.name == "t-2" and len(firsts["t-2"]) == 1:
            raise RuntimeError("an executor was lost")

    report = keyed.compact(task=before(note))
    assert set(outcomes(report).values()) == {Outcome.DONE}
    assert {name: len(set(ids)) for name, ids in firsts.items()} == {"t-0": 1, "t-1": 1, "t-2": 2}


def test_a_policy_that_changed_while_it_ran(keyed: KeyedWorld, streams: list[int]) -> None:
    written: list[int] = []

    def reconfigure(result: KeyCompactionResult) -> None:
        written.extend(each.object_id for each in result.objects)
        keyed.configure(delete_retention_ms="5")

    report = keyed.compact(task=after(reconfigure, "t-2"))
    assert outcomes(report) == {"t-0": Outcome.DONE, "t-1": Outcome.DONE, "t-2": Outcome.NOT_NEEDED}
    assert "its configuration has changed" in text_of(report, "t-2")
    assert_untouched(keyed, streams[2])
    assert not {object_key(each) for each in written} & keyed.keys(), "what was refused is deleted at once"
    assert set(outcomes(keyed.compact()).values()) == {Outcome.DONE}, "the next run does it"


def test_what_changed_between_two_waves(keyed: KeyedWorld, streams: list[int]) -> None:
    asked: list[str] = []
    task = before(lambda given: (asked.append(given.name), keyed.configure(segment_ms="77")))
    report = keyed.compact(ONE_BY_ONE, task=task)
    assert len(asked) == 1, "plans that are stale cost no task"
    assert set(outcomes(report).values()) == {Outcome.NOT_NEEDED}


def test_gc23_ids_outlive_the_latest_commit(keyed: KeyedWorld, streams: list[int]) -> None:
    patient = replace(SETTINGS, allowance_ms=10 * HOUR_MS)
    task = after(lambda _: keyed.clock.advance_ms(10 * HOUR_MS))
    assert set(outcomes(keyed.compact(patient, task=task)).values()) == {Outcome.DONE}


def test_a_run_that_took_too_long_is_a_failure(keyed: KeyedWorld, streams: list[int]) -> None:
    report = keyed.compact(ONE_BY_ONE, task=after(lambda _: keyed.clock.advance_ms(1)))
    assert outcomes(report) == {"t-0": Outcome.DONE, "t-1": Outcome.FAILED, "t-2": Outcome.DONE}
    assert "set maintenance.key_compaction.allowance_ms higher" in text_of(report, "t-1")
    assert_untouched(keyed, streams[1])


@pytest.mark.parametrize("fault", list(Fault))
def test_rule_5_an_answer_that_was_lost_is_asked_for_again(
    keyed: KeyedWorld, streams: list[int], fault: Fault
) -> None:
    tables = [keyed.table(stream) for stream in streams]
    task = after(lambda _: keyed.log.faults.append(fault), "t-2")
    assert set(outcomes(keyed.compact(replace(SETTINGS, allowance_ms=HOUR_MS), task=task)).values()) == {
        Outcome.DONE
    }
    assert [keyed.table(stream) for stream in streams] == tables
    keyed.assert_sound()


def test_rule_5_an_outcome_nobody_knows_deletes_nothing(
    keyed: KeyedWorld, streams: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = keyed.metadata.execute

    def silent(command: Command[object]) -> object:
        answer = execute(command)
        if isinstance(command, CommitKeyCompaction):
            raise CommitUnknown("it happened, and nobody says so")
        return answer

    tables = [keyed.table(stream) for stream in streams]
    monkeypatch.setattr(keyed.metadata, "execute", silent)
    report = keyed.compact()
    assert "did not answer" in report.trouble and not report.units, report
    assert [keyed.table(stream) for stream in streams] == tables
    keyed.assert_sound()


def test_a_job_that_was_cancelled_commits_nothing_more(keyed: KeyedWorld, streams: list[int]) -> None:
    def cancel(_: KeyCompactionResult) -> None:
        keyed.metadata.execute(CancelJob(0, "a person said so"))

    before_run = keyed.keys()
    report = keyed.compact(task=after(cancel, "t-2"))
    assert report.is_cancelled
    assert outcomes(report) == {"t-0": Outcome.DONE, "t-1": Outcome.DONE}, "they were committed before"
    assert report.postponed == ("t-2",)
    assert keyed.stream(streams[2]).cleaned_offset == 0
    left = keyed.keys() - before_run
    assert left
    keyed.clock.advance_ms(2 * HOUR_MS)
    keyed.assert_sound()


def test_no_wave_begins_when_the_time_is_over(keyed: KeyedWorld, streams: list[int]) -> None:
    kind = KeyCompaction(ONE_BY_ONE, before(lambda _: keyed.clock.advance_ms(600)))
    patient = KeyCompaction(replace(ONE_BY_ONE, allowance_ms=HOUR_MS), kind._task)
    watch = Watch(kind.name, keyed.clock, seconds_max=1)
    report = run(keyed.context, patient, InProcessRunner, Scope(), Budget(), watch)
    assert len(report.units) == 2 and len(report.postponed) == 1
    assert report.is_well


def test_cancelled_between_waves(keyed: KeyedWorld, streams: list[int]) -> None:
    watch = Watch("key-compaction", keyed.clock)
    task = after(lambda _: watch.cancel("Ctrl-C"), "t-0")
    kind = KeyCompaction(ONE_BY_ONE, task)
    report = run(keyed.context, kind, InProcessRunner, Scope(), Budget(), watch)
    assert report.is_cancelled
    assert len(report.units) + len(report.postponed) == 3 and report.postponed


def test_the_watch_hears_how_far_it_is(keyed: KeyedWorld, streams: list[int]) -> None:
    told: list[tuple[str, int, int]] = []
    watch = Watch(
        "key-compaction",
        keyed.clock,
        on_step_progress=lambda each: told.append((each.step, each.done, each.total)),
    )
    run(keyed.context, KeyCompaction(SETTINGS), InProcessRunner, Scope(), Budget(), watch)
    assert told == [("compact keys", done, 3) for done in (1, 2, 3)]


def test_a_task_that_claims_more_than_its_bound_is_a_bug(keyed: KeyedWorld, streams: list[int]) -> None:
    def task(given: bytes) -> bytes:
        result = CODEC.decode_result(run_key_compaction(given))
        return CODEC.encode_result(replace(result, cleaned_offset=CODEC.decode_input(given).bound + 1))

    with pytest.raises(AssertionError):
        keyed.compact(task=task)
    assert all(keyed.stream(stream).cleaned_offset == 0 for stream in streams)


@pytest.mark.parametrize("object_bytes", [SETTINGS.object_bytes, 512])
def test_outputs_that_lack_offsets_are_refused_as_a_failure(
    keyed: KeyedWorld, streams: list[int], object_bytes: int
) -> None:
    def task(given: bytes) -> bytes:
        result = CODEC.decode_result(run_key_compaction(given))
        assert (len(result.objects) > 1) == (object_bytes == 512)
        return CODEC.encode_result(replace(result, objects=result.objects[1:]))

    report = keyed.compact(replace(SETTINGS, object_bytes=object_bytes), task=task)
    assert set(outcomes(report).values()) == {Outcome.FAILED}
    for stream in streams:
        assert_untouched(keyed, stream)
