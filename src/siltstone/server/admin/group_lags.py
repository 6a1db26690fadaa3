"""The lag of consumer groups: how many records they have not committed, their bytes, and how old the oldest of these
is.

The age is that of the batch in which the group continues. Its timestamp is known exactly while the batch is in the tail
cache; for older batches it is taken from the time index of the partition, which has an entry every few MiB. A partition
that is not open has its newest offset in the metadata, and its batches the time at which their object was first
uploaded. A group that has committed nothing in a topic has no lag there. If it has committed
offsets of some partitions of a topic, the other ones that hold records are counted: its lag there is not known.

A share group lacks the records that it is not done with. The leaders of the partitions know them, so each node looks at
its own open partitions, whichever node coordinates the group.
"""

from collections import Counter
from collections.abc import AsyncIterator
from operator import attrgetter
from typing import TypeAlias

import msgspec

from siltstone.broker.deliveries.steps import start_at
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.offsets_log.record import CommittedOffset
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.parts import BrokerParts
from siltstone.broker.topics.registry import Topic
from siltstone.metadata.lookup import bytes_between, find_ranges
from siltstone.model.errors import SiltstoneError
from siltstone.model.record_batch import NO_TIMESTAMP
from siltstone.model.serving_limits import GROUP_OFFSETS_MAX, GROUP_SERIES_MAX, GROUPS_SHOWN_MAX

OFFSETS_PER_TURN = 20
PARTITIONS_PER_TURN = 200
RANGES_PER_OFFSET = 20
"""The bytes of a longer lag are estimated from its first objects: a look must not hold the event loop."""

Place: TypeAlias = tuple[Topic, int, Partition]
"""A partition of a topic, which is open here."""


class TopicLag(msgspec.Struct, frozen=True):
    """``size_bytes`` as stored. ``partitions_without_commit``: None in a share group, which commits nothing."""

    topic: str
    records: int
    seconds: float
    partitions_without_commit: int | None = 0
    size_bytes: int = 0

    def with_partition(self, records: int, seconds: float, size_bytes: int) -> "TopicLag":
        """Returns the lag with that of another partition."""
        return msgspec.structs.replace(
            self,
            records=self.records + records,
            seconds=max(self.seconds, seconds),
            size_bytes=self.size_bytes + size_bytes,
        )


class GroupLag(msgspec.Struct, frozen=True):
    """``records`` is the sum over the topics. ``state``: empty for a share group that another node coordinates."""

    group: str
    state: str
    members: int
    topics: tuple[TopicLag, ...]
    records: int

    @property
    def series_count(self) -> int:
        of_topics = sum(3 if each.partitions_without_commit is None else 4 for each in self.topics)
        return of_topics + (2 if self.state else 0)


