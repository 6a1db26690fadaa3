"""Scenarios of producing: bytes, keys, headers, codecs, timestamps, idempotence, sizes, transactions."""

import threading
import time
from collections.abc import Callable
from typing import Any

from kafka import TopicPartition
from kafka.errors import MessageSizeTooLargeError

from conformance.drivers import exchange
from conformance.drivers.kafka_python.clients import (
    consumer,
    nothing_comes,
    producer,
    read,
    read_from,
    refused,
    send,
    send_values,
    values_of,
)
from conformance.drivers.payloads import (
    FOREVER,
    HEADERS,
    MIB,
    PAIRS,
    codec_values,
    eight_mib,
    numbers,
    plain_payloads,
)
from conformance.drivers.scenario import Scenario, holds, same

CREATE_TIME, LOG_APPEND_TIME = 0, 1


def plain(scenario: Scenario) -> None:
    topic, payloads = scenario.topic(3), plain_payloads()
    with producer(scenario) as sender:
        records = ({"value": value, "partition": number % 3} for number, value in enumerate(payloads))
        acknowledged = send(sender, topic, records)
    got = read_from(scenario, topic, 100, 3)
    for partition in range(3):
        mine = [record for record in got if record.partition == partition]
        same(f"values of {partition}", values_of(mine), payloads[partition::3])
        same(f"offsets of {partition}", [record.offset for record in mine], [*range(len(mine))])
        told = [each.offset for each in acknowledged if each.partition == partition]
        same(f"offsets acknowledged of {partition}", told, [*range(len(mine))])


def keys_and_nulls(scenario: Scenario) -> None:
    topic = scenario.topic()
    with producer(scenario) as sender:
        pairs = PAIRS[:-1]  # kafka-python sends no record that has neither
        send(sender, topic, ({"key": key, "value": value} for key, value in pairs))
    same("records", [(record.key, record.value) for record in read_from(scenario, topic, len(pairs))], pairs)


def headers(scenario: Scenario) -> None:
    topic, wanted = scenario.topic(), [each for each in HEADERS if each[1] is not None]  # it sends no null
    with producer(scenario) as sender:
        send(sender, topic, [{"value": b"x", "headers": wanted}, {"value": b"y"}])
    first, second = read_from(scenario, topic, 2)
    same("headers", list(first.headers), wanted)
    same("no headers", list(second.headers), [])


def codec(name: str) -> Callable[[Scenario], None]:
    def scenario_of_codec(scenario: Scenario) -> None:
        topic = scenario.topic()
        write_codec(scenario, topic, name)
        same("stored", {batch["codec"] for batch in scenario.ask("batches", topic=topic)}, {name})
        same("values", values_of(read_from(scenario, topic, 200)), codec_values())

    return scenario_of_codec


def write_codec(scenario: Scenario, topic: str, name: str) -> None:
    send_values(scenario, topic, codec_values(), compression_type=name)


def create_time(scenario: Scenario) -> None:
    topic, wanted = scenario.topic(configs=FOREVER), [1_000, 1_700_000_000_123, 1_600_000_000_000]
    with producer(scenario) as sender:
        send(sender, topic, ({"value": b"x", "timestamp_ms": stamp} for stamp in wanted))
    got = [(record.timestamp_type, record.timestamp) for record in read_from(scenario, topic, 3)]
    same("timestamps", got, [(CREATE_TIME, stamp) for stamp in wanted])


