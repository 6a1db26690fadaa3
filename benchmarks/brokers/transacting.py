"""Runs transactions as a client in a process of its own, the same for every broker: ``transactions`` starts it with the
address, the topic and a task as JSON, and it prints its answer as JSON.

librdkafka speaks transaction version 1 only: it asks for each partition first. ``Transact`` therefore writes the
requests of version 2 itself, as the Java client does (KIP-890): Produce 12, which adds its partitions, and EndTxn 5.
"""

import sys
import threading
import time

import msgspec
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from benchmarks.brokers.client import STALL_SECONDS, Target
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import Connection, open_connection, parse_bootstrap
from siltstone.kafka_client.producing.transaction import ProducerTransaction
from siltstone.kafka_protocol.batch_header import patch_producer
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from siltstone.kafka_protocol.messages.produce import (
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness

RECORD_BYTES = 100
TIMEOUT_MS = 60_000
PRODUCE_VERSION, END_VERSION = 12, 5
RETRIED = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS)
RETRY_SECONDS = 0.005
LINGER_MS = 5


class Transact(msgspec.Struct, frozen=True, tag="transact"):
    """Commits transactions, each with one record of each partition. ``by_librdkafka``: in transaction version 1."""

    producers: int
    partitions: int
    seconds: float
    by_librdkafka: bool = False


class Copy(msgspec.Struct, frozen=True, tag="copy"):
    """Copies so many records of partition 0 into the topic ``out``, and commits how far it has read for every
    ``records_at_once``: in one transaction with them, or behind them."""

    out: str
    records: int
    records_at_once: int
    in_transactions: bool


class Transacted(msgspec.Struct, frozen=True):
    """``end_ms``: how long each commit took. ``retries``: requests that were told to come again."""

    seconds: float
    end_ms: tuple[float, ...]
    retries: int
    client_cpu_seconds: float


class Copied(msgspec.Struct, frozen=True):
    records: int
    seconds: float
    client_cpu_seconds: float


def main(target_json: str, task_json: str) -> None:
    target = msgspec.json.decode(target_json, type=Target)
    task = msgspec.json.decode(task_json, type=Transact | Copy)
    done = copy(target, task) if isinstance(task, Copy) else transact(target, task)
    print(msgspec.json.encode(done).decode())


class RawTransactions:
    """The transactions of one producer, one after another, on one connection."""

    def __init__(self, target: Target, number: int, partitions: int) -> None:
        (address,) = parse_bootstrap(target.bootstrap)
        clock = SystemClock()
        self._name = f"{target.topic}-{number}"
        with Cluster([address], clock, system_randomness()) as cluster:
            identity = ProducerTransaction(cluster, self._name, TIMEOUT_MS).identity
        self._producer_id, self._epoch = identity.producer_id, identity.epoch
        self._connection: Connection = open_connection(address, clock)
        batch = bytearray(build_batch([Record(timestamp_ms=0, key=None, value=bytes(RECORD_BYTES))]))
        self._batch = batch
        rows = [ProducePartition(index=index, records=batch) for index in range(partitions)]
        self._produce = ProduceRequest(
            transactional_id=self._name,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topics=[ProduceTopic(name=target.topic, partitions=rows)],
        )
        self.retries = 0

    def write(self) -> None:
        """Writes one record to each partition. Each transaction has an epoch of its own, so sequences begin at 0."""
        patch_producer(self._batch, self._producer_id, self._epoch, 0, is_transactional=True)
        while True:
            answer = self._connection.call_in(PRODUCE_VERSION, self._produce, ProduceResponse)
            codes = {row.error_code for topic in answer.topics for row in topic.partitions}
            if codes == {ErrorCode.NONE}:
                return
            assert codes <= {*RETRIED, ErrorCode.NONE}, codes
            self.retries += 1
            time.sleep(RETRY_SECONDS)

    def commit(self) -> None:
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=True,
        )
        while True:
            answer = self._connection.call_in(END_VERSION, request, EndTxnResponse)
            if answer.error_code == ErrorCode.NONE:
                self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
                return
            assert answer.error_code in RETRIED, answer.error_code
            self.retries += 1
            time.sleep(RETRY_SECONDS)


class LibrdkafkaTransactions:
    """The same with librdkafka."""

    def __init__(self, target: Target, number: int, partitions: int) -> None:
        self._topic, self._partitions = target.topic, partitions
        self._producer = Producer({
            "bootstrap.servers": target.bootstrap, "transactional.id": f"{target.topic}-{number}", "linger.ms": 0,
        })  # fmt: skip
        self._producer.init_transactions(STALL_SECONDS)
        self.retries = 0

    def write(self) -> None:
        self._producer.begin_transaction()
        for partition in range(self._partitions):
            self._producer.produce(self._topic, bytes(RECORD_BYTES), partition=partition)
        assert self._producer.flush(STALL_SECONDS) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(STALL_SECONDS)


def transact(target: Target, task: Transact) -> Transacted:
    kind = LibrdkafkaTransactions if task.by_librdkafka else RawTransactions
    producers = [kind(target, number, task.partitions) for number in range(task.producers)]
    end_ms: list[float] = []

    def run(producer: RawTransactions | LibrdkafkaTransactions, until: float) -> None:
        while time.perf_counter() < until:
            producer.write()
            begin = time.perf_counter()
            producer.commit()
            end_ms.append((time.perf_counter() - begin) * 1000)

    begin, cpu = time.perf_counter(), time.process_time()
    threads = [threading.Thread(target=run, args=(each, begin + task.seconds)) for each in producers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu
    return Transacted(seconds, tuple(end_ms), sum(each.retries for each in producers), cpu_seconds)


def copy(target: Target, task: Copy) -> Copied:
    servers = {"bootstrap.servers": target.bootstrap}
    consumer = Consumer({
        **servers, "group.id": f"{task.out}-copier", "enable.auto.commit": False, "auto.offset.reset": "earliest",
    })  # fmt: skip
    settings = {
        **servers, "linger.ms": LINGER_MS, "acks": "all", "enable.idempotence": True,
        "queue.buffering.max.messages": 200_000, "delivery.report.only.error": True,
    }  # fmt: skip
    if task.in_transactions:
        settings["transactional.id"] = task.out
    failures: list[KafkaError] = []
    producer = Producer(settings)
    consumer.assign([TopicPartition(target.topic, 0, 0)])
    producer.list_topics(task.out, STALL_SECONDS)
    if task.in_transactions:
        producer.init_transactions(STALL_SECONDS)
    copied = 0
    begin, cpu = time.perf_counter(), time.process_time()
    while copied < task.records:
        messages = consumer.consume(min(task.records_at_once, task.records - copied), STALL_SECONDS)
        assert messages, "the broker returns nothing"
        if task.in_transactions:
            producer.begin_transaction()
        for message in messages:
            producer.produce(task.out, message.value(), on_delivery=lambda error, _: failures.append(error))
        offsets = consumer.position(consumer.assignment())
        if task.in_transactions:
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), STALL_SECONDS)
            producer.commit_transaction(STALL_SECONDS)
        else:
            assert producer.flush(STALL_SECONDS) == 0
            consumer.commit(offsets=offsets, asynchronous=False)
        copied += len(messages)
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu
    assert not failures, failures[0]
    consumer.close()
    return Copied(copied, seconds, cpu_seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
