"""The buckets that an explanation names."""

import pytest

from siltstone.cli.maintain.buckets import buckets_of
from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.entities import (
    ObjectMetadata,
    PartitionMetadata,
    StreamMetadata,
    StreamState,
    TopicMetadata,
)
from siltstone.metadata.image import MetadataImage
from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState


def stream(stream_id: int, *object_ids: int) -> tuple[int, StreamMetadata]:
    ranges = tuple(ObjectRange(stream_id, each, at, at + 1, 10, 0) for at, each in enumerate(object_ids))
    made = StreamMetadata(stream_id, StreamState.CLOSED, 1, 0, 0, len(ranges), (), ranges, {})
    return stream_id, made


def image() -> MetadataImage:
    """Makes topic ``a-1`` of two partitions, and the objects 7, 8 and 9 in the buckets 2, 0 and 1."""
    topic = TopicMetadata(
        "f" * 32, "a-1", (PartitionMetadata(0, 1), PartitionMetadata(2, 3)), {}, 1, 0, False
    )
    objects = [
        (
            each,
            ObjectMetadata(each, ObjectState.COMMITTED, bucket, ObjectKind.STREAM_OBJECT, 9, 0, 0, 0, 0, ()),
        )
        for each, bucket in ((7, 2), (8, 0), (9, 1))
    ]
    return MetadataImage(
        streams=ShardedMap([stream(0, 7, 8), stream(1, 9), stream(2, 7), stream(3)]),
        objects=ShardedMap(objects),
        topics=ShardedMap([(topic.topic_id, topic)]),
        topic_ids=ShardedMap([(topic.name, topic.topic_id)]),
    )


@pytest.mark.parametrize(
    ("name", "buckets"),
    [
        ("object 9", [1]),
        ("object 10", []),
        ("a-1", [0, 2]),
        ("a-1-0", [0, 2]),
        ("a-1-1", [2]),
        ("a-1-2", []),
        ("a", []),
        ("objects", []),
        ("all", []),
    ],
)
def test_by_the_name_of_a_unit(name: str, buckets: list[int]) -> None:
    assert buckets_of(name, image()) == buckets
