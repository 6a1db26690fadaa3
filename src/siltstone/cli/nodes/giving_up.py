"""``siltstone nodes give-up``: where the partitions of a node continue without its write-ahead log, and giving that
up."""

from collections.abc import Iterator

import msgspec
from rich.console import RenderableType

from siltstone.cli.output import table
from siltstone.cli.words import cell, count_words
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import GiveUpLog
from siltstone.metadata.entities import NodeMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.runtime.randomness import random_token, system_randomness

SHOWN_MAX = 100
"""Rows of the table; the rest is counted. JSON has all."""


class GivenUpEnd(msgspec.Struct, frozen=True):
    """The offset at which a partition continues, or a stream of no topic: ``offset`` is the first one that is given out
    again."""

    topic: str | None
    partition: int | None
    stream_id: int
    offset: int


def given_up_ends(image: MetadataImage, node_id: int) -> list[GivenUpEnd]:
    """Returns the ends of all streams that the node left open, sorted by topic and partition; those of no topic are
    last. A partition whose meta stream alone is open is among them."""
    opened = {
        stream.stream_id: stream
        for stream in image.streams.values()
        if stream.owner == node_id and stream.state is StreamState.OPENED
    }
    ends = [*_of_partitions(image, frozenset(opened))]
    of_topics = {
        stream_id
        for topic in image.topics.values()
        for partition in topic.partitions
        for stream_id in (partition.data_stream_id, partition.meta_stream_id)
    }
    ends.sort(key=lambda end: (end.topic or "", end.partition or 0))
    ends += (
        GivenUpEnd(None, None, stream_id, opened[stream_id].end_offset)
        for stream_id in sorted(opened.keys() - of_topics)
    )
    return ends


def _of_partitions(image: MetadataImage, opened: frozenset[int]) -> Iterator[GivenUpEnd]:
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if partition.data_stream_id in opened or partition.meta_stream_id in opened:
                stream = image.streams[partition.data_stream_id]
                yield GivenUpEnd(topic.name, index, stream.stream_id, stream.end_offset)


def give_up_log(metadata: MetadataClient, node: NodeMetadata) -> None:
    """Raises the refusals of GiveUpLog."""
    command = GiveUpLog(node.node_id, node.node_epoch, random_token(system_randomness()))
    while metadata.execute(command).opened_streams:
        pass


def ends_table(ends: list[GivenUpEnd]) -> RenderableType:
    shown = table("topic", ">partition", ">continues at offset")
    for end in ends[:SHOWN_MAX]:
        name = cell(end.topic) if end.topic is not None else f"(stream {end.stream_id}, of no topic)"
        shown.add_row(name, "-" if end.partition is None else str(end.partition), count_words(end.offset))
    if len(ends) > SHOWN_MAX:
        shown.add_row(f"and {count_words(len(ends) - SHOWN_MAX)} more", "", "")
    return shown
