"""``Moment``: what the tables are made of. An image, the store's time, and what the image does not say: the positions
of groups and the entries of the log. Pure.

What several columns need of the whole image, such as the topic of each stream, is computed once, when it is first
needed.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from siltstone.metadata.entities import StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogEntry

NOTHING_LIVE = 2**63 - 1
"""The live offsets of a deleted stream begin here."""

DATA, META = "data", "meta"


class GroupCommit(msgspec.Struct, frozen=True, gc=False):
    """What a consumer group has committed for a partition. ``committed_ms`` is 0 if it is not known."""

    group: str
    topic: str
    partition: int
    offset: int
    committed_ms: int = 0
    metadata: str = ""


class StreamName(msgspec.Struct, frozen=True, gc=False):
    """The partition of a stream. ``role``: whether it is the data stream or the meta stream."""

    topic: str | None
    partition: int | None
    role: str | None


NO_NAME = StreamName(None, None, None)


class StreamColumns(msgspec.Struct, frozen=True):
    """What a table needs of all streams, as numpy arrays in the order of ``ids``. ``topics`` are numbers of
    ``topic_names``, ``roles`` of ``role_names``; the first name is None. ``partitions`` is -1 where there is none.
    Records of a stream are live from ``live_from`` on."""

    ids: Any
    live_from: Any
    topics: Any
    partitions: Any
    roles: Any
    topic_names: tuple[str | None, ...]
    role_names: tuple[str | None, ...]

    def places(self, stream_ids: Any) -> Any:
        """Returns the places of streams, which exist, in the arrays."""
        return np.searchsorted(self.ids, stream_ids)


Commits = Callable[[], Iterable[GroupCommit]]
Entries = Callable[[], Iterable[tuple[int, LogEntry]]]


def _nothing() -> tuple[()]:
    return ()


class Moment:
    """``commits`` returns the positions of all groups, ``entries`` the entries of the log with their versions.
    ``ends`` has the ends of streams that a caller knows better than the image: a broker knows records that are in no
    object yet."""

    def __init__(
        self,
        image: MetadataImage,
        now_ms: int,
        *,
        commits: Commits = _nothing,
        entries: Entries = _nothing,
        ends: Mapping[int, int] | None = None,
    ) -> None:
        self.image = image
        self.now_ms = now_ms
        self.commits = commits
        self.entries = entries
        self.ends = ends or {}

    @cached_property
    def names(self) -> dict[int, StreamName]:
        """Stream id → partition, for the streams of all topics that exist."""
        found: dict[int, StreamName] = {}
        for topic in self.image.topics.values():
            for number, partition in enumerate(topic.partitions):
                found[partition.data_stream_id] = StreamName(topic.name, number, DATA)
                found[partition.meta_stream_id] = StreamName(topic.name, number, META)
        return found

    def name_of(self, stream_id: int) -> StreamName:
        """Returns the partition of a stream. The streams of a deleted topic have its name in their tags."""
        if (found := self.names.get(stream_id)) is not None:
            return found
        stream = self.image.streams.get(stream_id)
        if stream is None or "topic" not in stream.tags:
            return NO_NAME
        number = stream.tags.get("partition", "")
        return StreamName(
            stream.tags["topic"], int(number) if number.isdigit() else None, stream.tags.get("kind")
        )

    @cached_property
    def columns(self) -> StreamColumns:
        streams = self.image.streams
        ids = sorted(streams)
        topics: dict[str | None, int] = {None: 0}
        roles: dict[str | None, int] = {None: 0}
        rows = np.zeros((4, len(ids)), np.int64)
        for place, stream_id in enumerate(ids):
            stream, name = streams[stream_id], self.name_of(stream_id)
            rows[0, place] = NOTHING_LIVE if stream.state is StreamState.DELETED else stream.start_offset
            rows[1, place] = topics.setdefault(name.topic, len(topics))
            rows[2, place] = -1 if name.partition is None else name.partition
            rows[3, place] = roles.setdefault(name.role, len(roles))
        live_from, of_topic, partitions, of_role = rows
        return StreamColumns(
            np.array(ids, np.int64), live_from, of_topic, partitions, of_role, tuple(topics), tuple(roles)
        )

    def end_of(self, stream_id: int) -> int:
        """Returns the end of a stream as far as it is known."""
        stream = self.image.streams.get(stream_id)
        return max(self.ends.get(stream_id, 0), 0 if stream is None else stream.end_offset)

    def stream_ids_of(self, topic: str) -> list[int]:
        """Returns the streams of a topic, in the order of its partitions; none if there is no such topic."""
        found = self.image.topics.get(self.image.topic_ids.get(topic, ""))
        partitions = () if found is None else found.partitions
        return [each for one in partitions for each in (one.data_stream_id, one.meta_stream_id)]
