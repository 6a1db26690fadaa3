import pytest
from msgspec.structs import replace

from siltstone.metadata.commands import (
    CloseStream,
    CommitUpload,
    CreateStream,
    DeleteStream,
    ExpireObjects,
    ForgetObjects,
    RegisterNode,
    TrimStream,
)
from siltstone.model.limits import STREAMS_PER_OBJECT_MAX
from siltstone.model.objects import ObjectKind, ObjectState
from support.metadata.metadata_world import MetadataWorld, new_object


@pytest.fixture
def world() -> MetadataWorld:
    """Node 0; streams 0, 1, 2 opened by it."""
    made = MetadataWorld()
    made.register(0)
    for _ in range(3):
        made.open_stream()
    return made


def test_a_commit_makes_objects_and_moves_the_ends(world) -> None:
    command = world.upload((0, 0, 10), (1, 0, 20), alone=((2, 0, 5), (2, 5, 9)), data_time_ms=77)
    world.do(command)
    assert world.ends(0, 1, 2) == (10, 20, 9)
    assert (world.held(0), world.held(2)) == ([(0, 0, 10)], [(1, 0, 5), (2, 5, 9)])
    kinds = [world.image.objects[object_id].kind for object_id in range(3)]
    assert kinds == [ObjectKind.STREAM_SET_OBJECT, ObjectKind.STREAM_OBJECT, ObjectKind.STREAM_OBJECT]
    sso = world.image.objects[0]
    assert (sso.state, sso.committed_ms, sso.data_time_ms) == (ObjectState.COMMITTED, world.now_ms, 77)
    assert world.image.streams[0].ranges[0] is sso.ranges[0], "one ObjectRange, shared"
    assert not world.image.prepared


def test_without_a_data_time_it_is_now(world) -> None:
    world.do(world.upload((0, 0, 10)))
    assert world.image.objects[0].data_time_ms == world.now_ms


def test_t24_continuity_after_trim(world) -> None:
    world.do(TrimStream(0, 1, 0, 0, 100))
    for start, end, expected, stream_end in [
        (0, 90, "OK", 100),
        (90, 110, "OK", 110),
        (95, 120, "OFFSET_NOT_MATCHED", 110),
        (120, 130, "OFFSET_NOT_MATCHED", 110),
        (110, 120, "OK", 120),
    ]:
        code, written = world.outcome(world.upload((0, start, end)))
        assert (code, world.ends(0)) == (expected, (stream_end,)), (start, end)
        assert (written > 0) == (code == "OK")
    assert [held[1:] for held in world.held(0)] == [(90, 110), (110, 120)], "the dead one is not held"
    assert world.image.objects[0].state is ObjectState.DESTROYED, "it held nothing but trimmed offsets"


def test_t24_recovery_starts_at_the_trim(world) -> None:
    world.do(TrimStream(0, 1, 0, 0, 100))
    epoch = world.fail_over(0)
    assert world.outcome(world.upload((0, 100, 120), node_epoch=epoch))[0] == "OK"
    assert world.ends(0) == (120,)


def test_t24_one_bad_range_changes_nothing(world) -> None:
    command = world.upload((0, 0, 10), (1, 5, 10), alone=((2, 0, 5),))
    before = world.image
    assert world.outcome(command) == ("OFFSET_NOT_MATCHED", 0)
    assert world.image is before


def test_t24_a_range_of_a_deleted_stream_is_ignored(world) -> None:
    command = world.upload((0, 0, 10), (1, 0, 20), alone=((2, 0, 5),))
    for stream_id in (0, 2):
        world.do(CloseStream(0, 1, stream_id, 0))
        world.do(DeleteStream(0, 1, stream_id, 0))
    assert world.outcome(command)[0] == "OK"
    assert world.ends(1) == (20,)
    assert [held.stream_id for held in world.image.objects[0].ranges] == [1]
    assert world.image.objects[1].state is ObjectState.DESTROYED, (
        "an SO of a deleted stream goes at once (T08)"
    )
    assert 0 not in world.image.streams and 2 not in world.image.streams
    assert world.outcome(command) == ("OK", 0)


def test_a_commit_of_nothing_but_deleted_streams_stays_a_success(world) -> None:
    command = world.upload(alone=((2, 0, 5),))
    world.do(CloseStream(0, 1, 2, 0))
    world.do(DeleteStream(0, 1, 2, 0))
    assert world.outcome(command)[0] == "OK"
    assert world.outcome(command) == ("OK", 0), "destroyed, but it was committed: never a refusal"


def test_an_upload_never_overlaps_what_is_held_below_a_trim(world) -> None:
    world.do(world.upload((0, 0, 95)))
    world.do(TrimStream(0, 1, 0, 0, 100))
    assert world.outcome(world.upload((0, 90, 110))) == ("OFFSET_NOT_MATCHED", 0)
    assert world.outcome(world.upload((0, 95, 110)))[0] == "OK"


