"""Scenarios of producing: bytes, keys, headers, codecs, timestamps, idempotence, sizes, transactions."""

import threading
import time
from collections.abc import Callable

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaException, TopicPartition

from conformance.drivers import exchange
from conformance.drivers.confluent.clients import consumer, nothing_comes, producer, read, read_from, send
from conformance.drivers.payloads import FOREVER, codec_values
from conformance.drivers.scenario import Mismatch, Scenario, holds, same

MIB = 1 << 20


def plain(scenario: Scenario) -> None:
    topic = scenario.topic(3)
    payloads = [bytes([number]) * number + bytes(range(256)) for number in range(100)]
    records = [{"value": payload, "partition": number % 3} for number, payload in enumerate(payloads)]
    acknowledged = send(producer(scenario), topic, records)
    same("acknowledged", len(acknowledged), 100)
    got = read_from(scenario, topic, 100, 3)
    for partition in range(3):
        mine = [message for message in got if message.partition() == partition]
        same(f"values of {partition}", [message.value() for message in mine], payloads[partition::3])
        same(f"offsets of {partition}", [message.offset() for message in mine], [*range(len(mine))])
        told = [message.offset() for message in acknowledged if message.partition() == partition]
        same(f"offsets acknowledged of {partition}", told, [*range(len(mine))])


def keys_and_nulls(scenario: Scenario) -> None:
    topic = scenario.topic()
    pairs = [(None, b"v"), (b"", b"v"), (b"k\x00", b""), (b"k", None), (None, None)]
    send(producer(scenario), topic, [{"key": key, "value": value} for key, value in pairs])
    same("records", [(got.key(), got.value()) for got in read_from(scenario, topic, len(pairs))], pairs)


def headers(scenario: Scenario) -> None:
    topic = scenario.topic()
    wanted = [("a", b"1"), ("b", b""), ("a", b"\x00\xff"), ("c", None), ("ü", b"2")]
    send(producer(scenario), topic, [{"value": b"x", "headers": wanted}, {"value": b"y"}])
    first, second = read_from(scenario, topic, 2)
    same("headers", first.headers(), wanted)
    same("no headers", second.headers() or [], [])


def codec(name: str) -> Callable[[Scenario], None]:
    def scenario_of_codec(scenario: Scenario) -> None:
        topic = scenario.topic()
        write_codec(scenario, topic, name)
        same("stored", {batch["codec"] for batch in scenario.ask("batches", topic=topic)}, {name})
        same("values", [got.value() for got in read_from(scenario, topic, 200)], codec_values())

    return scenario_of_codec


def write_codec(scenario: Scenario, topic: str, name: str) -> None:
    send(producer(scenario, compression_type=name), topic, [{"value": value} for value in codec_values()])


def create_time(scenario: Scenario) -> None:
    topic = scenario.topic(configs=FOREVER)
    wanted = [1_000, 1_700_000_000_123, 1_600_000_000_000]
    send(producer(scenario), topic, [{"value": b"x", "timestamp": stamp} for stamp in wanted])
    got = [message.timestamp() for message in read_from(scenario, topic, 3)]
    same("timestamps", got, [(TIMESTAMP_CREATE_TIME, stamp) for stamp in wanted])


