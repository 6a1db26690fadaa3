import pytest

from siltstone.metadata.applying import RecordContradictsImage, apply_records
from siltstone.metadata.commands import CreateTopic, TakeNumbers, TrimStream
from siltstone.metadata.entities import PartitionMetadata
from siltstone.metadata.image import ImageDraft, MetadataImage
from siltstone.metadata.records import (
    JobForgotten,
    JobRenewed,
    KeyRemoved,
    KeySet,
    NumbersTaken,
    ObjectCommitted,
    ObjectsDestroyed,
    ObjectsForgotten,
    ObjectsPrepared,
    PartitionsAdded,
    StreamClosed,
    StreamForgotten,
    StreamsAdvanced,
    StreamTrimmed,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from siltstone.model.objects import ObjectKind
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
    """Whatever stands in the log (AutoMQ #2040)."""
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
    ],
)
def test_rule_8_a_record_that_does_not_fit_is_corruption(world, records) -> None:
    with pytest.raises(RecordContradictsImage, match="restore"):
        apply_records(ImageDraft(world.image), records)
