"""What several pages show of a whole store, counted once for all of them, and beside the work of a broker.

Counting 10,000 partitions and 100,000 objects takes a third of a second. So a count is kept for each topic and each
shard of the objects, and only what a newer image has changed is counted again, in turns that leave the event loop to
others. What took long is also kept for longer: counting takes at most COST_SHARE_MAX of the time.
"""

import asyncio

import msgspec

from siltstone.console.views.cluster import moves_of
from siltstone.console.views.objects import ObjectsSummary, ObjectsTally
from siltstone.console.views.topics import TopicCounts, TopicTally
from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import MINUTE_MS, SECOND_MS
from siltstone.offline.topic_streams import topic_defaults
from siltstone.runtime.clock import Clock
from siltstone.runtime.turns import let_others_run
from siltstone.tables.inspecting import TableRow, table_rows

RANGES_PER_TURN = 1_500
"""Ranges of streams, or objects, that are counted in one turn: about a millisecond."""

STREAM_COST = 6
"""A stream costs as much as so many of its ranges."""

COST_SHARE_MAX = 0.02
KEPT_MS_MAX = 15 * SECOND_MS
"""A page is never older than three loads of an open overview."""

GROWTH_MS = MINUTE_MS
"""How long the growth of the last day is kept of a topic that does not change: a thousandth of the day."""

Shard = object


class StoreFacts(msgspec.Struct, frozen=True):
    """``topics`` are sorted by name; ``moves`` as ``moves_of`` returns them; ``oldest``: how many objects are
    committed, and the time of their oldest data."""

    image: MetadataImage
    topics: tuple[TopicCounts, ...]
    objects: ObjectsSummary
    moves: tuple[tuple[str, int, int, int], ...]
    tables: tuple[TableRow, ...]
    oldest: tuple[int, int]


class KeptFacts:
    """The facts of one store. Pages that ask meanwhile wait for the same count."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()
        self._facts: StoreFacts | None = None
        self._kept_until_ms = 0.0
        self._image = MetadataImage()
        self._grown_ms = 0
        self._defaults: dict[str, str] = {}
        self._topics: dict[str, TopicCounts] = {}
        self._changed: dict[str, None] = {}
        self._topic_of: dict[int, str] = {}
        self._tallies: list[tuple[Shard, ObjectsTally]] = []
        self._moves_of: ShardedMap[str, TopicMetadata] | None = None
        self._moves: tuple[tuple[str, int, int, int], ...] = ()
        self._spent = 0

    def forget(self) -> None:
        """The next page counts what has changed, however long the last count took."""
        self._kept_until_ms = 0.0

    async def of(self, image: MetadataImage, now_ms: int) -> StoreFacts:
        async with self._lock:
            began_ms = self._clock.monotonic_ms()
            found = self._facts
            if found is not None and (
                self._is_newest(found, image, now_ms) or began_ms < self._kept_until_ms
            ):
                return found
            found = self._facts = await self._counted(image, now_ms)
            took_ms = self._clock.monotonic_ms() - began_ms
            self._kept_until_ms = self._clock.monotonic_ms() + min(took_ms / COST_SHARE_MAX, KEPT_MS_MAX)
            return found

    def _is_newest(self, found: StoreFacts, image: MetadataImage, now_ms: int) -> bool:
        return found.image is image and now_ms - self._grown_ms < GROWTH_MS

    async def _counted(self, image: MetadataImage, now_ms: int) -> StoreFacts:
        before, self._image = self._image, image
        # A page may give up in the middle: the next count continues with what is left.
        self._changed.update(dict.fromkeys(self._changed_topics(before, image, now_ms)))
        for topic_id in list(self._changed):
            topic = image.topics.get(topic_id)
            if topic is not None:
                self._topics[topic_id] = await self._counted_topic(image, topic, now_ms)
            self._changed.pop(topic_id, None)
        tally = await self._counted_objects(image)
        topics = tuple(sorted(self._topics.values(), key=lambda each: each.name))
        await let_others_run()
        if self._moves_of is None or not image.topics.is_unchanged_from(self._moves_of):
            self._moves_of, self._moves = image.topics, tuple(sorted(moves_of(image.topics.values())))
        await let_others_run()
        names = [each.name for each in topics if each.table_format]
        return StoreFacts(
            image,
            topics,
            tally.summary(image),
            self._moves,
            tuple(table_rows(image, names)),
            (tally.committed, now_ms if tally.oldest_ms is None else tally.oldest_ms),
        )

    def _changed_topics(self, before: MetadataImage, image: MetadataImage, now_ms: int) -> list[str]:
        """Returns the ids of topics to count, and forgets the deleted topics."""
        defaults = dict(topic_defaults(image))
        if not image.topics.is_unchanged_from(before.topics):
            for topic_id, topic in image.topics.changed_from(before.topics):
                self._topics.pop(topic_id, None)
                self._topic_of.update({each.data_stream_id: topic_id for each in topic.partitions})
            gone = set(self._topics) - set(image.topics)
            for topic_id in gone:
                del self._topics[topic_id]
            if gone:
                self._topic_of = {key: value for key, value in self._topic_of.items() if value not in gone}
        if defaults != self._defaults or now_ms - self._grown_ms >= GROWTH_MS:
            self._defaults, self._grown_ms = defaults, now_ms
            return list(image.topics)
        changed = dict.fromkeys(topic_id for topic_id in image.topics if topic_id not in self._topics)
        for stream_id, _ in image.streams.changed_from(before.streams):
            if (of_stream := self._topic_of.get(stream_id)) is not None:
                changed[of_stream] = None
        return list(changed)

    async def _counted_topic(self, image: MetadataImage, topic: TopicMetadata, now_ms: int) -> TopicCounts:
        tally = TopicTally(image, topic, now_ms)
        for partition in topic.partitions:
            stream = image.streams.get(partition.data_stream_id)
            if stream is not None:
                await self._spend(STREAM_COST + len(stream.ranges))
                tally.add(stream)
        return tally.counts(self._defaults)

    async def _counted_objects(self, image: MetadataImage) -> ObjectsTally:
        before, kept = self._tallies, []
        summed = ObjectsTally()
        for number, shard in enumerate(image.objects.shards()):
            known = before[number] if before else (None, summed)
            if known[0] is not shard:
                await self._spend(len(shard))
                known = (shard, ObjectsTally(shard.values()))
            else:
                await self._spend(1)
            kept.append(known)
            summed.add(known[1])
        self._tallies = kept
        return summed

    async def _spend(self, cost: int) -> None:
        self._spent += cost
        if self._spent >= RANGES_PER_TURN:
            self._spent = 0
            await let_others_run()