class GroupLags:
    """What the last look has found. ``groups`` are those with series of their own, with the largest lag first;
    ``states`` counts all groups by state, ``omitted`` those without series."""

    def __init__(self, parts: BrokerParts, offsets_max: int = GROUP_OFFSETS_MAX) -> None:
        self._parts = parts
        self._offsets_max = offsets_max
        self.groups: tuple[GroupLag, ...] = ()
        self.states: Counter[str] = Counter()
        self.omitted = 0

    async def look(self) -> AsyncIterator[None]:
        """Looks at all groups that are loaded, and at share groups where this node leads; yields often, so that a
        caller can let other tasks run."""
        states: Counter[str] = Counter()
        found: list[GroupLag] = []
        holding: dict[str, frozenset[int]] = {}
        shared: dict[str, dict[str, TopicLag]] = {}
        async for _ in self._add_shared(shared):
            yield
        offsets_left, known_groups = self._offsets_max, self._parts.groups.known()
        count = len(known_groups)
        for known in known_groups:
            states[known.group.state.value] += 1
            offsets_left -= len(known.offsets) + 1
            if offsets_left < 0:
                continue
            lags = shared.pop(known.group.group_id, {})
            for number, ((name, index), committed) in enumerate(list(known.offsets.items())):
                if number % OFFSETS_PER_TURN == 0:
                    yield
                self._add(lags, name, index, committed)
            async for _ in self._add_unread(lags, set(known.offsets), holding):
                yield
            found.append(_lag_of(known, lags))
            if len(found) == 2 * GROUPS_SHOWN_MAX:
                found = _largest(found)
            yield
        count += len(shared)
        found += [GroupLag(group, "", 0, tuple(lags.values()), _sum(lags)) for group, lags in shared.items()]
        self.groups = tuple(_within_limits(_largest(found)))
        self.states, self.omitted = states, count - len(self.groups)

    async def _add_shared(self, shared: dict[str, dict[str, TopicLag]]) -> AsyncIterator[None]:
        """Adds the lags of share groups in the open partitions of this node, by group and topic. A group whose states
        would be more than may be looked at is left out."""
        places: dict[str, list[Place]] = {}
        for number, ((topic_id, index), partition) in enumerate(self._parts.partitions.all_opened()):
            if number % PARTITIONS_PER_TURN == PARTITIONS_PER_TURN - 1:
                yield
            if partition.is_closed or not len(partition.shares):
                continue
            if (topic := self._parts.topics.by_id(bytes.fromhex(topic_id))) is not None:
                for group in partition.shares.by_group:
                    places.setdefault(group, []).append((topic, index, partition))
        spans_left = self._offsets_max
        for group, theirs in places.items():
            spans_left -= sum(_size(group, partition) for _, _, partition in theirs)
            if spans_left < 0:
                break
            lags = shared[group] = {}
            for number, place in enumerate(theirs):
                if number % OFFSETS_PER_TURN == 0:
                    yield
                self._add_place(lags, group, place)

    def _add_place(self, lags: dict[str, TopicLag], group: str, place: Place) -> None:
        topic, index, partition = place
        known = partition.shares.get(group)
        if partition.is_closed or known is None:
            return  # closed or forgotten meanwhile
        progress = start_at(known.progress, partition.log_start_offset)
        records, seconds, size_bytes = self._lag(topic, index, progress.start_offset)
        left = max(0, records - progress.completed)
        size_bytes = size_bytes * left // max(1, records)
        before = lags.get(topic.name, TopicLag(topic.name, 0, 0.0, None))
        lags[topic.name] = before.with_partition(left, seconds, size_bytes)

    def _add(self, lags: dict[str, TopicLag], name: str, index: int, committed: CommittedOffset) -> None:
        topic = self._parts.topics.by_name(name)
        if topic is None or index >= topic.partition_count or committed.committed_ms < topic.created_ms:
            return  # the offset of a deleted topic
        before = lags.get(name, TopicLag(name, 0, 0.0))
        lags[name] = before.with_partition(*self._lag(topic, index, committed.offset))

    async def _add_unread(
        self, lags: dict[str, TopicLag], committed: set[tuple[str, int]], holding: dict[str, frozenset[int]]
    ) -> AsyncIterator[None]:
        """Counts the partitions without a commit. ``holding`` keeps the partitions with records of each topic, for the
        next groups."""
        for name, lag in list(lags.items()):
            if lag.partitions_without_commit is None:
                continue
            topic = self._parts.topics.by_name(name)
            if topic is None:
                continue  # deleted meanwhile
            if name not in holding:
                found: list[int] = []
                for index in range(topic.partition_count):
                    start, end = self._ends(topic, index)
                    if start < end:
                        found.append(index)
                    if index % PARTITIONS_PER_TURN == PARTITIONS_PER_TURN - 1:
                        yield
                holding[name] = frozenset(found)
            count = sum((name, index) not in committed for index in holding[name])
            lags[name] = msgspec.structs.replace(lag, partitions_without_commit=count)

    def _ends(self, topic: Topic, index: int) -> tuple[int, int]:
        """Returns where the records of a partition begin and end."""
        stream = self._parts.metadata.image.streams.get(topic.metadata.partitions[index].data_stream_id)
        partition = self._parts.partitions.opened(topic.id, index)
        if partition is not None and not partition.is_closed:
            return partition.log_start_offset, partition.high_watermark
        return (stream.start_offset, stream.end_offset) if stream is not None else (0, 0)

    def _lag(self, topic: Topic, index: int, offset: int) -> tuple[int, float, int]:
        """Records, seconds and bytes."""
        stream_id = topic.metadata.partitions[index].data_stream_id
        partition = self._parts.partitions.opened(topic.id, index)
        start, end = self._ends(topic, index)
        offset = max(offset, start)
        if offset >= end:
            return 0, 0.0, 0
        since_ms = self._time_at(partition, stream_id, offset)
        try:
            size_bytes = bytes_between(self._parts.metadata.image, stream_id, offset, end, RANGES_PER_OFFSET)
        except SiltstoneError:  # trimmed or deleted meanwhile
            size_bytes = 0
        return end - offset, 0.0 if since_ms is None else self._age(since_ms), size_bytes

    def _age(self, since_ms: int) -> float:
        return max(0.0, (self._parts.clock.now_ms() - since_ms) / 1000)

    def _time_at(self, partition: Partition | None, stream_id: int, offset: int) -> int | None:
        if partition is not None:
            if (time_ms := _cached_time(partition, offset)) is not None:
                return time_ms
            if (time_ms := partition.times.time_before(offset)) is not None:
                return time_ms
        image = self._parts.metadata.image
        try:
            held = find_ranges(image, stream_id, offset, None, 1)
        except SiltstoneError:  # trimmed or deleted meanwhile
            return None
        return image.objects[held[0].object_id].data_time_ms if held else None


def _size(group: str, partition: Partition) -> int:
    known = partition.shares.get(group)
    return 1 if known is None else 1 + len(known.progress.spans)


def _cached_time(partition: Partition, offset: int) -> int | None:
    try:
        batches = partition.read_cached(offset, 1)
    except SiltstoneError:  # trimmed meanwhile
        return None
    if not batches or batches[0].smallest_timestamp_ms == NO_TIMESTAMP:
        return None
    return batches[0].smallest_timestamp_ms


def _lag_of(known: KnownGroup, lags: dict[str, TopicLag]) -> GroupLag:
    group = known.group
    return GroupLag(group.group_id, group.state.value, len(group.members), tuple(lags.values()), _sum(lags))


def _sum(lags: dict[str, TopicLag]) -> int:
    return sum(each.records for each in lags.values())


def _largest(groups: list[GroupLag]) -> list[GroupLag]:
    return sorted(groups, key=attrgetter("records"), reverse=True)[:GROUPS_SHOWN_MAX]


def _within_limits(groups: list[GroupLag]) -> list[GroupLag]:
    """Returns the first groups whose series have room. A group that has none of its own does not keep a smaller one
    out."""
    shown: list[GroupLag] = []
    series_left = GROUP_SERIES_MAX
    for each in groups:
        if len(shown) < GROUPS_SHOWN_MAX and each.series_count <= series_left:
            series_left -= each.series_count
            shown.append(each)
    return shown
