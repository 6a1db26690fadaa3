"""Whether the image contradicts itself about topics: each partition has streams of its own, which exist. Pure."""

from collections.abc import Iterator

from siltstone.maintenance.checking.findings import Finding, FindingKind
from siltstone.metadata.entities import StreamState, TopicMetadata
from siltstone.metadata.image import ImageView


def check_topics(image: ImageView) -> Iterator[Finding]:
    holders: dict[int, str] = {}
    for topic in image.topics.values():
        for place, stream_id in _streams_of(topic):
            yield from _check_stream_exists(image, place, stream_id)
            holder = holders.setdefault(stream_id, place)
            if holder != place:
                yield _shared(stream_id, holder, place)
    yield from _check_names(image)


def _streams_of(topic: TopicMetadata) -> Iterator[tuple[str, int]]:
    """Where each stands, and its id."""
    for number, partition in enumerate(topic.partitions):
        yield f"data stream of partition {topic.name}-{number}", partition.data_stream_id
        yield f"meta stream of partition {topic.name}-{number}", partition.meta_stream_id


def _check_stream_exists(image: ImageView, place: str, stream_id: int) -> Iterator[Finding]:
    stream = image.streams.get(stream_id)
    if stream is None or stream.state is StreamState.DELETED:
        yield Finding(
            FindingKind.TOPIC_WITHOUT_STREAM,
            f"stream {stream_id}, {place}, does not exist",
            stream_id=stream_id,
        )


def _shared(stream_id: int, one: str, other: str) -> Finding:
    return Finding(
        FindingKind.STREAM_OF_TWO_PARTITIONS,
        f"stream {stream_id} is {one} and {other}",
        stream_id=stream_id,
    )


def _check_names(image: ImageView) -> Iterator[Finding]:
    """Two topics of one name, of which the name finds only one."""
    for topic in image.topics.values():
        if image.topic_ids.get(topic.name) != topic.topic_id:
            yield Finding(
                FindingKind.TOPIC_NAME_ASTRAY,
                f"topic {topic.topic_id} is named {topic.name}, but that name does not lead to it",
            )
