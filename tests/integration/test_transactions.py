"""Transactions of an ordinary client: what is committed is seen as a whole, what is aborted never, and a program that
reads, transforms and writes takes each record once."""

import threading

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import siltstone
from siltstone.server.embedded import Broker
from support.kafka.quiet_client import QUIET

SECONDS = 60


def producer_of(broker: Broker, transactional_id: str, **config: object) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": transactional_id,
            "linger.ms": 0,
            **config,
            **QUIET,
        }
    )
    producer.init_transactions(SECONDS)
    return producer


def committed(broker: Broker, topic: str) -> list[bytes]:
    """What a consumer of committed records finds in all partitions, up to their ends at the call."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    numbers = consumer.list_topics(topic, SECONDS).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
    found, ended = [], set()
    while len(ended) < len(numbers):
        message = consumer.poll(SECONDS)
        assert message is not None, f"nothing came after {found[-3:]}"
        if message.error() is None:
            found.append(message.value())
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF
            ended.add(message.partition())
    consumer.close()
    return found


def topic_of(broker: Broker, name: str, partitions: int) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    for future in admin.create_topics([NewTopic(name, partitions)]).values():
        future.result(SECONDS)
    return name


def write(producer: Producer, topic: str, *values: str, commits: bool = True) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, key=value)
    if commits:
        producer.commit_transaction(SECONDS)
    else:
        producer.abort_transaction(SECONDS)


def test_what_is_committed_is_read_and_what_is_aborted_is_not(siltstone_broker, siltstone_topic):
    producer = producer_of(siltstone_broker, "a-writer")
    write(producer, siltstone_topic, "1", "2")
    write(producer, siltstone_topic, "3", "4", commits=False)
    write(producer, siltstone_topic, "5")
    producer.begin_transaction()
    producer.produce(siltstone_topic, "6")
    producer.flush(SECONDS)
    assert committed(siltstone_broker, siltstone_topic) == [b"1", b"2", b"5"]
    producer.commit_transaction(SECONDS)
    assert committed(siltstone_broker, siltstone_topic) == [b"1", b"2", b"5", b"6"]


def test_tx15_a_second_instance_of_a_program_fences_the_first(siltstone_broker, siltstone_topic):
    first = producer_of(siltstone_broker, "two-instances")
    first.begin_transaction()
    first.produce(siltstone_topic, "of the first")
    first.flush(SECONDS)
    second = producer_of(siltstone_broker, "two-instances")
    write(second, siltstone_topic, "of the second")
    with pytest.raises(KafkaException) as failed:
        first.commit_transaction(SECONDS)
    assert failed.value.args[0].fatal() and failed.value.args[0].code() == KafkaError._FENCED
    assert committed(siltstone_broker, siltstone_topic) == [b"of the second"]


def double(broker: Broker, source: str, target: str, wanted: int, fails_at: int = -1) -> int:
    """Reads numbers, writes twice each, and commits both together; aborts once, after ``fails_at`` numbers. Returns how
    many it has taken over."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "doubling",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **QUIET,
        }
    )
    consumer.subscribe([source])
    producer = producer_of(broker, "doubling")
    taken = 0
    while taken < wanted:
        messages = consumer.consume(10, 1.0)
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, str(2 * int(message.value())))
        if taken <= fails_at < taken + len(messages):
            producer.flush(SECONDS)
            producer.abort_transaction(SECONDS)
            consumer.close()
            return taken
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), SECONDS
        )
        producer.commit_transaction(SECONDS)
        taken += len(messages)
    consumer.close()
    return taken


def test_a_program_that_reads_transforms_and_writes_takes_each_record_once(siltstone_broker):
    source = topic_of(siltstone_broker, "numbers", 2)
    target = topic_of(siltstone_broker, "doubled", 2)
    producer = producer_of(siltstone_broker, "numbers")
    write(producer, source, *map(str, range(50)))
    write(producer, source, *map(str, range(100, 110)), commits=False)
    taken = double(siltstone_broker, source, target, 50, fails_at=20)
    assert 0 < taken < 50
    taken += double(siltstone_broker, source, target, 50 - taken)
    assert taken == 50
    found = sorted(map(int, committed(siltstone_broker, target)))
    assert found == [2 * number for number in range(50)]


def test_tp55_views_and_scans_take_what_is_committed(siltstone_broker, siltstone_topic):
    bootstrap = siltstone_broker.bootstrap_servers
    plain = Producer({"bootstrap.servers": bootstrap, **QUIET})
    plain.produce(siltstone_topic, "plain", key="a")
    assert plain.flush(SECONDS) == 0
    producer = producer_of(siltstone_broker, "keyed")
    write(producer, siltstone_topic, "b")
    write(producer, siltstone_topic, "c", commits=False)
    producer.begin_transaction()
    producer.produce(siltstone_topic, "d", key="d")
    producer.flush(SECONDS)
    with siltstone.KeyedView(bootstrap, siltstone_topic) as view:
        assert dict(view) == {b"a": b"plain", b"b": b"b"}
        producer.commit_transaction(SECONDS)
        view.catch_up(SECONDS)
        assert dict(view) == {b"a": b"plain", b"b": b"b", b"d": b"d"}
    rows = siltstone.scan(siltstone_topic, store=siltstone_broker.folder).to_arrow()
    assert rows.column("value").to_pylist() == [b"plain", b"b", b"d"]


def test_tp34_a_reader_of_committed_records_never_sees_a_part_of_a_transaction(siltstone_broker):
    topic = topic_of(siltstone_broker, "three-parts", 3)
    producer = producer_of(siltstone_broker, "three-parts")
    has_ended = threading.Event()

    def produce() -> None:
        for number in range(60):
            producer.begin_transaction()
            for partition in range(3):
                producer.produce(topic, str(number), partition=partition)
            if number % 5 == 4:
                producer.abort_transaction(SECONDS)
            else:
                producer.commit_transaction(SECONDS)
        has_ended.set()

    writing = threading.Thread(target=produce)
    writing.start()
    consumer = Consumer(
        {
            "bootstrap.servers": siltstone_broker.bootstrap_servers,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
    found: dict[int, list[int]] = {0: [], 1: [], 2: []}
    expected = [number for number in range(60) if number % 5 != 4]
    while any(len(each) < len(expected) for each in found.values()):
        for message in consumer.consume(100, 5.0):
            found[message.partition()].append(int(message.value()))
    writing.join(SECONDS)
    consumer.close()
    assert has_ended.is_set()
    assert found == dict.fromkeys(range(3), expected)
