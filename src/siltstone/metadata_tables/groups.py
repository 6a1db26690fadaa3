"""The tables ``groups`` and ``group_lags``: what consumer groups have committed, and what they have left to read. Pure.

The caller says what groups have committed (``Moment.commits``): a broker from its memory, a program without a broker
from the objects of ``__consumer_offsets`` (``commits``). The age of what a group has not read is that of the object in
which it continues, counted from the first upload of its oldest data; a group that continues behind all objects is at
most a minute late, and its lag in seconds is not known.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from siltstone.metadata.lookup import bytes_between, committed_object
from siltstone.metadata.streams import first_holding
from siltstone.metadata_tables.columns import (
    MetadataTable,
    MetadataType,
    computed,
    field,
    time,
    whole,
)
from siltstone.metadata_tables.moment import GroupCommit, Moment


class CommittedLag(msgspec.Struct, frozen=True):
    """The lag of one group in one partition. ``since_ms`` is 0 if the group has read all, or its age is not known."""

    commit: GroupCommit
    start_offset: int
    end_offset: int
    since_ms: int
    size_bytes: int = 0

    @property
    def records(self) -> int:
        return max(0, self.end_offset - max(self.commit.offset, self.start_offset))

    def seconds(self, now_ms: int) -> float | None:
        if not self.records:
            return 0.0
        return max(0, now_ms - self.since_ms) / 1000 if self.since_ms else None


def lags(moment: Moment, topic: str | None = None) -> Iterator[CommittedLag]:
    """Yields the lag of each group in each partition for which it has committed an offset, in the order of groups,
    topics and partitions. Offsets of topics that were deleted since are left out."""
    found = sorted(moment.commits(), key=lambda each: (each.group, each.topic, each.partition))
    for commit in found:
        if topic is not None and commit.topic != topic:
            continue
        there = moment.image.topics.get(moment.image.topic_ids.get(commit.topic, ""))
        if there is None or commit.partition >= len(there.partitions):
            continue
        if commit.committed_ms and commit.committed_ms < there.created_ms:
            continue  # of an earlier topic of the same name
        stream = moment.image.streams.get(there.partitions[commit.partition].data_stream_id)
        if stream is None:
            continue
        end_offset = moment.end_of(stream.stream_id)
        offset = max(commit.offset, stream.start_offset)
        since_ms = 0
        if offset < end_offset:
            at = first_holding(stream.ranges, offset)
            if at < len(stream.ranges):
                metadata = committed_object(moment.image, stream.ranges[at].object_id)
                since_ms = 0 if metadata is None else metadata.data_time_ms
        size_bytes = 0
        if offset < end_offset:
            size_bytes = bytes_between(moment.image, stream.stream_id, offset, end_offset)
        yield CommittedLag(commit, stream.start_offset, end_offset, since_ms, size_bytes)


GROUP_LAGS = MetadataTable(
    "group_lags",
    "What each consumer group has left to read, a row for each partition for which it has committed an offset.",
    (
        field("group", MetadataType.TEXT, "The group.", "commit.group"),
        field("topic", MetadataType.TEXT, "The topic.", "commit.topic"),
        field("partition", MetadataType.PARTITION, "The partition.", "commit.partition"),
        whole("committed_offset", "The offset at which it continues.", "commit.offset"),
        time("committed_at", "When it was committed; null if that is not known.", "commit.committed_ms"),
        whole("start_offset", "The first offset that is kept: records before it were deleted."),
        whole("end_offset", "The offset after the last one that is in objects."),
        whole("lag_records", "How many offsets it has not committed.", "records"),
        whole("lag_bytes", "About how many bytes these have, as stored.", "size_bytes"),
        computed(
            "lag_seconds",
            MetadataType.NUMBER,
            "For how long the data at which it continues is in the store; 0 if all is read, null if not known.",
            lambda moment, row: row.seconds(moment.now_ms),
        ),
        field(
            "metadata",
            MetadataType.TEXT,
            "The text that the client committed with the offset.",
            "commit.metadata",
        ),
    ),
    lags,
)


class _GroupRow(msgspec.Struct, frozen=True):
    group: str
    topics: int
    partitions: int
    lag_records: int
    lag_bytes: int
    lag_seconds: float | None
    committed_ms: int


def _groups(moment: Moment, topic: str | None) -> Iterator[_GroupRow]:
    by_group: defaultdict[str, list[CommittedLag]] = defaultdict(list)
    for each in lags(moment, topic):
        by_group[each.commit.group].append(each)
    for group, held in by_group.items():
        yield _GroupRow(
            group,
            len({each.commit.topic for each in held}),
            len(held),
            sum(each.records for each in held),
            sum(each.size_bytes for each in held),
            _longest(each.seconds(moment.now_ms) for each in held),
            max(each.commit.committed_ms for each in held),
        )


def _longest(seconds: Iterable[float | None]) -> float | None:
    return max((each for each in seconds if each is not None), default=None)


GROUPS = MetadataTable(
    "groups",
    "The consumer groups that have committed an offset of a topic that exists.",
    (
        field("group", MetadataType.TEXT, "The group."),
        whole("topics", "Of how many topics it has committed offsets."),
        whole("partitions", "Of how many partitions."),
        whole("lag_records", "How many offsets it has not committed in these."),
        whole("lag_bytes", "About how many bytes these have, as stored."),
        field(
            "lag_seconds", MetadataType.NUMBER, "The longest of its lags in seconds; null if none is known."
        ),
        time("committed_at", "When it committed last; null if that is not known.", "committed_ms"),
    ),
    _groups,
)
