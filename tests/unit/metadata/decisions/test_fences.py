"""Rule 7 for every command that names a node: under an epoch that is not the newest nothing is written. And the same
for the epoch of a stream, its owner, and jobs."""

import pytest

from siltstone.metadata.commands import (
    CloseStream,
    CreateStream,
    CreateTopic,
    DeleteStream,
    FinishJob,
    OpenStream,
    PrepareObjects,
    TrimStream,
)
from siltstone.metadata.decisions.fences import existing_stream, running_job
from siltstone.metadata.refusals import StreamNotExist
from support.metadata.metadata_world import HOUR_MS, MetadataWorld

# Node 0 has epoch 2. Stream 0 is open, stream 1 closed, both node 0's at epoch 0: nothing else forbids these.
COMMANDS = {
    "create": lambda epoch: CreateStream(0, epoch),
    "open": lambda epoch: OpenStream(0, epoch, 1, 1),
    "reopen": lambda epoch: OpenStream(0, epoch, 0, 0),
    "trim": lambda epoch: TrimStream(0, epoch, 0, 0, 10),
    "close": lambda epoch: CloseStream(0, epoch, 0, 0),
    "delete": lambda epoch: DeleteStream(0, epoch, 1, 0),
    "prepare": lambda epoch: PrepareObjects(1, HOUR_MS, node_id=0, node_epoch=epoch),
}


@pytest.fixture
def world() -> MetadataWorld:
    made = MetadataWorld()
    made.register(0)
    made.open_stream()
    made.do(CloseStream(0, 1, made.open_stream(), 0))
    made.do(made.upload((0, 0, 100)))
    made.register(0, "second")
    return made


@pytest.mark.parametrize("name", COMMANDS)
def test_rule_7_only_the_newest_node_epoch_writes(world, name) -> None:
    command = COMMANDS[name]
    assert world.outcome(command(1)) == ("NODE_EPOCH_EXPIRED", 0)
    assert world.outcome(command(3)) == ("NODE_EPOCH_NOT_EXIST", 0)
    assert world.outcome(command(2))[0] == "OK"


@pytest.mark.parametrize("name", COMMANDS)
def test_rule_7_a_node_that_is_failed_over_writes_nothing(world, name) -> None:
    world.fail_over(0)
    assert world.outcome(COMMANDS[name](2)) == ("NODE_FENCED", 0)


STREAM_COMMANDS = {
    "trim": lambda node_id, epoch, stream_id: TrimStream(node_id, 1, stream_id, epoch, 10),
    "close": lambda node_id, epoch, stream_id: CloseStream(node_id, 1, stream_id, epoch),
}


@pytest.mark.parametrize("name", STREAM_COMMANDS)
@pytest.mark.parametrize(
    ("node_id", "stream_epoch", "stream_id", "expected"),
    [
        pytest.param(1, 4, 2, "STREAM_FENCED", id="opened again since"),
        pytest.param(1, 6, 2, "STREAM_INNER_ERROR", id="not opened yet"),
        pytest.param(0, 5, 2, "NODE_EPOCH_EXPIRED", id="a node that was registered again"),
        pytest.param(2, 5, 2, "STREAM_FENCED", id="another node's"),
        pytest.param(1, 0, 3, "STREAM_NOT_EXIST", id="never created"),
        pytest.param(1, 5, 2, "OK", id="its owner under its epoch"),
    ],
)
def test_rule_7_only_the_owner_writes_under_the_streams_epoch(
    world, name, node_id, stream_epoch, stream_id, expected
) -> None:
    world.register(1)
    world.register(2)
    assert world.open_stream(1, stream_epoch=5) == 2
    assert world.outcome(STREAM_COMMANDS[name](node_id, stream_epoch, stream_id))[0] == expected


def test_a_deleted_stream_does_not_exist_although_objects_hold_it(world) -> None:
    assert existing_stream(world.image, 0) is world.image.streams[0]
    world.do(CloseStream(0, 2, 0, 0))
    world.do(DeleteStream(0, 2, 0, 0))
    assert 0 in world.image.streams
    with pytest.raises(StreamNotExist):
        existing_stream(world.image, 0)


def test_the_streams_of_a_topic_go_only_with_it(world) -> None:
    topic = world.do(CreateTopic(0, 2, "t", "0" * 32, 2))
    like_one_of_it = world.do(CreateStream(0, 2, {"topic": "t"}))
    for partition in topic.partitions:
        for stream_id in (partition.data_stream_id, partition.meta_stream_id):
            assert world.outcome(DeleteStream(0, 2, stream_id, -1)) == ("STREAM_OF_TOPIC", 0)
    assert world.outcome(DeleteStream(0, 2, like_one_of_it, -1))[0] == "OK"


def test_a_job_is_asked_for_by_its_number_as_long_as_it_runs(world) -> None:
    job_id = world.start_job()
    assert running_job(world.image, job_id) is world.image.jobs[job_id]
    prepare = PrepareObjects(1, HOUR_MS, job_id=job_id)
    assert world.outcome(prepare)[0] == "OK"
    world.do(FinishJob(job_id, True))
    assert world.outcome(prepare) == ("JOB_NOT_RUNNING", 0)
    assert world.outcome(PrepareObjects(1, HOUR_MS, job_id=job_id + 1)) == ("JOB_NOT_RUNNING", 0)