def test_several_ranges_of_a_stream_in_one_commit_continue_each_other(world) -> None:
    assert world.outcome(world.upload((0, 0, 10), alone=((0, 10, 20), (0, 20, 30))))[0] == "OK"
    assert world.outcome(world.upload(alone=((0, 30, 40), (0, 41, 50)))) == ("OFFSET_NOT_MATCHED", 0)
    assert world.ends(0) == (30,)


def test_rule_5_idempotence_comes_before_continuity_and_fences(world) -> None:
    command = world.upload((0, 0, 10))
    world.do(command)
    assert world.outcome(command) == ("OK", 0)
    world.do(RegisterNode(0, "second", ""))
    assert world.outcome(command) == ("OK", 0), "a refusal would permit deleting committed objects"


def test_rule_5_a_commit_stays_done_when_its_objects_were_compacted(world) -> None:
    command = world.upload((0, 0, 10))
    world.do(command)
    world.do(world.compaction(world.start_job(), (0,), alone=((0, 0, 10),)))
    assert world.outcome(command) == ("OK", 0)


def test_rule_7_a_lower_node_epoch_is_refused(world) -> None:
    command = world.upload((0, 0, 10))
    epoch = world.do(RegisterNode(0, "second", "")).node_epoch
    assert world.outcome(command) == ("NODE_EPOCH_EXPIRED", 0)
    assert world.outcome(replace(command, node_epoch=epoch))[0] == "OK"


def test_rule_7_a_node_that_is_failed_over_is_fenced(world) -> None:
    command = world.upload((0, 0, 10))
    world.fail_over(0)
    assert world.outcome(command) == ("NODE_FENCED", 0)


def test_only_the_owner_commits(world) -> None:
    world.register(1)
    assert world.outcome(world.upload((0, 0, 10), node_id=1)) == ("STREAM_FENCED", 0)
    never_opened = world.do(CreateStream(0, 1))
    assert world.outcome(world.upload((never_opened, 0, 10))) == ("STREAM_NOT_OPENED", 0)
    assert world.outcome(world.upload((99, 0, 10))) == ("STREAM_NOT_EXIST", 0)


def test_a_closed_stream_still_takes_what_its_owner_uploads(world) -> None:
    world.do(CloseStream(0, 1, 0, 0))
    assert world.outcome(world.upload((0, 0, 10)))[0] == "OK"


def test_unknown_and_expired_objects_do_not_exist(world) -> None:
    assert world.outcome(CommitUpload(0, 1, new_object(50, (0, 0, 10)))) == ("OBJECT_NOT_EXIST", 0)
    late = world.upload((0, 0, 10))
    world.now_ms += 3_600_000
    assert world.outcome(late) == ("OBJECT_NOT_EXIST", 0), "past its time limit, though not swept yet"
    world.do(ExpireObjects(10))
    assert world.outcome(late) == ("OBJECT_NOT_EXIST", 0)
    world.do(ForgetObjects((0,), 0))
    assert world.outcome(late) == ("OBJECT_NOT_EXIST", 0)


def test_a_commit_that_mixes_committed_and_waiting_objects_is_no_repetition(world) -> None:
    first = world.upload((0, 0, 10))
    world.do(first)
    mixed = replace(world.upload((1, 0, 10)), stream_objects=(new_object(0, (0, 0, 10)),))
    assert world.outcome(mixed) == ("OBJECT_NOT_EXIST", 0), "success would lose the waiting object's data"


@pytest.mark.parametrize(
    "sso",
    [
        pytest.param(new_object(0), id="no ranges"),
        pytest.param(new_object(0, (1, 0, 10), (0, 0, 10)), id="not sorted"),
        pytest.param(new_object(0, (0, 0, 10), (0, 10, 20)), id="a stream twice"),
        pytest.param(new_object(0, (0, 10, 10)), id="empty range"),
        pytest.param(new_object(0, (0, -1, 10)), id="below zero"),
        pytest.param(replace(new_object(1, (0, 0, 10)), object_id=0), id="ranges of another object"),
        pytest.param(new_object(0, *((n, 0, 1) for n in range(STREAMS_PER_OBJECT_MAX + 1))), id="too many"),
    ],
)
def test_malformed_objects(world, sso) -> None:
    world.prepare()
    assert world.outcome(CommitUpload(0, 1, sso)) == ("INVALID_REQUEST", 0)


def test_malformed_commits(world) -> None:
    world.prepare(2)
    one = new_object(0, (0, 0, 10))
    assert world.outcome(CommitUpload(0, 1, None)) == ("INVALID_REQUEST", 0)
    assert world.outcome(CommitUpload(0, 1, one, (one,))) == ("INVALID_REQUEST", 0)
    two_streams = new_object(1, (0, 0, 10), (1, 0, 10))
    assert world.outcome(CommitUpload(0, 1, None, (two_streams,))) == ("INVALID_REQUEST", 0)


def test_the_first_range_across_a_trim_may_begin_at_the_very_beginning(world) -> None:
    """Nothing is held yet."""
    world.do(TrimStream(0, 1, 0, 0, 100))
    world.do(world.upload((0, 0, 120)))
    assert (world.ends(0), world.held(0)) == ((120,), [(0, 0, 120)])