def log_append_time(scenario: Scenario) -> None:
    topic = scenario.topic(configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    send(producer(scenario), topic, [{"value": b"x", "timestamp": 1_000}])
    kind, stamp = read_from(scenario, topic, 1)[0].timestamp()
    same("kind", kind, TIMESTAMP_LOG_APPEND_TIME)
    holds(f"{stamp} is not now", before <= stamp <= time.time() * 1000)


def acks(scenario: Scenario) -> None:
    for level in (0, 1, "all"):
        topic = scenario.topic(suffix=f"-{level}")
        send(producer(scenario, acks=level), topic, [{"value": b"%d" % number} for number in range(50)])
        got = [message.value() for message in read_from(scenario, topic, 50)]
        same(f"values with acks={level}", got, [b"%d" % number for number in range(50)])


def idempotence(scenario: Scenario) -> None:
    topic = scenario.topic()
    send(
        producer(scenario, enable_idempotence=True),
        topic,
        [{"value": b"%d" % number} for number in range(1000)],
    )
    same(
        "values", [got.value() for got in read_from(scenario, topic, 1000)], [b"%d" % n for n in range(1000)]
    )
    batches = scenario.ask("batches", topic=topic)
    holds("the batches carry no producer id", all(batch["producer_id"] >= 0 for batch in batches))


def idempotence_restart(scenario: Scenario) -> None:
    """The broker is killed while messages are in flight."""
    topic = scenario.topic()
    sender = producer(scenario, enable_idempotence=True, linger_ms=1, reconnect_backoff_max_ms=500)
    send(sender, topic, [{"value": b"%d" % number} for number in range(100)])
    killing = threading.Thread(target=lambda: (scenario.ask("kill"), scenario.ask("start")))
    killing.start()
    for number in range(100, 1100):
        sender.produce(topic, b"%d" % number)
        sender.poll(0.001)
    killing.join()
    same("messages left", sender.flush(40), 0)
    send(sender, topic, [{"value": b"last"}])
    wanted = [b"%d" % number for number in range(1100)] + [b"last"]
    same("values", [got.value() for got in read_from(scenario, topic, len(wanted))], wanted)


def large(scenario: Scenario) -> None:
    topic = scenario.topic(configs={"max.message.bytes": str(9 * MIB)})
    value = bytes(range(256)) * (8 * MIB // 256)
    send(producer(scenario, message_max_bytes=9 * MIB), topic, [{"value": value}, {"value": b"next"}])
    first, second = read_from(scenario, topic, 2, fetch_message_max_bytes=10 * MIB, fetch_max_bytes=20 * MIB)
    holds("8 MiB came back otherwise", first.value() == value)
    same("what follows", second.value(), b"next")


def too_large(scenario: Scenario) -> None:
    topic = scenario.topic(configs={"max.message.bytes": "100000"})
    try:
        send(producer(scenario), topic, [{"value": bytes(200_000)}])
    except KafkaException as refused:
        same("error", refused.args[0].name(), "MSG_SIZE_TOO_LARGE")
    else:
        raise Mismatch("200,000 bytes were taken where 100,000 are allowed")
    send(producer(scenario), topic, [{"value": b"small"}])
    same("values", [got.value() for got in read_from(scenario, topic, 1)], [b"small"])


def many_partitions(scenario: Scenario) -> None:
    topic = scenario.topic(200)
    send(
        producer(scenario),
        topic,
        [{"value": b"%d" % number, "partition": number % 200} for number in range(400)],
    )
    got = read_from(scenario, topic, 400, 200)
    found = sorted((message.partition(), message.offset(), int(message.value())) for message in got)
    same("records", found, [(p, offset, p + 200 * offset) for p in range(200) for offset in range(2)])


def auto_create(scenario: Scenario) -> None:
    send(producer(scenario), scenario.name, [{"value": b"first"}])
    same("values", [got.value() for got in read_from(scenario, scenario.name, 1)], [b"first"])


def transactions(scenario: Scenario) -> None:
    topic = scenario.topic()
    sender = producer(scenario, transactional_id=scenario.name)
    sender.init_transactions(20)
    for value in (b"committed", b"aborted", b"after"):
        sender.begin_transaction()
        sender.produce(topic, value)
        sender.flush(10)
        sender.abort_transaction(10) if value == b"aborted" else sender.commit_transaction(10)
    reader = consumer(scenario, isolation_level="read_committed")
    reader.assign([TopicPartition(topic, 0, 0)])
    same("committed", [message.value() for message in read(reader, 2)], [b"committed", b"after"])
    nothing_comes(reader)
    reader.close()
    every = read_from(scenario, topic, 3, isolation_level="read_uncommitted")
    same("uncommitted", [message.value() for message in every], [b"committed", b"aborted", b"after"])


def exchange_write(scenario: Scenario) -> None:
    for partition, name in enumerate(exchange.CODECS):
        records = ({"value": value, "partition": partition} for value in codec_values())
        send(producer(scenario, compression_type=name), scenario.name, records)


def exchange_read(scenario: Scenario) -> None:
    got = read_from(scenario, scenario.name, exchange.RECORDS, len(exchange.CODECS))
    exchange.check_exchange((message.partition(), message.value()) for message in got)


SCENARIOS = {
    "exchange_write": exchange_write, "exchange_read": exchange_read,
    "plain": plain, "keys_and_nulls": keys_and_nulls, "headers": headers, "create_time": create_time,
    "log_append_time": log_append_time, "acks": acks, "idempotence": idempotence,
    "idempotence_restart": idempotence_restart, "large": large, "too_large": too_large,
    "many_partitions": many_partitions, "auto_create": auto_create, "transactions": transactions,
    **{name: codec(name) for name in ("gzip", "snappy", "lz4", "zstd")},
}  # fmt: skip
