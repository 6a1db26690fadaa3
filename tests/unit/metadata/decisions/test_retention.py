"""Closing segments, and trimming by maintenance: fences, repetition, and what happened meanwhile."""

import pytest

from siltstone.metadata.commands import (
    AlterTopicConfigs,
    CancelJob,
    CloseStream,
    CreateTopic,
    DeleteTopic,
    FinishJob,
    OpenStream,
    RollSegments,
    TopicTrims,
    TrimStream,
    TrimStreams,
)
from siltstone.metadata.refusals import CommandMalformed, JobNotRunning
from siltstone.model.segments import ClosedSegment
from support.metadata.metadata_world import MetadataWorld

ID, OTHER_ID = "0" * 32, "1" * 32
CONFIGS = {"retention.ms": "1000"}


def segment(start: int, end: int, size_bytes: int = 100) -> ClosedSegment:
    return ClosedSegment(start, end, size_bytes, 2, 5, 1, 2)


@pytest.fixture
def world() -> MetadataWorld:
    """Topic ``t`` with two partitions: data streams 0 and 2, of 100 committed offsets each. Node 0 has them open."""
    made = MetadataWorld()
    made.register(0)
    made.do(CreateTopic(0, 1, "t", ID, 2, configs=CONFIGS))
    for stream_id in (0, 2):
        made.do(OpenStream(0, 1, stream_id, 0))
    made.do(made.upload((0, 0, 100), (2, 0, 100)))
    return made


def rolled(world: MetadataWorld, stream_id: int = 0) -> list[tuple[int, int]]:
    return [(one.start_offset, one.end_offset) for one in world.image.streams[stream_id].segments]


def trims(*of_streams: tuple[int, int], topic_id: str = ID, configs: dict[str, str] = CONFIGS) -> TopicTrims:
    return TopicTrims(topic_id, configs, of_streams)


# -- closing segments ------------------------------------------------------------------------------------


def test_a_node_closes_segments_of_its_streams_committed_or_not(world):
    command = RollSegments(((0, segment(0, 40)), (2, segment(0, 250))), node_id=0, node_epoch=1)
    assert world.outcome(command) == ("OK", 1)
    assert (rolled(world), rolled(world, 2)) == ([(0, 40)], [(0, 250)])
    assert world.image.streams[0].active_offset == 40
    assert world.outcome(command) == ("OK", 0)


def test_a_segment_begins_where_the_last_closed_one_ends(world):
    for closed in (segment(0, 40), segment(30, 60), segment(80, 90)):
        world.do(RollSegments(((0, closed),), node_id=0, node_epoch=1))
    assert rolled(world) == [(0, 40), (40, 60), (60, 90)]
    assert world.outcome(RollSegments(((0, segment(50, 90)),), node_id=0, node_epoch=1)) == ("OK", 0)


def test_the_first_one_begins_where_the_stream_does(world):
    world.do(TrimStream(0, 1, 0, 0, 25))
    world.do(RollSegments(((0, segment(0, 40)),), node_id=0, node_epoch=1))
    assert rolled(world) == [(25, 40)]


@pytest.mark.parametrize(("node_epoch", "code"), [(0, "NODE_EPOCH_EXPIRED"), (2, "NODE_EPOCH_NOT_EXIST")])
def test_a_node_is_fenced(world, node_epoch, code):
    world.register(1)
    command = RollSegments(((0, segment(0, 40)),), node_id=0, node_epoch=node_epoch)
    assert world.outcome(command) == (code, 0)


def test_streams_of_others_and_streams_that_are_gone_are_passed_over(world):
    world.register(1)
    assert world.outcome(RollSegments(((0, segment(0, 40)),), node_id=1, node_epoch=1)) == ("OK", 0)
    world.do(CreateTopic(0, 1, "other", OTHER_ID, 1))
    world.do(DeleteTopic(0, 1, ID))
    command = RollSegments(((0, segment(0, 40)), (77, segment(0, 40))), node_id=0, node_epoch=1)
    assert world.outcome(command) == ("OK", 0)


def test_maintenance_closes_what_is_committed_of_any_stream(world):
    job_id = world.start_job("retention")
    world.do(CloseStream(0, 1, 2, 0))
    command = RollSegments(((0, segment(0, 100)), (2, segment(0, 99))), job_id=job_id)
    assert world.outcome(command) == ("OK", 1)
    assert (rolled(world), rolled(world, 2)) == ([(0, 100)], [(0, 99)])
    with pytest.raises(CommandMalformed, match="reaches beyond 100"):
        world.do(RollSegments(((0, segment(100, 101)),), job_id=job_id))


