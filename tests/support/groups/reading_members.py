"""Members of a group as threads, of both protocols, with librdkafka, in Java and with franz-go. They write down what
they own and what they have read."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from oracles.go_programs import franz_go_member
from oracles.java_clients import JavaClients

QUIET = {"log_level": 0}


class Ownership(msgspec.Struct, frozen=True):
    """``until`` infinite: still owned."""

    member: str
    partition: int
    since: float
    until: float


class Member:
    """``records``: (partition, offset) in the order in which they came. ``spans``: what it has owned, and when."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.records: list[tuple[int, int]] = []
        self.spans: list[Ownership] = []
        self.owned: dict[int, float] = {}
        self.ends = threading.Event()
        self._thread = threading.Thread(target=self.read, name=name)

    def start(self) -> None:
        self._thread.start()

    def read(self) -> None:
        """Reads until it ``ends``."""
        raise NotImplementedError

    def end(self) -> None:
        self.ends.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), self.name

    def takes(self, partitions: Iterable[int], at: float | None = None) -> None:
        for partition in partitions:
            self.owned[partition] = time.monotonic() if at is None else at

    def gives_up(self, partitions: Iterable[int], at: float) -> None:
        for partition in list(partitions):
            self.spans.append(Ownership(self.name, partition, self.owned.pop(partition, at), at))

    @property
    def ownerships(self) -> list[Ownership]:
        open_spans = [
            Ownership(self.name, number, since, float("inf")) for number, since in list(self.owned.items())
        ]
        return self.spans + open_spans


class ReadingMember(Member):
    def __init__(self, servers: str, topic: str, group: str, name: str, strategy: str | None = None) -> None:
        """``strategy``: that of a member of the classic protocol."""
        super().__init__(name)
        speaks = {"group.protocol": "consumer"}
        if strategy is not None:
            speaks = {"group.protocol": "classic", "partition.assignment.strategy": strategy}
        self._consumer = Consumer({
            "bootstrap.servers": servers, "group.id": group, "client.id": name,
            "auto.offset.reset": "earliest", "enable.auto.commit": False, **speaks, **QUIET,
        })  # fmt: skip
        self._consumer.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        self.start()

    def read(self) -> None:
        try:
            while not self.ends.is_set():
                message = self._consumer.poll(0.1)
                if message is None or message.error() is not None:
                    continue
                self.records.append((message.partition(), message.offset()))
                # Why no commit in the background: librdkafka keeps these while a group rebalances, and sends them after
                # newer ones, with the epoch of then. A partition that the member has had since takes them (KIP-1251).
                self._patiently(lambda: self._consumer.commit(asynchronous=False))
        finally:
            self._patiently(self._consumer.commit)
            self._consumer.close()
            self.gives_up(self.owned, time.monotonic())

    def _patiently(self, commit: Callable[..., object]) -> None:
        """A commit that fails is repeated with the next record: the broker may be dead."""
        try:
            commit()
        except KafkaException:
            return

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.takes(each.partition for each in partitions)

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """What was read is committed before another member goes on behind it."""
        self._patiently(lambda: self._consumer.commit(asynchronous=False))
        self._lost(_, partitions)

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.gives_up((each.partition for each in partitions), time.monotonic())


class JavaReadingMember(Member):
    """Its partitions change only in a poll: what a poll takes away counts until this poll begins, and what it gives
    from its end on."""

    def __init__(
        self, java: JavaClients, topic: str, group: str, name: str, strategy: str | None = None
    ) -> None:
        super().__init__(name)
        self._java, self._topic = java, topic
        speaks = {"group.protocol": "consumer"}
        if strategy is not None:
            speaks = {"group.protocol": "classic", "partition.assignment.strategy": JAVA_STRATEGIES[strategy]}
        self._config = {"group.id": group, "client.id": name, **speaks}
        self.start()

    def read(self) -> None:
        with self._java.consumer(self._config) as consumer:
            consumer.subscribe(self._java.machine.classes.java.util.List.of(self._topic))
            while not self.ends.is_set():
                began = time.monotonic()
                polled = consumer.poll(self._java.machine.milliseconds(200))
                owned = {each.partition() for each in consumer.assignment()}
                self.gives_up(self.owned.keys() - owned, began)
                self.takes(owned - self.owned.keys())
                self.records += [(each.partition(), each.offset()) for each in polled.iterator()]
                with suppress(Exception):  # a commit in a rebalance is refused, and the next one has it
                    consumer.commitSync()
            self.gives_up(set(self.owned), time.monotonic())


class GoReadingMember(Member):
    """A process, which says by the clock of the machine when it takes and gives up partitions."""

    def __init__(self, servers: str, topic: str, group: str, name: str) -> None:
        """Raises GoUnavailable."""
        super().__init__(name)
        words = [str(franz_go_member()), servers, topic, group, name]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._begins_ns = time.time_ns() - time.monotonic_ns()
        self.start()

    def read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, time_ns, of = json.loads(line)
            at = (time_ns - self._begins_ns) / 1e9
            if what == "takes":
                self.takes(of, at)
            elif what == "gives up":
                self.gives_up(of, at)
            else:
                self.records += [(partition, offset) for partition, offset in of]

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        super().end()
        assert self._process.wait(60) == 0, self.name
        assert self._process.stdout is not None
        self._process.stdout.close()


JAVA_STRATEGIES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


def owned_twice(members: Sequence[Member]) -> list[tuple[Ownership, Ownership]]:
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
