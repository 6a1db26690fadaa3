"""A topic as a mapping: of each key the newest value, kept up to date in the background.

What the consumers of a compaction topic do by hand in RocketMQ's article: seek to the beginning, read on, look up. It
reads any topic with keys; on one with ``cleanup.policy=compact`` the beginning is not far away.
"""

from collections.abc import Iterator, Mapping
from threading import Condition, Thread
from types import TracebackType
from typing import Self

import msgspec

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import parse_bootstrap
from siltstone.kafka_client.following import Following
from siltstone.kafka_client.offsets import ends_of
from siltstone.kafka_client.topics import find_topic, partitions_of
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.errors import InvalidRequest, SiltstoneError, Stale, Unavailable
from siltstone.model.limits import GIB, KEYED_VIEW_ENTRY_BYTES
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.randomness import Random, system_randomness

CATCH_UP_SECONDS_MAX = 300.0
CLOSE_SECONDS_MAX = 5.0
"""A fetch waits half a second; only a thread that waits for a lost broker takes longer, and it is a daemon."""


class KeyedViewTooLarge(InvalidRequest):
    """The newest values of all keys take more memory than ``bytes_max``."""


class KeyedViewNotEntered(InvalidRequest):
    """Nothing was read yet: a view is used within ``with``."""


class KeyedViewOutdated(Stale):
    """The topic was made anew: what the view holds is of another one, and it would miss the beginning of this one."""


