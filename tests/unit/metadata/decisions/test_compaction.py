import pytest
from msgspec.structs import replace

from siltstone.metadata.commands import (
    CloseStream,
    CommitCompaction,
    DeleteStream,
    FinishJob,
    ForgetObjects,
    TrimStream,
)
from siltstone.model.limits import COMPACTION_STREAM_OBJECTS_MAX
from siltstone.model.objects import ObjectState
from support.metadata.metadata_world import MetadataWorld, new_object

FIRST_DATA_MS = 1_000
SECOND_DATA_MS = 2_000


@pytest.fixture
def world() -> MetadataWorld:
    """SSO 0 {S0 0-100, S1 0-200}, SSO 1 {S0 100-200, S1 200-300}; job 0 runs."""
    made = MetadataWorld()
    made.register(0)
    made.open_stream()
    made.open_stream()
    made.do(made.upload((0, 0, 100), (1, 0, 200), data_time_ms=FIRST_DATA_MS))
    made.do(made.upload((0, 100, 200), (1, 200, 300), data_time_ms=SECOND_DATA_MS))
    made.start_job()
    return made


ALL = ((0, 0, 200), (1, 0, 300))


def states(world: MetadataWorld) -> dict[int, str]:
    return {object_id: row.state.name for object_id, row in world.image.objects.items()}


def test_t25_compaction_commit(world) -> None:
    before = dict(world.image.streams)
    command = world.compaction(0, (0, 1), *ALL)
    assert world.outcome(command)[0] == "OK"
    assert states(world) == {0: "DESTROYED", 1: "DESTROYED", 2: "COMMITTED"}
    assert world.ends(0, 1) == (200, 300)
    assert (world.held(0), world.held(1)) == ([(2, 0, 200)], [(2, 0, 300)])
    assert world.image.objects[2].data_time_ms == FIRST_DATA_MS, "the age of the oldest data stays"
    for stream_id, stream in before.items():
        assert replace(world.image.streams[stream_id], ranges=()) == replace(stream, ranges=())
    assert world.outcome(command) == ("OK", 0)


def test_t25_a_compacted_object_that_is_not_there(world) -> None:
    before = world.image
    command = replace(world.compaction(0, (0, 1), *ALL), compacted=(0, 1, 10))
    prepared = world.image
    assert world.outcome(command) == ("COMPACTED_OBJECTS_NOT_FOUND", 0)
    assert world.image is prepared and before.streams == prepared.streams


def test_t25_an_object_that_is_not_prepared(world) -> None:
    command = CommitCompaction(0, (0, 1), new_object(50, *ALL))
    assert world.outcome(command) == ("OBJECT_NOT_EXIST", 0)


def test_t25_after_the_stream_moved_on(world) -> None:
    command = world.compaction(0, (0, 1), *ALL)
    world.do(world.upload((0, 200, 250)))
    owners = world.image.streams[0].owner_ranges
    assert world.outcome(command)[0] == "OK"
    assert world.ends(0, 1) == (250, 300)
    assert world.image.streams[0].owner_ranges == owners
    assert [held[1:] for held in world.held(0)] == [(0, 200), (200, 250)]


def test_t25_stream_objects_only_committed_twice(world) -> None:
    command = world.compaction(0, (0, 1), alone=ALL)
    assert world.outcome(command)[0] == "OK"
    assert world.outcome(command) == ("OK", 0)


def test_rule_5_a_commit_that_was_done_is_never_refused(world) -> None:
    """A driver that lost the answer and then its job would delete committed objects on a refusal."""
    command = world.compaction(0, (0, 1), *ALL)
    world.do(command)
    world.do(FinishJob(0, False, "lost"))
    assert world.outcome(command) == ("OK", 0)


