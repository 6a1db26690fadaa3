"""Transactional producers of librdkafka that write until they fail, again and again, and what readers of committed
records find of it.

A transaction is one number, once in each of three partitions, and the number as the offset of a group. Its outcome is
known if the producer was told; if a broker died meanwhile, both are right.

Librdkafka #5511, #5456: version 2.16 may wait for ever in send_offsets_to_transaction, whatever time-out it is given.
It drops a broker that Metadata no longer lists, and may still wait for that one to come back as the coordinator of the
group; another connection that changes its state wakes it up. So a program that does not move on is abandoned, as an
operator would restart it, and the next instance fences it.
"""

import random
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from support.kafka.quiet_client import QUIET as QUIET_CLIENT

TOPIC, PARTITIONS = "numbers", 3
SECONDS = 60
HANGS_AFTER = 30
"""Seconds; a call of a program may take SECONDS, and a failover ten. To abandon one too early is no fault."""

QUIET = {**QUIET_CLIENT, "reconnect.backoff.max.ms": 100, "metadata.recovery.strategy": "none"}
"""Else a client looks for its broker again after up to ten seconds; and librdkafka 2.16, which drops all brokers when
none is there, may then wait in send_offsets_to_transaction for the one that it has dropped."""


class Writer:
    """One transactional id. ``outcomes``: number → committed, aborted or (None) not known. ``abandoned``: so many
    programs did not move on."""

    def __init__(self, servers: str, name: str, seed: int, first: int) -> None:
        self.group = f"group-{name}"
        self.outcomes: dict[int, bool | None] = {}
        self._servers, self.name = servers, name
        self._rng = random.Random(seed)
        self._next = first
        self._instance = 0
        self._moved = 0.0
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self.abandoned = 0
        self.failures: list[BaseException] = []
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def end(self) -> None:
        self._is_over.set()
        self.thread.join(2 * SECONDS)
        assert not self.thread.is_alive()
        assert self.failures == []

    def _run(self) -> None:
        while not self._is_over.is_set():
            ended = threading.Event()
            self._moved = time.monotonic()
            threading.Thread(target=self._run_instance, args=(self._instance, ended), daemon=True).start()
            while not ended.wait(0.1):
                if time.monotonic() - self._moved > HANGS_AFTER:
                    self.abandoned += 1
                    break
            with self._lock:
                self._instance += 1

    def _run_instance(self, instance: int, ended: threading.Event) -> None:
        try:
            self._write_until_it_fails(instance)
        except BaseException as failure:
            self.failures.append(failure)
        finally:
            ended.set()

    def _goes_on(self, instance: int) -> bool:
        return instance == self._instance and not self._is_over.is_set()

    def _write_until_it_fails(self, instance: int) -> None:
        """An instance of the program: it begins with ``init_transactions``, which ends what the last one left open."""
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": self.name,
                "transaction.timeout.ms": 60_000,
                "linger.ms": 0,
                **QUIET,
            }
        )
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": self.group, **QUIET})
        try:
            producer.init_transactions(SECONDS)
            while self._goes_on(instance):
                self._one_transaction(producer, consumer, instance)
        except KafkaException:
            pass
        finally:
            consumer.close()

    def _one_transaction(self, producer: Producer, consumer: Consumer, instance: int) -> None:
        with self._lock:
            if instance != self._instance:
                return
            number, self._next = self._next, self._next + 1
            commits = self._rng.random() < 0.8
            self.outcomes[number] = None
            self._moved = time.monotonic()
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, str(number), partition=partition)
        offset = [TopicPartition(TOPIC, 0, number)]
        producer.send_offsets_to_transaction(offset, consumer.consumer_group_metadata(), SECONDS)
        if commits:
            producer.commit_transaction(SECONDS)
        else:
            producer.flush(SECONDS)  # else librdkafka may wait for messages whose partitions it never adds
            producer.abort_transaction(SECONDS)
        self.outcomes[number] = commits
        self._moved = time.monotonic()


def committed_numbers(servers: str) -> dict[int, list[int]]:
    """What readers of committed records find in each partition, up to its last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(SECONDS)
        assert message is not None
        if message.error() is None:
            found[message.partition()].append(int(message.value()))
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
    consumer.close()
    return found


def refuse_torn(found: dict[int, list[int]], writers: list[Writer]) -> None:
    """``found``: in any order of the writers, but each in its own."""
    for numbers in found.values():
        assert len(set(numbers)) == len(numbers), "a number is there twice"
        assert set(numbers) == set(found[0]), "a transaction is visible in one partition and not in another"
        for writer in writers:
            own = [number for number in numbers if number in writer.outcomes]
            assert own == sorted(own), "the numbers of a writer are not in their order"
    outcomes = {number: outcome for writer in writers for number, outcome in writer.outcomes.items()}
    lost = [number for number, commits in outcomes.items() if commits and number not in found[0]]
    shown = [number for number, commits in outcomes.items() if commits is False and number in found[0]]
    assert (lost, shown) == ([], []), "acknowledged commits are gone, or aborted numbers are shown"


def committed_offset(servers: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, **QUIET})
    (found,) = consumer.committed([TopicPartition(TOPIC, 0)], SECONDS)
    consumer.close()
    return int(found.offset)
