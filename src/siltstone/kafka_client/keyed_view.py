"""``siltstone.KeyedView``: a topic as a mapping from each key to its newest value, kept up to date by a thread.

The view reads the topic from its beginning and then follows it. It works with any topic that has keys; with
``cleanup.policy=compact`` there is less to read at the beginning.
"""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from threading import Condition, Thread
from types import TracebackType
from typing import Self

import msgspec

from siltstone.kafka_client.client_settings import settings_of_mapping
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import Security, parse_bootstrap
from siltstone.kafka_client.following import Following
from siltstone.kafka_client.offsets import READ_COMMITTED, ends_of
from siltstone.kafka_client.topics import find_topic, partitions_of
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.errors import InvalidRequest, SiltstoneError, Stale, Unavailable
from siltstone.model.limits import GIB, KEYED_VIEW_ENTRY_BYTES
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.randomness import Random, system_randomness

CATCH_UP_SECONDS_MAX = 300.0
CLOSE_SECONDS_MAX = 5.0
"""How long closing waits for the thread. A fetch takes half a second; only a thread that waits for a lost broker takes
longer, and as a daemon thread it does not keep the process alive."""


class KeyedViewTooLarge(InvalidRequest):
    """All keys and their newest values together take more memory than ``bytes_max``."""


class KeyedViewNotEntered(InvalidRequest):
    """The view was used before its ``with`` was entered, which reads the topic."""


class KeyedViewOutdated(Stale):
    """The topic was deleted and created again: the view holds records of the old topic and may have missed the
    beginning of the new one."""