@pytest.mark.parametrize("how", ["finished", "taken over"])
def test_rule_7_a_job_that_does_not_run_commits_nothing(world, how) -> None:
    command = world.compaction(0, (0, 1), *ALL)
    if how == "finished":
        world.do(FinishJob(0, True))
    else:
        world.now_ms += 60_000
        world.start_job(driver="another")
    assert world.outcome(command) == ("JOB_NOT_RUNNING", 0)
    assert world.outcome(replace(command, job_id=99)) == ("JOB_NOT_RUNNING", 0)


def test_a_passed_lease_alone_does_not_stop_a_job(world) -> None:
    command = world.compaction(0, (0, 1), *ALL)
    world.now_ms += 120_000
    assert world.outcome(command)[0] == "OK"


@pytest.mark.parametrize(
    ("compacted", "ranges"),
    [
        pytest.param((0, 1), ((0, 0, 200),), id="a stream lost"),
        pytest.param((0, 1), ((0, 0, 200), (1, 0, 299)), id="the end lost"),
        pytest.param((0, 1), ((0, 1, 200), (1, 0, 300)), id="the beginning lost"),
        pytest.param((0, 1), (), id="everything lost"),
        pytest.param((0,), ALL, id="offsets of an object that stays"),
        pytest.param((0, 1), (*ALL, (2, 0, 1)), id="a stream they do not hold"),
        pytest.param((0, 1), ((0, 0, 201), (1, 0, 300)), id="offsets nobody appended"),
    ],
)
def test_rule_4_coverage_is_checked_where_the_commit_is_decided(world, compacted, ranges) -> None:
    world.open_stream()
    command = world.compaction(0, compacted, *ranges)
    before = world.image
    assert world.outcome(command) == ("COVERAGE_NOT_MATCHED", 0)
    assert world.image is before


@pytest.mark.parametrize(
    ("alone", "expected"),
    [
        pytest.param(((0, 0, 150), (0, 150, 200), (1, 0, 300)), "OK", id="cut in two"),
        pytest.param(((0, 0, 150), (0, 149, 200), (1, 0, 300)), "COVERAGE_NOT_MATCHED", id="overlapping"),
        pytest.param(((0, 0, 150), (0, 151, 200), (1, 0, 300)), "COVERAGE_NOT_MATCHED", id="a hole"),
        pytest.param(((0, 0, 200), (0, 0, 200), (1, 0, 300)), "COVERAGE_NOT_MATCHED", id="twice"),
    ],
)
def test_rule_4_exactly_once(world, alone, expected) -> None:
    assert world.outcome(world.compaction(0, (0, 1), alone=alone))[0] == expected


def test_rule_4_a_live_range_of_an_object_in_the_middle_stays_in_order(world) -> None:
    """H1: the merged object spans one that stays. Here look-up is by offset, so it is safe."""
    world.do(world.upload((0, 200, 300)))
    world.do(world.compaction(0, (0, 2), (1, 0, 200), alone=((0, 0, 100), (0, 200, 300))))
    assert [held[1:] for held in world.held(0)] == [(0, 100), (100, 200), (200, 300)]
    joined = world.compaction(0, (1,), (0, 0, 200), (1, 200, 300))
    assert world.outcome(joined) == ("COVERAGE_NOT_MATCHED", 0)


def test_rule_4_trimmed_while_compacting(world) -> None:
    """Dropping needs the record that trimmed; whole blocks may be kept; what is wholly trimmed is not held."""
    kept_whole = world.compaction(0, (0,), (0, 0, 100), (1, 0, 200))
    dropped = world.compaction(0, (0,), (0, 50, 100), (1, 0, 200))
    assert world.outcome(dropped) == ("COVERAGE_NOT_MATCHED", 0)
    world.do(TrimStream(0, 1, 0, 0, 50))
    assert world.outcome(dropped)[0] == "OK"
    assert world.held(0) == [(3, 50, 100), (1, 100, 200)]
    assert world.outcome(kept_whole)[0] == "COMPACTED_OBJECTS_NOT_FOUND"
    late = world.compaction(0, (3,), (0, 50, 100), (1, 0, 200))
    world.do(TrimStream(0, 1, 0, 0, 120))
    assert world.outcome(late)[0] == "OK"
    assert world.held(0) == [(1, 100, 200)]


