import pytest

from siltstone.metadata.commands import (
    ExpireObjects,
    FinishJob,
    ForgetObjects,
    PinScan,
    PrepareObjects,
    UnpinScan,
)
from siltstone.metadata.lookup import deletable_objects
from siltstone.model.objects import ObjectState
from support.metadata.metadata_world import HOUR_MS, MetadataWorld

GRACE_MS = 600_000


@pytest.fixture
def world() -> MetadataWorld:
    made = MetadataWorld()
    made.register(0)
    made.open_stream()
    return made


def due(world: MetadataWorld, count_max: int = 1_000) -> list[int]:
    found = deletable_objects(world.image, world.now_ms, GRACE_MS, count_max)
    return [metadata.object_id for metadata in found]


def test_t27_prepare(world) -> None:
    assert world.do(PrepareObjects(3, 60_000, node_id=0, node_epoch=1)) == 0
    assert world.do(PrepareObjects(5, 60_000, bucket_id=2, node_id=0, node_epoch=1)) == 3
    assert world.image.next_object_id == 8
    rows = [world.image.objects[object_id] for object_id in range(8)]
    assert {row.state for row in rows} == {ObjectState.PREPARED}
    assert {row.deadline_ms for row in rows} == {world.now_ms + 60_000}
    assert [row.bucket_id for row in rows] == [0] * 3 + [2] * 5


def test_t27_expiry(world) -> None:
    world.do(PrepareObjects(1, 3_000, node_id=0, node_epoch=1))
    world.now_ms += 2_999
    assert world.do(ExpireObjects(10)) == ()
    world.now_ms += 1
    assert world.do(ExpireObjects(10)) == (0,)
    assert world.image.objects[0].state is ObjectState.DESTROYED
    assert world.outcome(ExpireObjects(10)) == ("OK", 0)


def test_t27_a_committed_object_does_not_expire(world) -> None:
    world.do(world.upload((0, 0, 10)))
    world.now_ms += 100 * HOUR_MS
    assert world.do(ExpireObjects(10)) == ()


def test_t27_1700_expire_together(world) -> None:
    """Selected 1000 and 700; the store's batches are the sweep's."""
    world.prepare(1_700)
    world.now_ms += HOUR_MS
    assert len(world.do(ExpireObjects(5_000))) == 1_700
    assert due(world) == []
    world.now_ms += GRACE_MS
    first = due(world)
    assert first == list(range(1_000))
    world.do(ForgetObjects(tuple(first), GRACE_MS))
    second = due(world)
    assert second == list(range(1_000, 1_700))
    world.do(ForgetObjects(tuple(second), GRACE_MS))
    assert not world.image.objects and not world.image.destroyed


def test_expiring_takes_the_oldest_first_and_no_more_than_asked(world) -> None:
    world.prepare(5)
    world.now_ms += HOUR_MS
    assert world.do(ExpireObjects(2)) == (0, 1)
    assert world.do(ExpireObjects(9)) == (2, 3, 4)


def test_rule_6_nothing_is_forgotten_before_its_grace_period(world) -> None:
    world.prepare()
    world.now_ms += HOUR_MS
    world.do(ExpireObjects(1))
    world.now_ms += GRACE_MS - 1
    assert world.outcome(ForgetObjects((0,), GRACE_MS)) == ("GRACE_PERIOD_RUNNING", 0)
    world.now_ms += 1
    assert world.outcome(ForgetObjects((0,), GRACE_MS)) == ("OK", 1)
    assert world.outcome(ForgetObjects((0, 77), GRACE_MS)) == ("OK", 0), "gone is done"


def test_rule_6_nothing_in_use_is_forgotten(world) -> None:
    world.do(world.upload((0, 0, 10)))
    world.prepare()
    for object_id in (0, 1):
        assert world.outcome(ForgetObjects((object_id,), 0)) == ("OBJECT_NOT_DESTROYED", 0)


