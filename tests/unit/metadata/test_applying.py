import pytest
from msgspec.structs import replace

from siltstone.metadata.applying import MetadataMoved, RecordContradictsImage, apply_records
from siltstone.metadata.commands import CreateTopic, TakeNumbers, TrimStream
from siltstone.metadata.entities import JobState, ObjectMetadata, PartitionMetadata, ScanPin
from siltstone.metadata.image import ImageDraft, MetadataImage
from siltstone.metadata.records import (
    JobFinished,
    JobForgotten,
    JobRenewed,
    JobStarted,
    KeyRemoved,
    KeySet,
    LogMoved,
    NodeRegistered,
    NumbersTaken,
    ObjectCommitted,
    ObjectsDestroyed,
    ObjectsForgotten,
    ObjectsPrepared,
    PartitionsAdded,
    ScanPinned,
    ScanUnpinned,
    StreamClosed,
    StreamCreated,
    StreamForgotten,
    StreamOpened,
    StreamsAdvanced,
    StreamTrimmed,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from siltstone.model.objects import ObjectKind, ObjectState
from support.metadata.metadata_records import TOPIC_ID
from support.metadata.metadata_world import MetadataWorld, next_image, object_range

OTHER_ID = "f" * 32


@pytest.fixture
def world() -> MetadataWorld:
    """Stream 0 [0, 50) trimmed to 20; SSO 0 [0, 40), SO 1 [40, 50); topic t with streams 1 and 2; number 7 is next."""
    made = MetadataWorld()
    made.register(0)
    made.open_stream()
    made.do(made.upload((0, 0, 40)))
    made.do(made.upload(alone=((0, 40, 50),)))
    made.do(TrimStream(0, 1, 0, 0, 20))
    made.do(CreateTopic(0, 1, "t", TOPIC_ID, 1))
    made.do(TakeNumbers("s", 7))
    return made


def test_the_version_counts_entries_not_records() -> None:
    assert next_image(MetadataImage(version=4), [KeySet("a", b""), KeySet("b", b"")]).version == 5


def test_offsets_never_move_back(world) -> None:
    """With any records in the log (AutoMQ #2040)."""
    back = next_image(world.image, [StreamTrimmed(0, 10), StreamsAdvanced(((0, 45),))])
    stream = back.streams[0]
    assert (stream.start_offset, stream.end_offset) == (20, 50)
    assert stream.owner_ranges == world.image.streams[0].owner_ranges


def test_destroying_takes_the_ranges_out_at_once(world) -> None:
    after = next_image(world.image, [ObjectsDestroyed((0,), 5)])
    assert [held.object_id for held in after.streams[0].ranges] == [1]
    assert (after.objects[0].ranges, after.objects[0].destroyed_ms) == ((), 5)
    assert dict(after.destroyed) == {0: 5}


def test_an_image_is_not_changed_by_the_next_one(world) -> None:
    before = world.image
    held = before.streams[0].ranges
    next_image(before, [ObjectsDestroyed((0, 1), 5), KeySet("k", b"")])
    assert before.streams[0].ranges is held and len(held) == 2
    assert not before.keys and not before.destroyed


def committed(object_id: int, *ranges) -> ObjectCommitted:
    return ObjectCommitted(object_id, ObjectKind.STREAM_SET_OBJECT, 1, 1, 1, ranges)


def test_an_object_s_row_says_what_has_happened_to_it_and_nothing_else(world) -> None:
    image = next_image(world.image, [ObjectsPrepared(2, 2, 1, 99)])
    waiting = ObjectMetadata(
        object_id=2,
        state=ObjectState.PREPARED,
        bucket_id=1,
        kind=None,
        size_bytes=0,
        deadline_ms=99,
        committed_ms=0,
        destroyed_ms=0,
        data_time_ms=0,
        ranges=(),
    )
    assert (image.objects[2], image.objects[3]) == (waiting, replace(waiting, object_id=3))
    assert (image.next_object_id, dict(image.prepared)) == (4, {2: 99, 3: 99})
    held = object_range(2, 0, 50, 60)
    image = next_image(image, [ObjectCommitted(2, ObjectKind.STREAM_OBJECT, 7, 8, 9, (held,))])
    there = replace(waiting, state=ObjectState.COMMITTED, kind=ObjectKind.STREAM_OBJECT, size_bytes=7)
    there = replace(there, deadline_ms=0, committed_ms=8, data_time_ms=9, ranges=(held,))
    assert (image.objects[2], dict(image.prepared)) == (there, {3: 99})
    assert image.streams[0].ranges[-1] is held
    image = next_image(image, [ObjectsDestroyed((2, 3), 10)])
    gone = replace(there, state=ObjectState.DESTROYED, destroyed_ms=10, ranges=())
    assert image.objects[2] == replace(gone, destroyed_version=image.version)
    assert (dict(image.prepared), dict(image.destroyed)) == ({}, {2: 10, 3: 10})


def test_a_job_s_row_says_when_it_ended_and_how(world) -> None:
    image = next_image(world.image, [JobStarted(4, "sweep", "driver", "all", 5, 60)])
    running = image.jobs[4]
    assert (running.state, running.finished_ms, running.report) == (JobState.RUNNING, 0, "")
    assert (running.started_ms, running.lease_until_ms, image.next_job_id) == (5, 60, 5)
    image = next_image(image, [JobRenewed(4, 70), JobFinished(4, JobState.SUCCEEDED, 65, "well")])
    ended = replace(running, lease_until_ms=70, state=JobState.SUCCEEDED, finished_ms=65, report="well")
    assert image.jobs[4] == ended


def test_numbers_once_given_out_are_not_given_out_by_a_record_with_lower_ids(world) -> None:
    image = next_image(world.image, [ObjectsPrepared(10, 2, 0, 9), StreamCreated(20, {})])
    assert (image.next_object_id, image.next_stream_id) == (12, 21)
    image = next_image(image, [ObjectsPrepared(7, 1, 0, 9), StreamCreated(17, {})])
    assert (image.next_object_id, image.next_stream_id) == (12, 21)


def test_a_node_has_no_log_until_it_opens_a_stream(world) -> None:
    image = next_image(world.image, [NodeRegistered(5, 3, "first", False, "wal")])
    assert image.nodes[5].log_epoch == 0
    image = next_image(image, [StreamCreated(9, {}), StreamOpened(9, 0, 5)])
    assert image.nodes[5].log_epoch == 3
    image = next_image(image, [NodeRegistered(5, 4, "second", False, "wal")])
    assert image.nodes[5].log_epoch == 3


def test_sr28_a_draft_of_several_entries_notes_the_version_of_each() -> None:
    draft = ImageDraft(MetadataImage(version=4))
    entries = [
        [ScanPinned("q", 9, "a query"), ObjectsPrepared(0, 2, 0, 99)],
        [ObjectsDestroyed((0,), 5)],
        [ScanPinned("q", 11), ScanPinned("r", 12), ObjectsDestroyed((1,), 5)],
    ]
    for draft.version, records in enumerate(entries, start=5):
        apply_records(draft, records)
    image = draft.frozen(draft.version)
    assert dict(image.pins) == {"q": ScanPin("q", 5, 11, "a query"), "r": ScanPin("r", 7, 12)}
    assert [image.objects[object_id].destroyed_version for object_id in (0, 1)] == [6, 7]
    assert not next_image(image, [ScanUnpinned("q"), ScanUnpinned("r")]).pins


def topic_created(topic_id: str, name: str, *partitions: PartitionMetadata) -> TopicCreated:
    return TopicCreated(topic_id, name, partitions, {}, 1, 1, False)


def test_a_topic_s_configuration_is_what_the_record_says(world) -> None:
    records = [TopicConfigured(TOPIC_ID, {"a": "1", "b": "2"}), TopicConfigured(TOPIC_ID, {"c": "3"})]
    assert next_image(world.image, records).topics[TOPIC_ID].configs == {"c": "3"}


def test_a_name_leads_to_its_topic_as_long_as_there_is_one(world) -> None:
    after = next_image(world.image, [TopicDeleted(TOPIC_ID), topic_created(OTHER_ID, "t")])
    assert dict(after.topic_ids) == {"t": OTHER_ID}
    assert set(after.topics) == {OTHER_ID}


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([StreamClosed(7)], id="a stream that is not there"),
        pytest.param([StreamsAdvanced(((7, 1),))], id="the end of one that is not there"),
        pytest.param([StreamForgotten(0)], id="forgetting a stream that was never deleted"),
        pytest.param([committed(0, object_range(0, 0, 50, 60))], id="committing twice"),
        pytest.param([committed(9, object_range(9, 0, 50, 60))], id="committing what was never prepared"),
        pytest.param(
            [ObjectsPrepared(2, 1, 0, 9), committed(2, object_range(2, 0, 39, 40))], id="an overlap before"
        ),
        pytest.param(
            [ObjectsPrepared(2, 1, 0, 9), ObjectsDestroyed((0,), 1), committed(2, object_range(2, 0, 0, 41))],
            id="an overlap after",
        ),
        pytest.param([ObjectsDestroyed((0,), 1), ObjectsDestroyed((0,), 1)], id="destroying twice"),
        pytest.param([ObjectsForgotten((0,))], id="forgetting an object in use"),
        pytest.param([KeyRemoved("k")], id="removing a key that is not there"),
        pytest.param([JobRenewed(0, 1)], id="renewing a job that is not there"),
        pytest.param([JobForgotten(0)], id="forgetting a job that is not there"),
        pytest.param([topic_created(TOPIC_ID, "other")], id="a topic id twice"),
        pytest.param([topic_created(OTHER_ID, "t")], id="a topic's name twice"),
        pytest.param(
            [topic_created(OTHER_ID, "other", PartitionMetadata(0, 9))], id="a topic without its stream"
        ),
        pytest.param(
            [PartitionsAdded(TOPIC_ID, (PartitionMetadata(9, 0),))], id="a partition without its stream"
        ),
        pytest.param([PartitionsAdded(OTHER_ID, ())], id="partitions of no topic"),
        pytest.param([TopicConfigured(OTHER_ID, {})], id="configs of no topic"),
        pytest.param([TopicDeleted(OTHER_ID)], id="deleting a topic that is not there"),
        pytest.param([NumbersTaken("s", 7)], id="numbers taken before"),
        pytest.param([ScanUnpinned("q")], id="ending a pin that does not stand"),
    ],
)
def test_rule_8_a_record_that_does_not_fit_is_corruption(world, records) -> None:
    with pytest.raises(RecordContradictsImage, match="restore"):
        apply_records(ImageDraft(world.image), records)


def test_a_log_that_was_moved_cannot_be_read_and_names_the_new_one() -> None:
    with pytest.raises(MetadataMoved, match=r"was moved to postgresql://there; name that log"):
        apply_records(ImageDraft(MetadataImage()), [LogMoved("postgresql://there")])
