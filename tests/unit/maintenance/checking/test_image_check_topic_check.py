"""Images changed by hand: no command makes these contradictions, and they are to be found all the same."""

import pytest
from msgspec.structs import replace

from siltstone.foundation.sharded_map import ShardedMap
from siltstone.maintenance.checking.findings import FindingKind
from siltstone.maintenance.checking.image_check import check_topics
from siltstone.metadata.commands import CreateTopic, DeleteTopic
from siltstone.metadata.entities import PartitionMetadata, StreamState, TopicMetadata
from siltstone.metadata.image import MetadataImage
from support.metadata.metadata_world import MetadataWorld

RED, BLUE = "a" * 32, "b" * 32


@pytest.fixture
def image() -> MetadataImage:
    """Topic red with streams 0 to 3, blue with 4 and 5."""
    world = MetadataWorld()
    world.register(0)
    world.do(CreateTopic(0, 1, "red", RED, 2))
    world.do(CreateTopic(0, 1, "blue", BLUE, 1))
    return world.image


def with_topic(image: MetadataImage, topic: TopicMetadata) -> MetadataImage:
    draft = image.topics.draft()
    draft[topic.topic_id] = topic
    return replace(image, topics=draft.frozen())


def said(image: MetadataImage) -> list[tuple[FindingKind, int | None, str]]:
    return [(each.kind, each.stream_id, each.text) for each in check_topics(image)]


def test_what_commands_make_is_in_order(image) -> None:
    assert said(image) == []


def test_a_deleted_topic_is_not_missed(image) -> None:
    world = MetadataWorld()
    world.image = image
    world.do(DeleteTopic(0, 1, RED))
    assert said(world.image) == []


def test_streams_that_are_gone_or_deleted(image) -> None:
    streams = image.streams.draft()
    del streams[1]
    streams[2] = replace(streams[2], state=StreamState.DELETED)
    assert said(replace(image, streams=streams.frozen())) == [
        (FindingKind.TOPIC_WITHOUT_STREAM, 1, "stream 1, meta stream of partition red-0, does not exist"),
        (FindingKind.TOPIC_WITHOUT_STREAM, 2, "stream 2, data stream of partition red-1, does not exist"),
    ]


@pytest.mark.parametrize(
    ("partition", "text"),
    [
        (
            PartitionMetadata(0, 5),
            "stream 0 is data stream of partition red-0 and data stream of partition blue-0",
        ),
        (
            PartitionMetadata(5, 5),
            "stream 5 is data stream of partition blue-0 and meta stream of partition blue-0",
        ),
    ],
    ids=["of two topics", "twice in one partition"],
)
def test_a_stream_in_two_places(image, partition: PartitionMetadata, text: str) -> None:
    changed = with_topic(image, replace(image.topics[BLUE], partitions=(partition,)))
    ((kind, stream_id, found),) = said(changed)
    assert kind is FindingKind.STREAM_OF_TWO_PARTITIONS
    assert stream_id in (0, 5)
    assert sorted(found.split(" is ")[1].split(" and ")) == sorted(text.split(" is ")[1].split(" and "))


def test_a_name_that_does_not_lead_to_its_topic(image) -> None:
    astray = replace(image, topic_ids=ShardedMap([("red", RED), ("blue", RED)]))
    assert said(astray) == [
        (
            FindingKind.TOPIC_NAME_ASTRAY,
            None,
            f"topic {BLUE} is named blue, but that name does not lead to it",
        )
    ]
