"""The plan of relocation: when there is one, and what is in it."""

from siltstone.carrying.pipeline.kind import Plan, Scope
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.relocation.kind import Relocation
from siltstone.model.buckets import BucketState
from support.maintenance.drained_world import SETTINGS, DrainedWorld
from support.maintenance.stream_object_world import add_stream_object


def plan_of(world: DrainedWorld, **limits: int) -> Plan:
    kind = Relocation(SETTINGS, **limits)
    return kind.plan(world.context, Scope(), Watch(kind.name, world.clock))


def test_nothing_is_planned_while_no_bucket_is_drained(world: DrainedWorld) -> None:
    add_stream_object(world, 0, (0, 5, 300))
    for state in (BucketState.WRITABLE, BucketState.READ_ONLY):
        world.set_state(0, state)
        plan = plan_of(world)
        assert (plan.units, plan.unplanned, plan.has_remaining) == ([], (), False)


def test_each_object_of_the_drained_bucket_is_a_unit(world: DrainedWorld) -> None:
    (whole,) = world.upload({0: [(0, 5, 300)], 1: [(0, 5, 300)]})
    alone = add_stream_object(world, 1, (5, 9, 400))
    world.drain()
    size_bytes = {each: world.metadata.image.objects[each].size_bytes for each in (whole, alone)}
    assert [
        (unit.name, unit.stream_id, unit.bytes_read, unit.bytes_written, unit.reason) for unit in plan_of(world).units
    ] == [
        (f"object {whole}", None, size_bytes[whole], size_bytes[whole], "bucket 0 is being drained"),
        (f"object {alone}", 1, size_bytes[alone], size_bytes[alone], "bucket 0 is being drained"),
    ]  # fmt: skip


def test_objects_beyond_the_limit_of_a_plan_are_left_to_the_next(world: DrainedWorld) -> None:
    for at in range(3):
        add_stream_object(world, 0, (at, at + 1, 200))
    world.drain()
    plan = plan_of(world, objects_max=2)
    assert (len(plan.units), plan.has_remaining) == (2, True)
    report = world.relocated(objects_max=2)
    assert len(report.done) == 2
    plan = plan_of(world, objects_max=2)
    assert (len(plan.units), plan.has_remaining) == (1, False)
