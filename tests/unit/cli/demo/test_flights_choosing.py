from siltstone.cli.demo.flights import busiest_and_quiet
from siltstone.metadata.entities import PartitionMetadata, StreamMetadata, TopicMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.streams import StreamState


def topic(name: str, *data_stream_ids: int) -> TopicMetadata:
    partitions = tuple(PartitionMetadata(each, each + 1) for each in data_stream_ids)
    return TopicMetadata(f"id of {name}", name, partitions, {}, 1, 0, False)


def stream(stream_id: int, end_offset: int) -> StreamMetadata:
    return StreamMetadata(stream_id, StreamState.CLOSED, 0, 0, 0, end_offset, (), (), {})


def test_the_busiest_partition_of_the_flights_and_the_late_ones_are_read() -> None:
    ends = {10: 5, 20: 9, 30: 8, 40: 99}
    topics = (topic("flights", 10, 20, 30), topic("late-flights", 40))
    image = MetadataImage(
        streams={stream_id: stream(stream_id, end) for stream_id, end in ends.items()},
        topics={each.topic_id: each for each in topics},
        topic_ids={each.name: each.topic_id for each in topics},
    )
    assert busiest_and_quiet(image) == {"flights-1": 20, "late-flights-0": 40}
