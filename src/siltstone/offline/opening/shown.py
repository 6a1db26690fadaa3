"""Describes an opened store: in one line, and with a table of its topics for notebooks."""

from html import escape
from pathlib import Path

from siltstone.foundation.quantity_words import counted, size_words
from siltstone.foundation.text_tables import html_of
from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata.image import MetadataImage

HEADER = ("topic", "partitions", "offsets", "bytes", "objects")


def store_words(folder: Path, image: MetadataImage) -> str:
    parts = (("topic", image.topics), ("stream", image.streams), ("object", image.objects))
    held = ", ".join(counted(len(those), name) for name, those in parts)
    return f"Store({str(folder)!r}: {held})"


def store_html(folder: Path, image: MetadataImage) -> str:
    """Returns the line and a row for each topic, which counts records and bytes in objects, as stored."""
    rows = topic_rows(image)
    return f"<p>{escape(store_words(folder, image))}</p>" + (html_of(HEADER, rows, "topic") if rows else "")


def topic_rows(image: MetadataImage) -> list[tuple[str, ...]]:
    """Returns the cells of each topic that is not internal, sorted by name."""
    topics = sorted((each for each in image.topics.values() if not each.is_internal), key=lambda it: it.name)
    return [_row(image, each) for each in topics]


def _row(image: MetadataImage, topic: TopicMetadata) -> tuple[str, ...]:
    """Makes the cells of a topic. An object that holds several topics is counted in each of them."""
    streams = [image.streams[each.data_stream_id] for each in topic.partitions]
    ranges = [each for stream in streams for each in stream.ranges]
    return (
        topic.name,
        f"{len(topic.partitions):,}",
        f"{sum(stream.end_offset - stream.start_offset for stream in streams):,}",
        size_words(sum(each.size_bytes for each in ranges)),
        f"{len({each.object_id for each in ranges}):,}",
    )
