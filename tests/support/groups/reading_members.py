"""Members of a group of KIP-848 as threads with librdkafka, which write down what they own and what they have read."""

import threading
import time
from collections.abc import Callable

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

QUIET = {"log_level": 0}


class Ownership(msgspec.Struct, frozen=True):
    """``until`` infinite: still owned."""

    member: str
    partition: int
    since: float
    until: float


class ReadingMember:
    """``records``: (partition, offset) in the order in which they came. ``spans``: what it has owned, and when."""

    def __init__(self, servers: str, topic: str, group: str, name: str) -> None:
        self.name = name
        self.records: list[tuple[int, int]] = []
        self.spans: list[Ownership] = []
        self._owned: dict[int, float] = {}
        self._ends = threading.Event()
        self._consumer = Consumer({
            "bootstrap.servers": servers, "group.id": group, "group.protocol": "consumer", "client.id": name,
            "auto.offset.reset": "earliest", "enable.auto.commit": False, **QUIET,
        })  # fmt: skip
        self._consumer.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        self._thread = threading.Thread(target=self._read, name=name)
        self._thread.start()

    def end(self) -> None:
        self._ends.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), self.name

    def _read(self) -> None:
        try:
            while not self._ends.is_set():
                message = self._consumer.poll(0.1)
                if message is None or message.error() is not None:
                    continue
                self.records.append((message.partition(), message.offset()))
                self._patiently(lambda: self._consumer.commit(asynchronous=True))
        finally:
            self._patiently(self._consumer.commit)
            self._consumer.close()
            self._revoked(self._consumer, [TopicPartition("", number) for number in list(self._owned)])

    def _patiently(self, commit: Callable[..., object]) -> None:
        """A commit that fails is repeated with the next record: the broker may be dead."""
        try:
            commit()
        except KafkaException:
            return

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self._owned[partition.partition] = time.monotonic()

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        now = time.monotonic()
        for partition in partitions:
            since = self._owned.pop(partition.partition, now)
            self.spans.append(Ownership(self.name, partition.partition, since, now))

    @property
    def ownerships(self) -> list[Ownership]:
        open_spans = [
            Ownership(self.name, number, since, float("inf")) for number, since in list(self._owned.items())
        ]
        return self.spans + open_spans


def owned_twice(members: list[ReadingMember]) -> list[tuple[Ownership, Ownership]]:
    """Returns each two members that have owned a partition at the same time."""
    spans = [span for member in members for span in member.ownerships]
    return [
        (one, other)
        for number, one in enumerate(spans)
        for other in spans[number + 1 :]
        if one.partition == other.partition
        and one.member != other.member
        and max(one.since, other.since) < min(one.until, other.until)
    ]