class NotCaughtUp(Unavailable):
    """The view did not reach the end of the topic within the time limit; it continues reading."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """The newest record of a key."""

    value: bytes
    partition: int
    offset: int
    timestamp_ms: int


class SnapshotKey(bytes):
    """A key of ``KeyedView.keys()`` with its value of that moment: Python makes ``dict(view)`` by looking up each key,
    which the thread may have removed since."""

    value: bytes


def _snapshot_key(key: bytes, value: bytes) -> SnapshotKey:
    made = SnapshotKey(key)
    made.value = value
    return made


class KeyedView(Mapping[bytes, bytes]):
    """``with KeyedView("127.0.0.1:9092", "planes") as view: view[b"N14228"]``

    Entering the ``with`` reads the topic from its beginning to its current end; a thread follows it from there. A
    record without a value (a tombstone) removes its key; a record without a key is skipped, and so are those of
    transactions that are not committed. All records of a key
    should be in one partition, as every Kafka producer arranges; if they are in several, the record that was read
    last counts.

    If the thread fails, looking up and iterating raise its error: KafkaRefusal, CorruptData, KeyedViewTooLarge,
    KeyedViewOutdated, and Unavailable after a minute without a broker.

    ``items()``, ``values()``, ``keys()`` and ``dict(view)`` are of one moment, and so is what a loop over the view
    goes through; only ``view[key]`` with a key of a loop may raise KeyError, if the thread has removed it since.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        bytes_max: int = GIB,
        client_config: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        rng: Random | None = None,
    ) -> None:
        """``bytes_max`` limits the memory of all keys and values together, including the Python objects of each
        entry. ``client_config``: how to encrypt, by librdkafka's names, such as ``{"security.protocol": "SSL",
        "ssl.ca.location": "ca.pem"}``; None: as the file says that SILTSTONE_CLIENT_CONFIG names. Raises
        InvalidClientConfig."""
        self.topic = topic
        self._cluster = Cluster(
            parse_bootstrap(bootstrap_servers, "bootstrap_servers"),
            clock or SystemClock(),
            rng or system_randomness(),
            None if client_config is None else Security(settings_of_mapping(client_config, "client_config")),
        )
        self._bytes_max = bytes_max
        self._size_bytes = 0
        self.records_without_key = 0
        """The number of records that were skipped because they have no key."""
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
        """Stops following; the entries that were read remain available. May be called more than once."""
        self._is_closed = True
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS_MAX)
            self._thread = None
        self._cluster.close()

    # -- looking up

    def __getitem__(self, key: bytes) -> bytes:
        if isinstance(key, SnapshotKey):
            self._refuse_failed()
            return key.value
        return self.entry(key).value

    def __contains__(self, key: object) -> bool:
        try:
            self.entry(key)  # type: ignore[arg-type]  # which refuses a text
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[bytes]:
        self._refuse_failed()
        with self._changed:
            return iter(list(self._entries))

    def __len__(self) -> int:
        self._refuse_failed()
        return len(self._entries)

    def keys(self) -> KeysView[bytes]:
        """Returns all keys of one moment. Later changes of the view do not change them; looked up in the view, each has
        its value of that moment."""
        found: dict[bytes, None] = {_snapshot_key(key, value): None for key, value in self.items()}
        return found.keys()

    def items(self) -> ItemsView[bytes, bytes]:
        """Returns all keys and newest values of one moment. Later changes of the view do not change them."""
        return self._snapshot().items()

    def values(self) -> ValuesView[bytes]:
        """Returns all newest values of one moment. Later changes of the view do not change them."""
        return self._snapshot().values()

    def _snapshot(self) -> dict[bytes, bytes]:
        self._refuse_failed()
        with self._changed:
            return {key: entry.value for key, entry in self._entries.items()}

    def __repr__(self) -> str:
        return f"<KeyedView of {self.topic}: {len(self._entries):,} keys, {self._size_bytes:,} bytes>"

    def entry(self, key: bytes) -> Entry:
        """Returns the newest record of a key: value, partition, offset and timestamp. Raises KeyError, and TypeError if
        ``key`` is a str, because keys are bytes."""
        self._refuse_failed()
        _refuse_text(key)
        return self._entries[key]

    @property
    def size_bytes(self) -> int:
        """The memory of all entries, counted as for ``bytes_max``."""
        return self._size_bytes

    @property
    def positions(self) -> dict[int, int]:
        """Partition → its next offset; the view contains everything before it."""
        with self._changed:
            return {where.partition: offset for where, offset in self._positions.items()}

    # -- following

    def catch_up(self, seconds_max: float = CATCH_UP_SECONDS_MAX) -> None:
        """Waits until the view contains every record that was acknowledged, and committed, before this call. Raises
        NotCaughtUp after ``seconds_max``, and the error of the thread if it has failed."""
        following = self._cluster
        with Cluster(following.bootstrap, following.clock, following.rng, following.security) as asking:
            if find_topic(asking, self.topic).topic_id != self._topic_id:
                self._fail(self._outdated())
            ends = {
                key: each.end_offset
                for key, each in ends_of(asking, list(self._positions), READ_COMMITTED).items()
            }
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or self._has_reached(ends), seconds_max)
            self._refuse_failed()
            if not self._has_reached(ends):
                raise NotCaughtUp(
                    f"{self!r} did not reach the end of its topic within {seconds_max:.0f} s: try again"
                )

    def _has_reached(self, ends: dict[TopicPartition, int]) -> bool:
        return all(self._positions[key] >= end for key, end in ends.items())

    def _begin(self) -> None:
        found = find_topic(self._cluster, self.topic)
        self._topic_id = found.topic_id
        partitions = partitions_of(found)
        ends = ends_of(self._cluster, partitions, READ_COMMITTED)
        self._positions = {key: each.start_offset for key, each in ends.items()}
        self._has_begun = True
        self._thread = Thread(target=self._follow, name=f"keyed-view-{self.topic}", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        following = Following(
            self._cluster,
            lambda _: None,
            on_positions=self._moved,
            on_gap=self._forget_before,
            isolation=READ_COMMITTED,
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
            self.records_without_key += 1
            return
        key = bytes(record.key)
        with self._changed:
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
                    f"the keys and newest values of {self.topic} take more than {self._bytes_max:,} bytes: give a "
                    "larger bytes_max, or keep them elsewhere"
                )
            self._entries[key] = entry

    def _forget_before(self, where: TopicPartition, position: int, resumed: int) -> None:
        """Removes the partition's entries before ``resumed``. Records from ``position`` to ``resumed`` were deleted
        before the view read them, and may have replaced or removed these entries. Raises KeyedViewOutdated if the
        topic was created again."""
        if resumed < position:
            raise self._outdated()
        with self._changed:
            for key, entry in list(self._entries.items()):
                if entry.partition == where.partition and entry.offset < resumed:
                    self._size_bytes -= _charged(key, entry)
                    del self._entries[key]

    def _outdated(self) -> KeyedViewOutdated:
        return KeyedViewOutdated(
            f"topic {self.topic} was deleted and created again while the view followed it: make a new view"
        )

    def _moved(self, positions: Mapping[TopicPartition, int]) -> None:
        with self._changed:
            self._positions.update(positions)
            self._changed.notify_all()

    def _refuse_failed(self) -> None:
        if not self._has_begun:
            raise KeyedViewNotEntered(
                f"the view of {self.topic} is empty until it is entered: write with KeyedView(…) as view"
            )
        if self._failure is not None:
            raise self._failure


def _refuse_text(key: object) -> None:
    if isinstance(key, str):
        raise TypeError(f"keys are bytes, such as {key.encode()!r}, not str")


def _charged(key: bytes, entry: Entry) -> int:
    return len(key) + len(entry.value) + KEYED_VIEW_ENTRY_BYTES
