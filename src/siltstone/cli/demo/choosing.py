"""Which two streams are read to show what reading costs: the busiest partition of the flights, and the late ones."""

from siltstone.cli.demo.flights import FLIGHTS_TOPIC, LATE_TOPIC
from siltstone.metadata.image import MetadataImage


def busiest_and_quiet(image: MetadataImage) -> dict[str, int]:
    """Topic and partition, as ``flights-3`` → id of its data stream."""
    data = _data_streams(image, FLIGHTS_TOPIC)
    busiest = max(range(len(data)), key=lambda index: image.streams[data[index]].end_offset)
    quiet = _data_streams(image, LATE_TOPIC)
    return {f"{FLIGHTS_TOPIC}-{busiest}": data[busiest], f"{LATE_TOPIC}-0": quiet[0]}


def _data_streams(image: MetadataImage, topic_name: str) -> list[int]:
    topic = image.topics[image.topic_ids[topic_name]]
    return [partition.data_stream_id for partition in topic.partitions]
