import msgspec

from siltstone.carrying.pipeline.kind import PlannedUnit
from siltstone.carrying.pipeline.set_aside import (
    SetAside,
    all_set_aside,
    forget_gone,
    last_runs,
    note_run,
    put_aside,
    set_aside,
    take_back,
)
from siltstone.metadata.commands import AlterTopicConfigs, CreateTopic, DeleteTopic
from siltstone.model.limits import LAST_RUN_NOTED_MS, SET_ASIDE_MS_MAX, SET_ASIDE_MS_MIN
from support.maintenance.compaction_world import CompactionWorld
from support.values.left_out import numbers_left_out

UNIT = PlannedUnit(name="flights-0", reason="", topic="flights")
TOPIC_ID = "a" * 32


def with_topic(world: CompactionWorld) -> None:
    world.metadata.execute(CreateTopic(0, 1, "flights", TOPIC_ID, 1))


def test_the_wait_doubles_up_to_its_limit(world: CompactionWorld) -> None:
    waits = []
    for _ in range(14):
        aside = put_aside(world.context, "tidy", UNIT, "it is damaged")
        waits.append(aside.retry_at_ms - world.clock.now_ms())
        world.clock.advance_ms(waits[-1])
    assert waits[:4] == [SET_ASIDE_MS_MIN * 2**step for step in range(4)]
    assert waits[-1] == SET_ASIDE_MS_MAX
    assert aside.failures == 14


def test_it_is_the_same_for_another_driver(world: CompactionWorld) -> None:
    aside = put_aside(world.context, "tidy", UNIT, "it is damaged")
    assert list(all_set_aside(world.another_context().metadata.image)) == [aside]
    assert aside.waits(world.metadata.image, world.clock.now_ms())
    assert not aside.waits(world.metadata.image, aside.retry_at_ms)


def test_a_clock_that_was_set_back_makes_it_wait_no_longer_than_a_unit_waits_at_most(
    world: CompactionWorld,
) -> None:
    aside = put_aside(world.context, "tidy", UNIT, "it is damaged")
    assert aside.waits(world.metadata.image, aside.retry_at_ms - SET_ASIDE_MS_MAX)
    assert not aside.waits(world.metadata.image, aside.retry_at_ms - SET_ASIDE_MS_MAX - 1)


def test_a_unit_that_succeeded_begins_anew(world: CompactionWorld) -> None:
    put_aside(world.context, "tidy", UNIT, "first")
    take_back(world.context, "tidy", UNIT.name)
    assert set_aside(world.metadata.image, "tidy", UNIT.name) is None
    take_back(world.context, "tidy", UNIT.name)
    assert put_aside(world.context, "tidy", UNIT, "second").failures == 1


def test_a_topic_configured_otherwise_is_tried_at_once_and_counted_anew(world: CompactionWorld) -> None:
    with_topic(world)
    put_aside(world.context, "tidy", UNIT, "the key is missing")
    aside = put_aside(world.context, "tidy", UNIT, "the key is missing")
    assert aside.failures == 2 and aside.waits(world.metadata.image, world.clock.now_ms())
    world.metadata.execute(AlterTopicConfigs(TOPIC_ID, {"cleanup.policy": "delete"}))
    assert not aside.waits(world.metadata.image, world.clock.now_ms())
    assert put_aside(world.context, "tidy", UNIT, "again").failures == 1


def test_reasons_have_an_end(world: CompactionWorld) -> None:
    assert len(put_aside(world.context, "tidy", UNIT, "x" * 10_000).reason) == 500


def test_what_is_in_no_plan_any_more_is_forgotten_when_its_time_has_come(world: CompactionWorld) -> None:
    with_topic(world)
    put_aside(world.context, "tidy", UNIT, "why")
    put_aside(world.context, "mend", UNIT, "why")
    forget_gone(world.context, "tidy", set())
    assert set_aside(world.metadata.image, "tidy", UNIT.name) is not None
    world.metadata.execute(DeleteTopic(0, 1, TOPIC_ID))
    forget_gone(world.context, "tidy", {UNIT.name})
    assert set_aside(world.metadata.image, "tidy", UNIT.name) is not None
    forget_gone(world.context, "tidy", set())
    assert [aside.kind for aside in all_set_aside(world.metadata.image)] == ["mend"]


