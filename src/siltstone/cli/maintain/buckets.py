"""Finds the buckets that hold the data of a topic, a partition or an object which an explanation names.

A topic may have the name of another topic's partition, such as ``flights-0``: the name then means the topic.
"""

import re
from collections.abc import Iterator

from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata.image import MetadataImage

_OBJECT = re.compile(r"object (\d+)")
PARTITION = re.compile(r"(.+)-(\d+)")
"""The name of a unit that is a partition."""


def buckets_of(name: str, image: MetadataImage) -> list[int]:
    """Returns the bucket ids in order. ``name`` is the name of a unit, such as ``flights``, ``flights-0`` or ``object
    12``; any other unit has no buckets."""
    found = (image.objects[each] for each in _objects(name, image) if each in image.objects)
    return sorted({bucket_id for each in found for bucket_id in each.bucket_ids})


def _objects(name: str, image: MetadataImage) -> Iterator[int]:
    if named := _OBJECT.fullmatch(name):
        yield int(named[1])
        return
    for stream_id in _data_streams(name, image):
        if (stream := image.streams.get(stream_id)) is not None:
            yield from (held.object_id for held in stream.ranges)


def _data_streams(name: str, image: MetadataImage) -> list[int]:
    if (topic := _topic(name, image)) is not None:
        return [each.data_stream_id for each in topic.partitions]
    if (named := PARTITION.fullmatch(name)) and (topic := _topic(named[1], image)) is not None:
        return [each.data_stream_id for each in topic.partitions[int(named[2]) :][:1]]
    return []


def _topic(name: str, image: MetadataImage) -> TopicMetadata | None:
    return image.topics.get(image.topic_ids.get(name, ""))