class NotCaughtUp(Unavailable):
    """The view did not reach the topic's end in time; it goes on trying."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """The newest record of a key."""

    value: bytes
    partition: int
    offset: int
    timestamp_ms: int


class KeyedView(Mapping[bytes, bytes]):
    """``with KeyedView("127.0.0.1:9092", "planes") as view: view[b"N14228"]``

    Entering reads the topic from its beginning to its end as of then; from there on a thread follows it. A record
    without value (a tombstone) removes its key; one without key is passed over. Equal keys belong into one partition,
    where every Kafka producer puts them by itself; of a key that is in several the record that came last counts.

    Looking up and iterating raise what ended the following: KafkaRefusal, CorruptData, KeyedViewTooLarge,
    KeyedViewOutdated, and Unavailable after a minute without a broker. Iteration is over the keys of one moment.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        bytes_max: int = GIB,
        clock: Clock | None = None,
        rng: Random | None = None,
    ) -> None:
        """``bytes_max``: of keys and values together, each entry charged for its objects too."""
        self.topic = topic
        self._cluster = Cluster(
            parse_bootstrap(bootstrap_servers), clock or SystemClock(), rng or system_randomness()
        )
        self._bytes_max = bytes_max
        self._size_bytes = 0
        self._entries: dict[bytes, Entry] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._changed = Condition()
        self._failure: SiltstoneError | None = None
        self._has_begun = False
        self._topic_id: object = None
        self._is_closed = False
        self._thread: Thread | None = None

    def __enter__(self) -> Self:
        try:
            self._begin()
            self.catch_up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """What was read stays readable. Idempotent."""
        self._is_closed = True
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS_MAX)
            self._thread = None
        self._cluster.close()

    # -- looking up

    def __getitem__(self, key: bytes) -> bytes:
        return self.entry(key).value

    def __iter__(self) -> Iterator[bytes]:
        self._refuse_failed()
        with self._changed:
            return iter(list(self._entries))

    def __len__(self) -> int:
        self._refuse_failed()
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<KeyedView of {self.topic}: {len(self._entries):,} keys, {self._size_bytes:,} bytes>"

    def entry(self, key: bytes) -> Entry:
        """With partition, offset and timestamp. Raises KeyError, and TypeError for a text: no key is one."""
        self._refuse_failed()
        _refuse_text(key)
        return self._entries[key]

    @property
    def size_bytes(self) -> int:
        """As ``bytes_max`` counts."""
        return self._size_bytes

    @property
    def positions(self) -> dict[int, int]:
        """By partition: the offset before which everything has been taken in."""
        with self._changed:
            return {where.partition: offset for where, offset in self._positions.items()}

    # -- following

    def catch_up(self, seconds_max: float = CATCH_UP_SECONDS_MAX) -> None:
        """Until everything is taken in that the topic holds now: what was acknowledged before the call is found after
        it. Raises NotCaughtUp, and what ended the following."""
        with Cluster(self._cluster.bootstrap, self._cluster.clock, self._cluster.rng) as asking:
            if find_topic(asking, self.topic).topic_id != self._topic_id:
                self._fail(self._outdated())
            ends = {key: each.end_offset for key, each in ends_of(asking, list(self._positions)).items()}
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or self._has_reached(ends), seconds_max)
            self._refuse_failed()
            if not self._has_reached(ends):
                raise NotCaughtUp(f"{self!r} did not reach the end of its topic within {seconds_max:.0f} s")

    def _has_reached(self, ends: dict[TopicPartition, int]) -> bool:
        return all(self._positions[key] >= end for key, end in ends.items())

    def _begin(self) -> None:
        found = find_topic(self._cluster, self.topic)
        self._topic_id = found.topic_id
        partitions = partitions_of(found)
        ends = ends_of(self._cluster, partitions)
        self._positions = {key: each.start_offset for key, each in ends.items()}
        self._has_begun = True
        self._thread = Thread(target=self._follow, name=f"keyed-view-{self.topic}", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        following = Following(
            self._cluster, lambda _: None, on_positions=self._moved, on_gap=self._forget_before
        )
        try:
            for found in following.records(dict(self._positions)):
                if self._is_closed:
                    return
                if found is not None:
                    self._take(*found)
        except SiltstoneError as failure:
            self._fail(failure)

    def _fail(self, failure: SiltstoneError) -> None:
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def _take(self, where: TopicPartition, record: Record) -> None:
        if record.key is None:
            return
        key = bytes(record.key)
        before = self._entries.get(key)
        if before is not None:
            self._size_bytes -= _charged(key, before)
        if record.value is None:
            self._entries.pop(key, None)
            return
        entry = Entry(bytes(record.value), where.partition, record.offset, record.timestamp_ms)
        self._size_bytes += _charged(key, entry)
        if self._size_bytes > self._bytes_max:
            raise KeyedViewTooLarge(
                f"the newest values of {self.topic} take more than {self._bytes_max:,} bytes: give bytes_max, or keep "
                "them elsewhere"
            )
        with self._changed:
            self._entries[key] = entry

    def _forget_before(self, where: TopicPartition, position: int, resumed: int) -> None:
        """What came between was trimmed before it was read, and told of keys that the view still has: only what the
        topic begins with now is known to be so."""
        if resumed < position:
            raise self._outdated()
        with self._changed:
            for key, entry in list(self._entries.items()):
                if entry.partition == where.partition and entry.offset < resumed:
                    self._size_bytes -= _charged(key, entry)
                    del self._entries[key]

    def _outdated(self) -> KeyedViewOutdated:
        return KeyedViewOutdated(f"{self.topic} was made anew while it was followed: enter a new view of it")

    def _moved(self, positions: Mapping[TopicPartition, int]) -> None:
        with self._changed:
            self._positions.update(positions)
            self._changed.notify_all()

    def _refuse_failed(self) -> None:
        if not self._has_begun:
            raise KeyedViewNotEntered(
                f"{self.topic} is read when the view is entered: with KeyedView(…) as view"
            )
        if self._failure is not None:
            raise self._failure


def _refuse_text(key: object) -> None:
    if isinstance(key, str):
        raise TypeError(f"keys are bytes, such as {key.encode()!r}, not texts")


def _charged(key: bytes, entry: Entry) -> int:
    return len(key) + len(entry.value) + KEYED_VIEW_ENTRY_BYTES