def log_append_time(scenario: Scenario) -> None:
    topic = scenario.topic(configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    with producer(scenario) as sender:
        (told,) = send(sender, topic, [{"value": b"x", "timestamp_ms": 1_000}])
    (record,) = read_from(scenario, topic, 1)
    same("kind", record.timestamp_type, LOG_APPEND_TIME)
    same("what the producer was told", told.timestamp, record.timestamp)
    holds(f"{record.timestamp} is not now", before <= record.timestamp <= time.time() * 1000)


def acks(scenario: Scenario) -> None:
    for level in (0, 1, "all"):
        topic = scenario.topic(suffix=f"-{level}")
        send_values(scenario, topic, numbers(50), acks=level, enable_idempotence=False)
        same(f"values with acks={level}", values_of(read_from(scenario, topic, 50)), numbers(50))


def idempotence(scenario: Scenario) -> None:
    topic = scenario.topic()
    send_values(scenario, topic, numbers(1000), enable_idempotence=True)
    same("values", values_of(read_from(scenario, topic, 1000)), numbers(1000))
    batches = scenario.ask("batches", topic=topic)
    holds("the batches carry no producer id", all(batch["producer_id"] >= 0 for batch in batches))


def idempotence_restart(scenario: Scenario) -> None:
    """The broker is killed while messages are in flight."""
    topic = scenario.topic()
    with producer(scenario, enable_idempotence=True, linger_ms=1, reconnect_backoff_max_ms=500) as sender:
        send(sender, topic, ({"value": value} for value in numbers(100)))
        killing = threading.Thread(target=lambda: (scenario.ask("kill"), scenario.ask("start")))
        killing.start()
        futures: list[Any] = []
        for value in numbers(1000, 100):
            futures.append(sender.send(topic, value))
            time.sleep(0.001)
        killing.join()
        sender.flush(timeout=40)
        told = [future.get(timeout=1).offset for future in futures]
    same("offsets acknowledged", told, [*range(100, 1100)])
    same("values", values_of(read_from(scenario, topic, 1100)), numbers(1100))


def large(scenario: Scenario) -> None:
    topic, value = scenario.topic(configs={"max.message.bytes": str(9 * MIB)}), eight_mib()
    send_values(scenario, topic, [value, b"next"], max_request_size=9 * MIB, linger_ms=0)
    first, second = read_from(scenario, topic, 2, max_partition_fetch_bytes=10 * MIB)
    holds("8 MiB came back otherwise", first.value == value)
    same("what follows", second.value, b"next")


def too_large(scenario: Scenario) -> None:
    topic = scenario.topic(configs={"max.message.bytes": "100000"})
    refused(MessageSizeTooLargeError, lambda: send_values(scenario, topic, [bytes(200_000)]))
    send_values(scenario, topic, [b"small"])
    same("values", values_of(read_from(scenario, topic, 1)), [b"small"])


def many_partitions(scenario: Scenario) -> None:
    topic = scenario.topic(200)
    with producer(scenario) as sender:
        send(sender, topic, ({"value": b"%d" % number, "partition": number % 200} for number in range(400)))
    got = read_from(scenario, topic, 400, 200)
    found = sorted((record.partition, record.offset, int(record.value)) for record in got)
    same("records", found, [(p, offset, p + 200 * offset) for p in range(200) for offset in range(2)])


def auto_create(scenario: Scenario) -> None:
    send_values(scenario, scenario.name, [b"first"])
    same("values", values_of(read_from(scenario, scenario.name, 1)), [b"first"])


def transactions(scenario: Scenario) -> None:
    topic = scenario.topic()
    with producer(scenario, transactional_id=scenario.name) as sender:
        sender.init_transactions()
        for value in (b"committed", b"aborted", b"after"):
            sender.begin_transaction()
            sender.send(topic, value).get(timeout=10)
            sender.abort_transaction() if value == b"aborted" else sender.commit_transaction()
    with consumer(scenario, isolation_level="read_committed") as reader:
        reader.assign([TopicPartition(topic, 0)])
        same("committed", values_of(read(reader, 2)), [b"committed", b"after"])
        nothing_comes(reader)
    same("uncommitted", values_of(read_from(scenario, topic, 3)), [b"committed", b"aborted", b"after"])


def exchange_write(scenario: Scenario) -> None:
    for partition, name in enumerate(exchange.CODECS):
        with producer(scenario, compression_type=None if name == "none" else name) as sender:
            records = ({"value": value, "partition": partition} for value in codec_values())
            send(sender, scenario.name, records)


def exchange_read(scenario: Scenario) -> None:
    got = read_from(scenario, scenario.name, exchange.RECORDS, len(exchange.CODECS))
    exchange.check_exchange((record.partition, record.value) for record in got)


SCENARIOS = {
    "exchange_write": exchange_write, "exchange_read": exchange_read,
    "plain": plain, "keys_and_nulls": keys_and_nulls, "headers": headers, "create_time": create_time,
    "log_append_time": log_append_time, "acks": acks, "idempotence": idempotence,
    "idempotence_restart": idempotence_restart, "large": large, "too_large": too_large,
    "many_partitions": many_partitions, "auto_create": auto_create, "transactions": transactions,
    **{name: codec(name) for name in ("gzip", "snappy", "lz4", "zstd")},
}  # fmt: skip
PARTLY = {
    "keys_and_nulls": "kafka-python sends no record without key and value",
    "headers": "kafka-python sends no null in a header",
}
