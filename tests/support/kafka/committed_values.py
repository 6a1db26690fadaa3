"""What a reader of committed records has got of a topic so far, in the order of the offsets of each partition."""

import time
from collections.abc import Callable, Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.kafka.quiet_client import QUIET

POLL_SECONDS = 0.2
SECONDS_MAX = 120.0
"""A transaction that nobody ends is aborted after ten seconds, and a member that died leaves its group after six."""


class CommittedValues:
    """``all``: key and value of each record. ``explain``: the log of the program that writes them."""

    def __init__(self, servers: str, topic: str, explain: Callable[[], str]) -> None:
        self.all: list[tuple[str | None, str]] = []
        self._explain = explain
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "reader-of-committed-values",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                **QUIET,
            }
        )
        partitions = self._consumer.list_topics(topic, timeout=30).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])

    def __enter__(self) -> "CommittedValues":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def wait_for(self, count: int) -> None:
        """Reads until there are so many. Fails with the explanation."""
        give_up = time.monotonic() + SECONDS_MAX
        while len(self.all) < count:
            assert time.monotonic() < give_up, f"{len(self.all)} of {count}: {self._explain()[-4_000:]}"
            self.read()

    def read(self) -> None:
        try:
            messages = self._consumer.consume(500, POLL_SECONDS)
        except KafkaException:
            return  # the broker is away
        for message in messages:
            if message.error() is None:
                key, value = message.key(), message.value()
                assert value is not None
                self.all.append((None if key is None else key.decode(), value.decode()))

    def read_to_the_end(self) -> None:
        """Reads until nothing more comes: what was written twice would come, too."""
        before = -1
        while before < len(self.all):
            before = len(self.all)
            self.read()

    @property
    def values(self) -> list[str]:
        return [value for _, value in self.all]

    def by_key(self) -> dict[str | None, list[str]]:
        found: dict[str | None, list[str]] = {}
        for key, value in self.all:
            found.setdefault(key, []).append(value)
        return found


def make_topics(servers: str, partitions: Mapping[str, int]) -> None:
    admin = AdminClient({"bootstrap.servers": servers, **QUIET})
    for made in admin.create_topics([NewTopic(name, count) for name, count in partitions.items()]).values():
        made.result(SECONDS_MAX)
