"""GC9: a driver killed at every step of its life; and others at work at every step, from seeds.

At any time everything is readable as before; it converges by waiting and sweeping alone, and leaves nothing behind.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from random import Random

import pytest

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.commands import (
    AlterTopicConfigs,
    CloseStream,
    CreateTopic,
    OpenStream,
    PrepareObjects,
    RegisterNode,
)
from siltstone.metadata.refusals import JobRunning
from siltstone.model.limits import COMPACTION_TIME_LIMIT_MS, GRACE_PERIOD_MS, JOB_LEASE_MS
from siltstone.model.objects import ObjectKind, object_key
from siltstone.offline.context import MaintenanceContext
from support.maintenance.collecting_world import all_dead_destroyed, collected
from support.maintenance.compaction_world import CompactionWorld, Records, compaction_world
from support.maintenance.stepping import Killed, Steps, acting_at, dying_at, stepped

SSO, SO = ObjectKind.STREAM_SET_OBJECT, ObjectKind.STREAM_OBJECT
FIRST_IDS = (9, 10, 255, 500)


def filled(world: CompactionWorld, first_id: int) -> None:
    """Sparse objects of both kinds, one of a topic, and a dead one; the first has the id."""
    topic = world.metadata.execute(CreateTopic(0, 1, "t", "0" * 32, 1))
    world.metadata.execute(OpenStream(0, 1, topic.partitions[0].data_stream_id, 0))
    world.make_streams(4)
    world.metadata.execute(PrepareObjects(first_id, 1000, node_id=0, node_epoch=1))
    made = world.upload(
        {0: [(0, 10, 900), (10, 20, 300)], 2: [(0, 10, 200)]}, {3: [(0, 10, 500)], 4: [(0, 10, 90)]}
    )
    assert made[0] == first_id
    world._commit({4: [(10, 20, 900), (20, 30, 250)]}, SO, 0)
    world.upload({5: [(0, 10, 100)]})
    for stream, start in ((0, 10), (3, 10), (4, 20), (5, 10)):
        world.trim(stream, start)


def driven(context: MaintenanceContext) -> None:
    all_dead_destroyed(context)
    collected(context)


@cache
def steps_of_a_run() -> list[str]:
    with compaction_world() as world:
        filled(world, 9)
        steps = Steps()
        with stepped(world, steps) as context:
            driven(context)
        return steps.names


def converged(world: CompactionWorld) -> None:
    """With all time limits over, and nothing but sweeps."""
    for _ in range(2):
        world.clock.advance_ms(COMPACTION_TIME_LIMIT_MS + GRACE_PERIOD_MS)
        sweep(world.context)
    committed = {object_key(each) for each in world.ids(SSO) | world.ids(SO)}
    assert world.bucket_keys() == committed
    assert [*world.store.store.list_multipart()] == []
    assert not world.metadata.image.prepared and not world.metadata.image.destroyed
    world.assert_sound()


def test_a_run_takes_every_kind_of_step() -> None:
    kinds = {name.split()[1] for name in steps_of_a_run()}
    assert {"append", "put", "start_multipart", "upload_part", "complete_multipart", "copy_part"} <= kinds


@pytest.mark.parametrize("first_id", FIRST_IDS)
def test_gc9_killed_at_every_step(first_id: int) -> None:
    """Prepare, mid-upload, uploaded, committed: metadata and bucket at each, before and after."""
    for step in range(first_id % 3, len(steps_of_a_run()), 3):
        with compaction_world() as world:
            filled(world, first_id)
            before = world.records()
            with stepped(world, dying_at(step)) as context, pytest.raises(Killed):
                driven(context)
            assert world.records() == before, steps_of_a_run()[step]
            world.clock.advance_ms(JOB_LEASE_MS + 1)
            driven(world.another_context())
            assert world.records() == before, steps_of_a_run()[step]
            converged(world)
            assert world.records() == before, steps_of_a_run()[step]


@pytest.mark.parametrize("first_id", FIRST_IDS)
@pytest.mark.parametrize("done", [0, 1, 2])
def test_gc9_killed_with_half_of_the_sources_deleted(first_id: int, done: int) -> None:
    with compaction_world() as world:
        filled(world, first_id)
        before = world.records()
        driven(world.context)
        world.clock.advance_ms(GRACE_PERIOD_MS)
        delete = world.store.store.delete

        def half(keys: list[str]) -> None:
            delete(keys[:done])
            raise Killed

        world.store.store.delete = half  # type: ignore[method-assign]
        with pytest.raises(Killed):
            sweep(world.another_context())
        world.store.store.delete = delete  # type: ignore[method-assign]
        assert world.records() == before
        converged(world)
        assert world.records() == before


# -- others at work ---------------------------------------------------------------------------------------

Act = Callable[[CompactionWorld, Random], object]


def trim(world: CompactionWorld, rng: Random) -> None:
    stream = world.metadata.refresh().streams[rng.choice([0, 2, 4])]
    epoch = world.metadata.image.nodes[0].node_epoch
    start = rng.randint(stream.start_offset, stream.end_offset)
    world.trim(stream.stream_id, start) if epoch == 1 else None


def delete_topic(world: CompactionWorld, rng: Random) -> None:
    world.delete_topic("0" * 32)


def delete_stream(world: CompactionWorld, rng: Random) -> None:
    world.delete_stream(rng.choice([2, 4]))


def change_policy(world: CompactionWorld, rng: Random) -> None:
    configs = {"cleanup.policy": rng.choice(["compact", "compact,delete"]), "retention.ms": "60000"}
    world.metadata.execute(AlterTopicConfigs("0" * 32, configs))


def second_driver(world: CompactionWorld, rng: Random) -> None:
    """A driver that waits for its turn, or takes over from one that seems to have died."""
    if rng.random() < 0.5:
        world.clock.advance_ms(JOB_LEASE_MS + 1)
    with suppress(JobRunning):
        driven(world.another_context())


def restart_node(world: CompactionWorld, rng: Random) -> None:
    epoch = world.metadata.execute(RegisterNode(0, "second", "nowhere")).node_epoch
    for stream in list(world.metadata.image.streams.values()):
        if stream.epoch >= 0:
            world.metadata.execute(CloseStream(0, epoch, stream.stream_id, stream.epoch))
            world.metadata.execute(OpenStream(0, epoch, stream.stream_id, stream.epoch + 1))


OTHERS: dict[str, Act] = {
    each.__name__: each
    for each in (trim, delete_topic, delete_stream, change_policy, second_driver, restart_node)
}


def still_live(world: CompactionWorld, before: Records) -> Records:
    """Of what there was, what the streams as they are now still hold."""
    streams = world.metadata.refresh().streams
    kept = {
        stream: [each for each in records if each[1] > streams[stream].start_offset]
        for stream, records in before.items()
        if stream in streams and streams[stream].state.name != "DELETED"
    }
    return {stream: records for stream, records in kept.items() if records}


@pytest.mark.parametrize("other", sorted(OTHERS))
def test_others_at_every_step_lose_nothing_and_leave_nothing_behind(other: str) -> None:
    for seed in range(len(steps_of_a_run()) // 2):
        rng = Random(seed)
        with compaction_world() as world:
            filled(world, 9)
            before = world.records()
            steps = acting_at(
                rng.randrange(len(steps_of_a_run())), lambda world=world, rng=rng: OTHERS[other](world, rng)
            )
            with stepped(world, steps) as context, suppress(JobRunning):
                driven(context)
            assert world.records() == still_live(world, before), f"seed {seed}"
            world.clock.advance_ms(JOB_LEASE_MS + 1)
            driven(world.context)
            assert world.records() == still_live(world, before), f"seed {seed}"
            converged(world)


def test_a_trim_during_the_round_does_not_make_it_fail() -> None:
    with compaction_world() as world:
        filled(world, 9)
        step = steps_of_a_run().index("before upload_part")
        steps = acting_at(step, lambda: world.trim(2, 10))
        with stepped(world, steps) as context:
            all_dead_destroyed(context)
            report = collected(context)
        assert [each.outcome for each in report.units] == [Outcome.DONE] * len(report.units)
        converged(world)
