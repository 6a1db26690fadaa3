"""Real producers that write to one partition, in transactions and without, and a real consumer that reads it."""

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from siltstone.server.embedded import Broker
from support.kafka.quiet_client import QUIET

SECONDS = 60
LEVELS = {"committed": "read_committed", "uncommitted": "read_uncommitted"}
"""Isolation of a scan → isolation level of a consumer."""


class Writers:
    """Producers with transactions, and one without."""

    def __init__(self, broker: Broker) -> None:
        self._at = {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, **QUIET}
        self._plain = Producer(self._at)
        self._open: dict[str, Producer] = {}
        self._known: dict[str, Producer] = {}
        self._count = 0

    def write(self, topic: str, name: str = "", count: int = 1, key: str | None = None) -> None:
        """Writes records to partition 0, in the transaction of the name; without a name in none."""
        producer = self._transaction(name) if name else self._plain
        for _ in range(count):
            producer.produce(topic, f"{name or 'plain'}-{self._count}", key, partition=0)
            self._count += 1
        assert producer.flush(SECONDS) == 0

    def end(self, name: str, *, commits: bool) -> None:
        producer = self._open.pop(name)
        (producer.commit_transaction if commits else producer.abort_transaction)(SECONDS)

    def fence(self, name: str) -> None:
        """Ends the transaction of the name that another ``Writers`` has left open."""
        Producer({**self._at, "transactional.id": name}).init_transactions(SECONDS)

    def _transaction(self, name: str) -> Producer:
        if name not in self._known:
            self._known[name] = Producer({**self._at, "transactional.id": name})
            self._known[name].init_transactions(SECONDS)
        if name not in self._open:
            self._open[name] = self._known[name]
            self._open[name].begin_transaction()
        return self._open[name]

    @property
    def open_names(self) -> list[str]:
        return list(self._open)


def consumed(broker: Broker, topic: str, isolation: str) -> list[bytes]:
    """The values that a consumer gets up to the end."""
    return [value for _, value in consumed_pairs(broker, topic, isolation)]


def consumed_pairs(broker: Broker, topic: str, isolation: str) -> list[tuple[bytes | None, bytes]]:
    """The keys and values that a consumer gets up to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers, "group.id": "nobody", "enable.partition.eof": True,
            "isolation.level": LEVELS[isolation], **QUIET,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[bytes | None, bytes]] = []
    while (message := consumer.poll(SECONDS)) is not None:
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            break
        found.append((message.key(), message.value()))
    consumer.close()
    return found