def destroyed_at(world: MetadataWorld) -> int:
    """A new object that is destroyed and past its grace period; the version of the log entry that destroyed it."""
    world.do(PrepareObjects(1, 1, node_id=0, node_epoch=1))
    world.now_ms += 1
    (object_id,) = world.do(ExpireObjects(1))
    world.now_ms += GRACE_MS
    version = world.image.objects[object_id].destroyed_version
    assert version == world.image.version
    return version


def test_sr8_a_pin_holds_what_is_destroyed_after_it_and_nothing_before(world) -> None:
    destroyed_at(world)
    world.do(PinScan("q", HOUR_MS))
    destroyed_at(world)
    assert due(world) == [0]
    assert world.outcome(ForgetObjects((0, 1), GRACE_MS)) == ("OBJECT_PINNED", 0)
    assert world.outcome(ForgetObjects((0,), GRACE_MS)) == ("OK", 1)
    world.now_ms += 100 * HOUR_MS
    assert due(world) == [], "its lease is long over, and still it stands"
    world.do(UnpinScan("q"))
    assert due(world) == [1]
    assert world.outcome(ForgetObjects((1,), GRACE_MS)) == ("OK", 1)


def test_sr27_what_is_destroyed_in_the_entry_right_after_the_pin_is_held(world) -> None:
    world.prepare()
    world.now_ms += HOUR_MS
    world.do(PinScan("q", HOUR_MS))
    world.do(ExpireObjects(1))
    world.now_ms += GRACE_MS
    assert world.image.objects[0].destroyed_version == world.image.pins["q"].version + 1
    assert due(world) == []


def test_of_several_pins_the_oldest_decides(world) -> None:
    world.do(PinScan("old", HOUR_MS))
    destroyed_at(world)
    world.do(PinScan("new", HOUR_MS))
    destroyed_at(world)
    assert due(world) == []
    world.do(PinScan("old", 2 * HOUR_MS, renews=True))
    assert due(world) == [], "a renewal makes a pin no younger"
    world.do(UnpinScan("old"))
    assert due(world) == [0]


def test_what_was_selected_before_a_pin_was_put_is_forgotten_after_it(world) -> None:
    """Else a sweep would have deleted the bytes, and the metadata would name them for as long as the pin exists."""
    destroyed_at(world)
    world.do(PinScan("q", HOUR_MS))
    assert world.outcome(ForgetObjects((0,), GRACE_MS)) == ("OK", 1)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (PrepareObjects(1, 1, node_id=0, node_epoch=0), "NODE_EPOCH_EXPIRED"),
        (PrepareObjects(1, 1, node_id=9, node_epoch=1), "NODE_EPOCH_NOT_EXIST"),
        (PrepareObjects(1, 1, job_id=0), "JOB_NOT_RUNNING"),
        (PrepareObjects(1, 1), "INVALID_REQUEST"),
        (PrepareObjects(1, 1, node_id=0), "INVALID_REQUEST"),
        (PrepareObjects(1, 1, node_id=0, node_epoch=1, job_id=0), "INVALID_REQUEST"),
        (PrepareObjects(0, 1, node_id=0, node_epoch=1), "INVALID_REQUEST"),
        (PrepareObjects(1, 0, node_id=0, node_epoch=1), "INVALID_REQUEST"),
    ],
)
def test_who_may_prepare(world, asked, expected) -> None:
    world.start_job()
    world.do(FinishJob(0, True))
    assert world.outcome(asked) == (expected, 0)


def test_of_the_candidates_those_expire_that_are_due(world) -> None:
    world.prepare(3)
    world.now_ms += HOUR_MS
    world.prepare(1)
    assert world.do(ExpireObjects(9, (3, 2, 1, 1, 99))) == (1, 2), "the last was prepared just now"
    assert world.do(ExpireObjects(9, (1, 2))) == ()
    assert world.do(ExpireObjects(9)) == (0,)
