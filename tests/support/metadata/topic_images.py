"""Makes an image with topics whose objects do not exist, for planners, which read nothing else."""

from siltstone.metadata.entities import (
    ObjectMetadata,
    PartitionMetadata,
    StreamMetadata,
    StreamState,
    TopicMetadata,
)
from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState


class TopicImage:
    def __init__(self) -> None:
        self.topics: dict[str, TopicMetadata] = {}
        self.topic_ids: dict[str, str] = {}
        self.streams: dict[int, StreamMetadata] = {}
        self.objects: dict[int, ObjectMetadata] = {}
        self.keys: dict[str, bytes] = {}

    def add(self, name: str, *, partitions: int, objects: int, offsets: int, size_bytes: int) -> None:
        """Adds a topic whose partitions have so many stream objects each, and each object so many offsets."""
        made = [self._partition(objects, offsets, size_bytes) for _ in range(partitions)]
        topic_id = f"{len(self.topics):032x}"
        self.topics[topic_id] = TopicMetadata(topic_id, name, tuple(made), {}, 1, 0, False)
        self.topic_ids[name] = topic_id

    def _partition(self, objects: int, offsets: int, size_bytes: int) -> PartitionMetadata:
        stream_id = len(self.streams)
        ranges = []
        for number in range(objects):
            object_id = len(self.objects)
            start = number * offsets
            ranges.append(ObjectRange(stream_id, object_id, start, start + offsets, size_bytes, 0))
            self.objects[object_id] = ObjectMetadata(
                object_id, ObjectState.COMMITTED, 0, ObjectKind.STREAM_OBJECT, size_bytes, 0, 0, 0, 0, ()
            )
        self.streams[stream_id] = StreamMetadata(
            stream_id, StreamState.CLOSED, 0, 1, 0, objects * offsets, (), tuple(ranges), {}
        )
        return PartitionMetadata(stream_id, stream_id)