def test_t08_a_stream_deleted_between_plan_and_commit(world) -> None:
    command = world.compaction(0, (0, 1), (1, 0, 300), alone=((0, 0, 200),))
    world.do(CloseStream(0, 1, 0, 0))
    world.do(DeleteStream(0, 1, 0, 0))
    assert world.outcome(command)[0] == "OK"
    assert states(world) == {0: "DESTROYED", 1: "DESTROYED", 2: "COMMITTED", 3: "DESTROYED"}
    assert 0 not in world.image.streams, "nothing holds it any more: forgotten in the same batch"
    assert world.outcome(command) == ("OK", 0)


def test_t08_an_sso_does_not_take_over_ranges_of_a_deleted_stream(world) -> None:
    command = world.compaction(0, (0, 1), *ALL)
    world.do(CloseStream(0, 1, 0, 0))
    world.do(DeleteStream(0, 1, 0, 0))
    world.do(command)
    assert [held.stream_id for held in world.image.objects[2].ranges] == [1]
    assert 0 not in world.image.streams


def test_t08_an_sso_with_nothing_live_is_destroyed_at_once(world) -> None:
    command = world.compaction(0, (0, 1), *ALL)
    for stream_id in (0, 1):
        world.do(CloseStream(0, 1, stream_id, 0))
        world.do(DeleteStream(0, 1, stream_id, 0))
    assert world.outcome(command)[0] == "OK"
    assert set(states(world).values()) == {"DESTROYED"}
    assert not world.image.streams


def test_a_deleted_stream_stays_while_an_object_holds_a_range_of_it(world) -> None:
    world.do(CloseStream(0, 1, 0, 0))
    world.do(DeleteStream(0, 1, 0, 0))
    world.do(world.compaction(0, (0,), (1, 0, 200)))
    assert world.held(0) == [(1, 100, 200)]
    world.do(world.compaction(0, (1,), (1, 200, 300)))
    assert 0 not in world.image.streams


def test_objects_wholly_dead_need_no_new_ones(world) -> None:
    command = world.compaction(0, (0,))
    assert world.outcome(command) == ("COVERAGE_NOT_MATCHED", 0)
    world.do(TrimStream(0, 1, 0, 0, 100))
    world.do(TrimStream(0, 1, 1, 0, 200))
    assert world.outcome(command) == ("OK", 1)
    assert world.image.objects[0].state is ObjectState.DESTROYED
    assert world.outcome(command) == ("OK", 0), "destroyed is what was asked for"
    world.do(ForgetObjects((0,), 0))
    assert world.outcome(command) == ("OK", 0)
    assert world.outcome(replace(command, compacted=(99,)))[0] == "COMPACTED_OBJECTS_NOT_FOUND"


def test_t08_an_id_given_twice_counts_once(world) -> None:
    assert world.outcome(world.compaction(0, (0, 1, 0), *ALL))[0] == "OK"


def test_a_compaction_may_take_what_another_made(world) -> None:
    world.do(world.compaction(0, (0, 1), (0, 0, 200), alone=((1, 0, 300),)))
    assert world.outcome(world.compaction(0, (2, 3), *ALL))[0] == "OK"
    assert (world.held(0), world.held(1)) == ([(4, 0, 200)], [(4, 0, 300)])


def test_malformed_compactions(world) -> None:
    assert world.outcome(CommitCompaction(0, ())) == ("INVALID_REQUEST", 0)
    many = tuple(new_object(number, (0, 0, 1)) for number in range(COMPACTION_STREAM_OBJECTS_MAX + 1))
    assert world.outcome(CommitCompaction(0, (0,), None, many)) == ("INVALID_REQUEST", 0)