@pytest.mark.parametrize("ends", ["finished", "cancelled", "taken over", "never begun"])
def test_a_job_that_does_not_run_writes_nothing(world, ends):
    job_id = world.start_job("retention", lease_ms=1_000)
    if ends == "finished":
        world.do(FinishJob(job_id, True))
    elif ends == "cancelled":
        world.do(CancelJob(job_id, "enough"))
    elif ends == "taken over":
        world.now_ms += 1_001
        world.start_job("retention", "another driver")
    else:
        job_id += 1
    for command in (
        RollSegments(((0, segment(0, 40)),), job_id=job_id),
        TrimStreams(job_id, (trims((0, 40)),)),
    ):
        with pytest.raises(JobNotRunning):
            world.do(command)
    assert world.image.streams[0].start_offset == 0


@pytest.mark.parametrize(
    "command",
    [
        RollSegments(((0, segment(0, 40)),)),
        RollSegments(((0, segment(0, 40)),), node_id=0),
        RollSegments(((0, segment(0, 40)),), node_id=0, node_epoch=1, job_id=0),
        RollSegments(((0, segment(0, 40)), (0, segment(40, 50))), node_id=0, node_epoch=1),
        RollSegments(((0, segment(40, 40)),), node_id=0, node_epoch=1),
        RollSegments(((0, segment(-1, 40)),), node_id=0, node_epoch=1),
        RollSegments(((0, segment(0, 40, size_bytes=-1)),), node_id=0, node_epoch=1),
    ],
    ids=[
        "nobody",
        "no epoch",
        "two who ask",
        "twice a stream",
        "empty",
        "before the first",
        "less than nothing",
    ],
)
def test_what_cannot_be_meant(world, command):
    world.start_job("retention")
    with pytest.raises(CommandMalformed):
        world.do(command)


# -- trimming --------------------------------------------------------------------------------------------


def test_streams_begin_later_and_what_is_closed_before_is_forgotten(world):
    world.do(RollSegments(((0, segment(0, 40)),), node_id=0, node_epoch=1))
    world.do(RollSegments(((0, segment(40, 60)),), node_id=0, node_epoch=1))
    job_id = world.start_job("retention")
    command = TrimStreams(job_id, (trims((0, 40), (2, 100)),))
    assert world.do(command) == (0, 2)
    assert (world.image.streams[0].start_offset, rolled(world)) == (40, [(40, 60)])
    assert (world.image.streams[2].start_offset, world.ends(2)) == (100, (100,))
    assert world.do(command) == () and world.written == 0


def test_no_object_is_touched_by_a_trim(world):
    before = dict(world.image.objects.items())
    world.do(TrimStreams(world.start_job("retention"), (trims((0, 100), (2, 100)),)))
    assert dict(world.image.objects.items()) == before
    assert world.held(0) == [(0, 0, 100)]


def test_a_start_never_goes_back(world):
    world.do(TrimStream(0, 1, 0, 0, 60))
    assert world.do(TrimStreams(world.start_job("retention"), (trims((0, 40), (2, 10)),))) == (2,)
    assert world.image.streams[0].start_offset == 60


def test_a_topic_configured_otherwise_or_gone_costs_the_others_nothing(world):
    world.do(CreateTopic(0, 1, "other", OTHER_ID, 1))
    world.do(OpenStream(0, 1, 4, 0))
    world.do(world.upload((4, 0, 10)))
    job_id = world.start_job("retention")
    command = TrimStreams(
        job_id, (trims((0, 40)), trims((4, 10), topic_id=OTHER_ID, configs={}), trims(topic_id="f" * 32))
    )
    world.do(AlterTopicConfigs(ID, put={"retention.ms": "-1"}))
    assert world.do(command) == (4,)
    world.do(DeleteTopic(0, 1, ID))
    world.do(world.upload((4, 10, 20)))
    again = TrimStreams(job_id, (trims((0, 40)), trims((4, 20), topic_id=OTHER_ID, configs={})))
    assert world.do(again) == (4,)


@pytest.mark.parametrize(
    ("of_stream", "says"),
    [
        ((0, 101), "ends at 100"),
        ((0, -1), "cannot be trimmed to -1"),
        ((1, 0), "is not a data stream"),
        ((9, 0), "is not a data stream"),
    ],
)
def test_a_trim_that_cannot_be_meant_changes_nothing(world, of_stream, says):
    job_id = world.start_job("retention")
    with pytest.raises(CommandMalformed, match=says):
        world.do(TrimStreams(job_id, (trims((2, 50), of_stream),)))
    assert world.image.streams[2].start_offset == 0


def test_r18_a_trim_needs_no_stream_to_be_closed_nor_its_epoch(world):
    world.do(CloseStream(0, 1, 0, 0))
    world.do(OpenStream(0, 1, 0, 7))
    assert world.do(TrimStreams(world.start_job("retention"), (trims((0, 40)),))) == (0,)
    assert (world.image.streams[0].epoch, world.image.streams[0].owner) == (7, 0)
