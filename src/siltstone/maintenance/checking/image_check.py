"""Checks whether the image contradicts itself. Pure.

Every offset of every stream has to be covered by exactly one range (rule 3), ranges and objects have to name each
other, and each partition has to have streams of its own that exist.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter

from siltstone.maintenance.checking.findings import Finding, FindingKind
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState, TopicMetadata
from siltstone.metadata.image import ImageView
from siltstone.model.objects import ObjectRange, ObjectState


def check_streams(image: ImageView) -> Iterator[Finding]:
    for stream in image.streams.values():
        yield from _check_order(stream)
        yield from _check_objects_exist(stream, image)
        if stream.state is not StreamState.DELETED:
            yield from _check_coverage(stream)


def check_object_ranges(image: ImageView) -> Iterator[Finding]:
    """Checks that the ranges of each committed object are in the lists of their streams."""
    for metadata in image.objects.values():
        if metadata.state is ObjectState.COMMITTED:
            yield from _check_ranges_listed(metadata, image)


def _check_order(stream: StreamMetadata) -> Iterator[Finding]:
    end = 0
    for held in stream.ranges:
        if held.start_offset < end:
            yield Finding(
                FindingKind.RANGES_OVERLAP,
                f"stream {stream.stream_id}: {_span(held)} of object {held.object_id} overlaps what is before it",
                stream_id=stream.stream_id,
                object_id=held.object_id,
            )
        end = max(end, held.end_offset)


def _check_coverage(stream: StreamMetadata) -> Iterator[Finding]:
    """Finds holes in [start offset, end offset). Records that are not committed yet lie beyond the end offset."""
    covered = stream.start_offset
    for held in stream.ranges:
        if held.end_offset <= covered:
            continue
        if held.start_offset > covered:
            yield _hole(stream, covered, held.start_offset)
        covered = held.end_offset
    if covered < stream.end_offset:
        yield _hole(stream, covered, stream.end_offset)


def _check_objects_exist(stream: StreamMetadata, image: ImageView) -> Iterator[Finding]:
    for held in stream.ranges:
        metadata = image.objects.get(held.object_id)
        if metadata is None or metadata.state is not ObjectState.COMMITTED:
            yield _not_in_object(held, "which is not committed")
        elif not _contains(metadata.ranges, held, "stream_id"):
            yield _not_in_object(held, "whose own ranges do not say so")


def _check_ranges_listed(metadata: ObjectMetadata, image: ImageView) -> Iterator[Finding]:
    for held in metadata.ranges:
        stream = image.streams.get(held.stream_id)
        if stream is None:
            yield _unlisted(
                FindingKind.STREAM_MISSING, held, "which the metadata does not know and no record deleted"
            )
        elif not _contains(stream.ranges, held, "start_offset"):
            yield _unlisted(FindingKind.RANGE_NOT_LISTED, held, "whose list does not have it")


def _contains(ranges: Sequence[ObjectRange], held: ObjectRange, sorted_by: str) -> bool:
    """Returns whether the ranges contain ``held``, by binary search: an object's ranges are sorted by stream, a
    stream's by offset."""
    field = attrgetter(sorted_by)
    for at in range(bisect_left(ranges, field(held), key=field), len(ranges)):
        if field(ranges[at]) != field(held):
            return False
        if ranges[at] == held:
            return True
    return False


def _not_in_object(held: ObjectRange, text: str) -> Finding:
    return Finding(
        FindingKind.RANGE_OF_NO_OBJECT,
        f"stream {held.stream_id}: {_span(held)} is said to lie in object {held.object_id}, {text}",
        stream_id=held.stream_id,
        object_id=held.object_id,
    )


def _unlisted(kind: FindingKind, held: ObjectRange, text: str) -> Finding:
    return Finding(
        kind,
        f"object {held.object_id} holds {_span(held)} of stream {held.stream_id}, {text}",
        stream_id=held.stream_id,
        object_id=held.object_id,
    )


def _hole(stream: StreamMetadata, start: int, end: int) -> Finding:
    return Finding(
        FindingKind.OFFSETS_NOT_COVERED,
        f"stream {stream.stream_id}: no object holds [{start}, {end})",
        stream_id=stream.stream_id,
    )


def _span(held: ObjectRange) -> str:
    return f"[{held.start_offset}, {held.end_offset})"


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
    """Yields each stream of a topic: which one it is, in words, and its id."""
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
    """Finds topics whose name leads to another topic, or to none."""
    for topic in image.topics.values():
        if image.topic_ids.get(topic.name) != topic.topic_id:
            yield Finding(
                FindingKind.TOPIC_NAME_ASTRAY,
                f"topic {topic.topic_id} is named {topic.name}, but that name does not lead to it",
            )