def test_the_first_of_several_failures_is_remembered(world: CompactionWorld) -> None:
    with_topic(world)
    began_ms = world.clock.now_ms()
    put_aside(world.context, "tidy", UNIT, "first")
    world.clock.advance_ms(7)
    assert put_aside(world.context, "tidy", UNIT, "second").since_ms == began_ms
    world.metadata.execute(AlterTopicConfigs(TOPIC_ID, {"cleanup.policy": "delete"}))
    assert put_aside(world.context, "tidy", UNIT, "as another topic").since_ms == began_ms + 7


def test_a_unit_may_be_tried_again_earlier_than_others(world: CompactionWorld) -> None:
    hasty = msgspec.structs.replace(UNIT, set_aside_ms_max=5)
    aside = put_aside(world.context, "tidy", hasty, "why")
    assert aside.retry_at_ms == world.clock.now_ms() + 5


def test_the_units_of_a_kind_and_name_are_kept_apart(world: CompactionWorld) -> None:
    put_aside(world.context, "tidy", UNIT, "why")
    assert set_aside(world.metadata.image, "mend", UNIT.name) is None
    assert set_aside(world.metadata.image, "tidy", "flights-1") is None


# -- the last runs ------------------------------------------------------------------------------------------


def noted(world: CompactionWorld, kind: str = "tidy") -> tuple[str, int]:
    last = last_runs(world.metadata.image)[kind]
    return last.report, last.ended_ms


def test_a_run_is_noted_for_every_driver_to_see(world: CompactionWorld) -> None:
    put_aside(world.context, "tidy", UNIT, "no run")
    assert last_runs(world.metadata.image) == {}
    note_run(world.context, "tidy", "1 unit done", was_idle=True)
    note_run(world.context, "mend", "nothing to do", was_idle=True)
    assert set(last_runs(world.another_context().metadata.image)) == {"tidy", "mend"}
    assert noted(world) == ("1 unit done", world.clock.now_ms())
    assert noted(world, "mend") == ("nothing to do", world.clock.now_ms())


def test_of_runs_in_quick_succession_the_first_is_noted(world: CompactionWorld) -> None:
    began_ms = world.clock.now_ms()
    note_run(world.context, "tidy", "first", was_idle=True)
    note_run(world.context, "tidy", "at once", was_idle=True)
    world.clock.advance_ms(LAST_RUN_NOTED_MS - 1)
    note_run(world.context, "tidy", "too early", was_idle=True)
    assert noted(world) == ("first", began_ms)
    world.clock.advance_ms(1)
    note_run(world.context, "tidy", "in time", was_idle=True)
    assert noted(world) == ("in time", began_ms + LAST_RUN_NOTED_MS)


def test_a_run_noted_by_a_clock_that_was_ahead_is_replaced(world: CompactionWorld) -> None:
    note_run(world.context, "tidy", "in the future", was_idle=True)
    world.clock.advance_ms(-1)
    note_run(world.context, "tidy", "now", was_idle=True)
    assert noted(world) == ("now", world.clock.now_ms())


def test_a_run_that_did_work_is_noted_at_once(world: CompactionWorld) -> None:
    note_run(world.context, "tidy", "nothing to do", was_idle=True)
    world.clock.advance_ms(1)
    note_run(world.context, "tidy", "2 of 2 done", was_idle=False)
    world.clock.advance_ms(1)
    note_run(world.context, "tidy", "nothing to do", was_idle=True)
    assert noted(world) == ("2 of 2 done", world.clock.now_ms() - 1)


def test_what_is_left_out() -> None:
    assert numbers_left_out(SetAside) == {"configured": 0}
