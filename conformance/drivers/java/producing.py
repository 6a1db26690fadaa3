"""Scenarios of producing: bytes, keys, headers, codecs, timestamps, idempotence, sizes, transactions."""

import threading
import time
from typing import Any

from conformance.drivers import exchange
from conformance.drivers.java.clients import (
    JavaScenario,
    assign,
    consumer,
    nothing_comes,
    read,
    read_from,
    records,
    refused,
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
from oracles.java_clients import JavaClients, Record, java_failures


def plain(scenario: Scenario, clients: JavaClients) -> None:
    topic, payloads = scenario.topic(3), plain_payloads()
    sent = [Record(value, partition=number % 3) for number, value in enumerate(payloads)]
    acknowledged = clients.produce(topic, sent)
    got = read_from(scenario, clients, topic, 100, 3)
    for partition in range(3):
        mine = [record for record in got if record.partition == partition]
        same(f"values of {partition}", values_of(mine), payloads[partition::3])
        same(f"offsets of {partition}", [record.offset for record in mine], [*range(len(mine))])
        told = [each.offset for each in acknowledged if each.partition == partition]
        same(f"offsets acknowledged of {partition}", told, [*range(len(mine))])


def keys_and_nulls(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.topic()
    clients.produce(topic, [Record(value, key=key) for key, value in PAIRS])
    same(
        "records", [(each.key, each.value) for each in read_from(scenario, clients, topic, len(PAIRS))], PAIRS
    )


def headers(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.topic()
    clients.produce(topic, [Record(b"x", headers=tuple(HEADERS)), Record(b"y")])
    first, second = read_from(scenario, clients, topic, 2)
    same("headers", list(first.headers), HEADERS)
    same("no headers", second.headers, ())


def codec(name: str) -> JavaScenario:
    def scenario_of_codec(scenario: Scenario, clients: JavaClients) -> None:
        topic = scenario.topic()
        write_codec(clients, topic, name)
        same("stored", {batch["codec"] for batch in scenario.ask("batches", topic=topic)}, {name})
        same("values", values_of(read_from(scenario, clients, topic, 200)), codec_values())

    return scenario_of_codec


def write_codec(clients: JavaClients, topic: str, name: str) -> None:
    clients.produce(topic, records(codec_values()), {"compression.type": name, "linger.ms": 50})


def create_time(scenario: Scenario, clients: JavaClients) -> None:
    topic, wanted = scenario.topic(configs=FOREVER), [1_000, 1_700_000_000_123, 1_600_000_000_000]
    clients.produce(topic, [Record(b"x", timestamp_ms=stamp) for stamp in wanted])
    got = [(each.timestamp_type, each.timestamp_ms) for each in read_from(scenario, clients, topic, 3)]
    same("timestamps", got, [("CreateTime", stamp) for stamp in wanted])


def log_append_time(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.topic(configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    (told,) = clients.produce(topic, [Record(b"x", timestamp_ms=1_000)])
    (record,) = read_from(scenario, clients, topic, 1)
    same("kind", record.timestamp_type, "LogAppendTime")
    same("what the producer was told", told.timestamp_ms, record.timestamp_ms)
    holds(f"{record.timestamp_ms} is not now", before <= record.timestamp_ms <= time.time() * 1000)


def acks(scenario: Scenario, clients: JavaClients) -> None:
    for level in ("0", "1", "all"):
        topic = scenario.topic(suffix=f"-{level}")
        clients.produce(topic, records(numbers(50)), {"acks": level, "enable.idempotence": "false"})
        same(f"values with acks={level}", values_of(read_from(scenario, clients, topic, 50)), numbers(50))


def idempotence(scenario: Scenario, clients: JavaClients) -> None:
    """A Java producer is idempotent by default."""
    topic = scenario.topic()
    clients.produce(topic, records(numbers(300)))
    same("values", values_of(read_from(scenario, clients, topic, 300)), numbers(300))
    batches = scenario.ask("batches", topic=topic)
    holds("the batches carry no producer id", all(batch["producer_id"] >= 0 for batch in batches))


def idempotence_restart(scenario: Scenario, clients: JavaClients) -> None:
    """The broker is killed while messages are in flight."""
    topic = scenario.topic()
    with clients.producer({"reconnect.backoff.max.ms": 500, "linger.ms": 0}) as sender:
        clients.send(sender, topic, records(numbers(100)))
        killing = threading.Thread(target=lambda: (scenario.ask("kill"), scenario.ask("start")))
        killing.start()
        told: list[Any] = []
        for first in range(100, 400, 20):
            told += clients.send(sender, topic, records(numbers(20, first)))
        killing.join()
        told += clients.send(sender, topic, records(numbers(20, 400)))
    same("offsets acknowledged", [each.offset for each in told], [*range(100, 420)])
    same("values", values_of(read_from(scenario, clients, topic, 420)), numbers(420))


def large(scenario: Scenario, clients: JavaClients) -> None:
    topic, value = scenario.topic(configs={"max.message.bytes": str(9 * MIB)}), eight_mib()
    clients.produce(topic, records([value, b"next"]), {"max.request.size": 9 * MIB})
    first, second = read_from(scenario, clients, topic, 2, max_partition_fetch_bytes=10 * MIB)
    holds("8 MiB came back otherwise", first.value == value)
    same("what follows", second.value, b"next")


def too_large(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.topic(configs={"max.message.bytes": "100000"})
    refused("RecordTooLargeException", lambda: clients.produce(topic, records([bytes(200_000)])))
    clients.produce(topic, records([b"small"]))
    same("values", values_of(read_from(scenario, clients, topic, 1)), [b"small"])


def many_partitions(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.topic(200)
    clients.produce(topic, [Record(b"%d" % number, partition=number % 200) for number in range(400)])
    got = read_from(scenario, clients, topic, 400, 200)
    found = sorted((record.partition, record.offset, int(record.value or b"-1")) for record in got)
    same("records", found, [(p, offset, p + 200 * offset) for p in range(200) for offset in range(2)])


def auto_create(scenario: Scenario, clients: JavaClients) -> None:
    clients.produce(scenario.name, records([b"first"]))
    same("values", values_of(read_from(scenario, clients, scenario.name, 1)), [b"first"])


def transactions(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.topic()
    with clients.producer({"transactional.id": scenario.name}) as sender, java_failures():
        sender.initTransactions()
        for value in (b"committed", b"aborted", b"after"):
            sender.beginTransaction()
            clients.send(sender, topic, records([value]))
            sender.abortTransaction() if value == b"aborted" else sender.commitTransaction()
    with consumer(scenario, clients, isolation_level="read_committed") as reader:
        assign(clients, reader, topic)
        same("committed", values_of(read(clients, reader, 2)), [b"committed", b"after"])
        nothing_comes(clients, reader)
    every = read_from(scenario, clients, topic, 3)
    same("uncommitted", values_of(every), [b"committed", b"aborted", b"after"])


def exchange_write(scenario: Scenario, clients: JavaClients) -> None:
    for partition, name in enumerate(exchange.CODECS):
        configs = {"compression.type": name, "linger.ms": 50}
        clients.produce(scenario.name, records(codec_values(), partition), configs)


def exchange_read(scenario: Scenario, clients: JavaClients) -> None:
    got = read_from(scenario, clients, scenario.name, exchange.RECORDS, len(exchange.CODECS))
    exchange.check_exchange((record.partition, record.value) for record in got)


SCENARIOS: dict[str, JavaScenario] = {
    "exchange_write": exchange_write, "exchange_read": exchange_read,
    "plain": plain, "keys_and_nulls": keys_and_nulls, "headers": headers, "create_time": create_time,
    "log_append_time": log_append_time, "acks": acks, "idempotence": idempotence,
    "idempotence_restart": idempotence_restart, "large": large, "too_large": too_large,
    "many_partitions": many_partitions, "auto_create": auto_create, "transactions": transactions,
    **{name: codec(name) for name in ("gzip", "snappy", "lz4", "zstd")},
}  # fmt: skip
