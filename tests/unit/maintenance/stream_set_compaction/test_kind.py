"""Stream set object compaction as a kind of the pipeline. What it does to objects is in
``test_carrying_out_scenarios.py``."""

import pytest

from siltstone.carrying import committing
from siltstone.carrying.pipeline.kind import Budget, Outcome, Scope
from siltstone.carrying.pipeline.running import RunReport, carry_out, run
from siltstone.carrying.pipeline.set_aside import all_set_aside
from siltstone.carrying.pipeline.watch import StepProgress, Watch
from siltstone.maintenance.stream_set_compaction.kind import NOT_BY_TOPIC, StreamSetObjectCompaction
from siltstone.metadata.refusals import CoverageNotMatched
from siltstone.metadata.store.port import LogUnavailable
from siltstone.model.limits import SET_ASIDE_MS_MIN
from siltstone.model.objects import ObjectKind, object_key
from siltstone.offline.settings import CompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner, RunFailed
from support.engine.replacing import replace_object
from support.maintenance.compacting import compact
from support.maintenance.compaction_sources import F1
from support.maintenance.compaction_world import CompactionWorld, scaled

SETTINGS = CompactionSettings(
    split_size_bytes=400, memory_bytes=1200, part_bytes_min=1, merged_block_bytes_max=1_000_000
)
KIND = StreamSetObjectCompaction(SETTINGS)


@pytest.fixture
def filled(world: CompactionWorld) -> CompactionWorld:
    world.upload(*scaled(F1, 4))
    return world


def ran(world: CompactionWorld, watch: Watch | None = None) -> RunReport:
    watch = watch or Watch(KIND.name, world.clock)
    return run(world.context, KIND, InProcessRunner, Scope(), Budget(), watch)


def test_a_round_is_one_unit_with_its_reason(filled: CompactionWorld) -> None:
    plan = KIND.plan(filled.context, Scope(), Watch(KIND.name, filled.clock))
    (unit,) = plan.units
    assert unit.name == "objects" and unit.reason.startswith("3 stream set objects")
    assert (unit.objects_before, unit.objects_after) == (3, 4)
    assert unit.bytes_read == unit.bytes_written > 0 and unit.detail["tasks"] == "2"
    before, after = map(int, unit.detail["index entries"].split(" → "))
    assert before >= after > 0
    assert not filled.metadata.image.jobs


def test_carried_out_it_is_the_compaction_that_it_was(filled: CompactionWorld) -> None:
    before = filled.records()
    told: list[StepProgress] = []
    report = ran(filled, Watch(KIND.name, filled.clock, on_step_progress=told.append))
    (unit,) = report.units
    assert unit.outcome is Outcome.DONE and (unit.objects_before, unit.objects_after) == (3, 4)
    assert unit.bytes_read > 0 and unit.bytes_written > 0 and unit.peak_memory_bytes > 0
    assert filled.records() == before
    filled.assert_sound()
    assert {each.step for each in told} == {"read indexes", "rewrite"}
    assert told[-1].bytes_done == told[-1].bytes_total > 0
    (job,) = filled.metadata.image.jobs.values()
    assert job.kind == "sso-compaction"


def test_without_work_it_says_why(world: CompactionWorld) -> None:
    def reason() -> str:
        plan = KIND.plan(world.context, Scope(), Watch(KIND.name, world.clock))
        assert plan.units == () and plan.unplanned[-1].name == "objects"
        return plan.unplanned[-1].reason

    assert reason() == "there are no objects"
    world.make_streams(1)
    world._commit({0: [(0, 10, 100)]}, ObjectKind.STREAM_OBJECT, 0)
    assert reason() == "there is no stream set object, only 1 stream object"
    world.upload({0: [(10, 20, 100)]}, {1: [(0, 10, 100)]})
    assert reason() == "of 2 stream set objects no two hold the same stream"


def test_it_is_not_done_by_topic(filled: CompactionWorld) -> None:
    plan = KIND.plan(filled.context, Scope(topics=frozenset({"flights"})), Watch(KIND.name, filled.clock))
    assert plan.units == () and [each.reason for each in plan.unplanned] == [NOT_BY_TOPIC]


def test_objects_left_out_are_told(filled: CompactionWorld) -> None:
    victim = min(filled.ids(ObjectKind.STREAM_SET_OBJECT))
    filled.damage(victim, -1)
    plan = KIND.plan(filled.context, Scope(), Watch(KIND.name, filled.clock))
    assert plan.unplanned[0].name == f"object {victim}" and "index" in plan.unplanned[0].reason


