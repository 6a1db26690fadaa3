"""Small images for the views of the console."""

from typing import Any

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
from siltstone.model.segments import ClosedSegment

SSO, SO = ObjectKind.STREAM_SET_OBJECT, ObjectKind.STREAM_OBJECT


class ImageBuilder:
    """Adds topics with one partition each, whose data stream has the ranges that are given."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicMetadata] = {}
        self.streams: dict[int, StreamMetadata] = {}
        self.objects: dict[int, ObjectMetadata] = {}
        self.destroyed: dict[int, int] = {}

    def topic(
        self,
        name: str,
        *ranges: tuple[int, int, int, int],
        start: int = 0,
        segments: tuple[ClosedSegment, ...] = (),
        configs: dict[str, str] | None = None,
        leader: int = 1,
        state: StreamState = StreamState.CLOSED,
        owner: int = 1,
        is_internal: bool = False,
    ) -> "ImageBuilder":
        """``ranges``: object id, start, end and bytes of each."""
        stream_id = len(self.streams)
        held = tuple(ObjectRange(stream_id, each[0], each[1], each[2], each[3], 1_000) for each in ranges)
        end = max((each.end_offset for each in held), default=start)
        tags = {"topic": name, "partition": "0", "kind": "data"}
        self.streams[stream_id] = StreamMetadata(
            stream_id, state, 1, owner, start, end, (), held, tags, segments
        )
        topic_id = f"{stream_id:032x}"
        self.topics[topic_id] = TopicMetadata(
            topic_id,
            name,
            (PartitionMetadata(stream_id, stream_id + 1_000, leader),),
            configs or {},
            1,
            0,
            is_internal,
        )
        for each in held:
            found = self.objects.get(each.object_id)
            others = found.ranges if found is not None else ()
            self.add_object(each.object_id, SSO if others else SO, (*others, each))
        return self

    def add_object(
        self,
        object_id: int,
        kind: ObjectKind | None,
        ranges: tuple[ObjectRange, ...] = (),
        state: ObjectState = ObjectState.COMMITTED,
        destroyed_ms: int = 0,
        destroyed_version: int = 0,
        committed_ms: int = 500,
        size_bytes: int | None = None,
    ) -> "ImageBuilder":
        size = sum(each.size_bytes for each in ranges) if size_bytes is None else size_bytes
        self.objects[object_id] = ObjectMetadata(
            object_id, state, 0, kind, size, 0, committed_ms, destroyed_ms, 0, ranges, destroyed_version
        )
        if state is ObjectState.DESTROYED:
            self.destroyed[object_id] = destroyed_ms
        return self

    def image(self, version: int = 1, **more: Any) -> MetadataImage:
        fields = {
            "version": version,
            "topics": ShardedMap(self.topics.items()),
            "topic_ids": ShardedMap((each.name, each.topic_id) for each in self.topics.values()),
            "streams": ShardedMap(self.streams.items()),
            "objects": ShardedMap(self.objects.items()),
            "destroyed": ShardedMap(self.destroyed.items()),
        }
        return MetadataImage(**(fields | more))  # type: ignore[arg-type]