def test_gc13_a_damaged_object_is_set_aside_and_the_next_round_does_the_others(
    filled: CompactionWorld,
) -> None:
    victim = min(filled.ids(ObjectKind.STREAM_SET_OBJECT))
    content = filled.bytes_of(victim)
    filled.damage(victim, 10)
    report = ran(filled)
    assert [(each.name, each.outcome) for each in report.units] == [(f"object {victim}", Outcome.FAILED)]
    (aside,) = all_set_aside(filled.metadata.image)
    assert aside.name == f"object {victim}" and "DamagedBlock" in aside.reason
    plan = KIND.plan(filled.context, Scope(), Watch(KIND.name, filled.clock))
    assert plan.unplanned[-1].name == f"object {victim}"
    assert plan.unplanned[-1].reason.startswith("it is set aside: ")
    (unit,) = ran(filled).done
    assert unit.objects_before == 2
    assert victim in filled.ids(ObjectKind.STREAM_SET_OBJECT)
    replace_object(filled.store.store, object_key(victim), [content])
    filled.clock.advance_ms(SET_ASIDE_MS_MIN)
    assert ran(filled).is_well
    assert not list(all_set_aside(filled.metadata.image))
    filled.assert_sound()


def test_damaged_for_good_it_is_tried_less_and_less_often(filled: CompactionWorld) -> None:
    victim = min(filled.ids(ObjectKind.STREAM_SET_OBJECT))
    filled.damage(victim, 10)
    waits = []
    for _ in range(4):
        assert ran(filled).failed
        (aside,) = all_set_aside(filled.metadata.image)
        waits.append(aside.retry_at_ms - filled.clock.now_ms())
        filled.clock.advance_ms(waits[-1])
    assert waits == [SET_ASIDE_MS_MIN * 2**step for step in range(4)]


def test_a_failure_that_names_no_object_sets_the_round_aside(
    filled: CompactionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(*_: object) -> None:
        raise RunFailed("the Spark job failed: a worker died")

    monkeypatch.setattr(InProcessRunner, "run", out_of_memory)
    assert [each.name for each in ran(filled).failed] == ["objects"]
    assert ran(filled).postponed == ("objects",)


def test_a_plan_that_others_have_overtaken_is_not_needed(filled: CompactionWorld) -> None:
    watch = Watch(KIND.name, filled.clock)
    plan = KIND.plan(filled.context, Scope(), watch)
    compact(filled.another_context(), InProcessRunner(), SETTINGS)
    report = carry_out(filled.context, KIND, plan, InProcessRunner, Budget(), watch, Scope())
    assert [each.outcome for each in report.units] == [Outcome.NOT_NEEDED]
    assert not list(all_set_aside(filled.metadata.image))


def test_a_commit_whose_coverage_is_refused_is_set_aside(
    filled: CompactionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next plan would be the same, and be rewritten and refused again, for ever."""

    def refuse(*_: object) -> None:
        raise CoverageNotMatched("stream 0: no new object holds the live range [0, 10); plan again")

    monkeypatch.setattr(committing, "check_coverage", refuse)
    assert [each.text for each in ran(filled).failed] == [
        "stream 0: no new object holds the live range [0, 10); plan again"
    ]
    assert ran(filled).postponed == ("objects",)


def test_cancelled_between_tasks_nothing_is_committed(filled: CompactionWorld) -> None:
    watch = Watch(
        KIND.name,
        filled.clock,
        on_step_progress=lambda told: told.step == "rewrite" and watch.cancel("Ctrl-C"),
    )
    sets = filled.ids(ObjectKind.STREAM_SET_OBJECT)
    report = ran(filled, watch)
    assert report.is_cancelled and report.units == () and report.postponed == ("objects",)
    assert filled.ids(ObjectKind.STREAM_SET_OBJECT) == sets
    assert not list(all_set_aside(filled.metadata.image))


def test_metadata_out_of_reach_are_not_the_objects_fault(
    filled: CompactionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object) -> None:
        raise LogUnavailable("the disk is gone")

    monkeypatch.setattr("siltstone.maintenance.stream_set_compaction.carrying_out.prepare", unreachable)
    report = ran(filled)
    assert report.units == () and "the disk is gone" in report.trouble
    assert not list(all_set_aside(filled.metadata.image))
