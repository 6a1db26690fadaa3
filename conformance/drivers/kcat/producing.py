"""Scenarios of producing: the records that kcat makes of lines and files."""

import json
import time
from collections.abc import Callable

from conformance.drivers import exchange
from conformance.drivers.kcat.program import (
    KcatFailed,
    blocks,
    isolation,
    read,
    read_to_end,
    run,
    running,
    send_files,
    send_lines,
    typed,
    values_of,
)
from conformance.drivers.payloads import MIB, START_MS, codec_values, numbers
from conformance.drivers.scenario import Mismatch, Scenario, holds, same, until


def plain(scenario: Scenario) -> None:
    topic = scenario.topic(3)
    payloads = [bytes([number]) * number + bytes(range(256)) for number in range(30)]
    for partition in range(3):
        send_files(scenario, topic, payloads[partition::3], "-p", str(partition))
    got = read(scenario, topic, 30)
    for partition in range(3):
        mine = [record for record in got if record.partition == partition]
        same(f"values of {partition}", values_of(mine), payloads[partition::3])
        same(f"offsets of {partition}", [record.offset for record in mine], [*range(len(mine))])


def keys_and_nulls(scenario: Scenario) -> None:
    topic = scenario.topic()
    send_lines(scenario, topic, [b"k:v", b"k:", b":v"], "-K:", "-Z")
    send_lines(scenario, topic, [b"v"])
    wanted = [(b"k", b"v"), (b"k", None), (None, b"v"), (None, b"v")]
    same("records", [(record.key, record.value) for record in read(scenario, topic, 4)], wanted)


def headers(scenario: Scenario) -> None:
    topic = scenario.topic()
    send_lines(scenario, topic, [b"x"], "-H", "a=1", "-H", "b=", "-H", "a=2")
    same("headers", read(scenario, topic, 1)[0].headers, "a=1,b=,a=2")


def codec(name: str) -> Callable[[Scenario], None]:
    def scenario_of_codec(scenario: Scenario) -> None:
        topic = scenario.topic()
        lines = [b"%d " % number * 100 for number in range(200)]
        send_lines(scenario, topic, lines, "-X", f"compression.codec={name}", "-X", "linger.ms=100")
        same("stored", {batch["codec"] for batch in scenario.ask("batches", topic=topic)}, {name})
        same("values", values_of(read(scenario, topic, 200)), lines)

    return scenario_of_codec


def create_time(scenario: Scenario) -> None:
    """kcat stamps records with the time of sending. Other timestamps are tried by reading them."""
    topic = scenario.filled(3, first_timestamp_ms=START_MS, step_ms=10)
    before = int(time.time() * 1000)
    send_lines(scenario, topic, [b"now"])
    *given, now = (record.timestamp_ms for record in read(scenario, topic, 4))
    same("timestamps", given, [START_MS, START_MS + 10, START_MS + 20])
    holds(f"{now} is not the time of sending", before <= now <= time.time() * 1000)


def log_append_time(scenario: Scenario) -> None:
    topic = scenario.topic(configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    scenario.ask("fill", topic=topic, count=1, first_timestamp_ms=1_000)
    record = json.loads(run(scenario, "-C", "-q", "-J", "-t", topic, "-o", "beginning", "-c", "1"))
    same("kind", record["tstype"], "logappend")
    holds(f"{record['ts']} is not now", before <= record["ts"] <= time.time() * 1000)


def acks(scenario: Scenario) -> None:
    for level in ("0", "1", "all"):
        topic = scenario.topic(suffix=f"-{level}")
        send_lines(scenario, topic, numbers(50), "-X", f"topic.acks={level}")
        same(f"values with acks={level}", values_of(read(scenario, topic, 50)), numbers(50))


def idempotence(scenario: Scenario) -> None:
    topic = scenario.topic()
    send_lines(scenario, topic, numbers(1000), "-X", "enable.idempotence=true")
    same("values", values_of(read(scenario, topic, 1000)), numbers(1000))
    batches = scenario.ask("batches", topic=topic)
    holds("the batches carry no producer id", all(batch["producer_id"] >= 0 for batch in batches))


def idempotence_restart(scenario: Scenario) -> None:
    topic = scenario.topic()
    options = ("-X", "enable.idempotence=true", "-X", "reconnect.backoff.max.ms=500", "-X", "linger.ms=1")
    with running(scenario, "-P", "-E", "-t", topic, *options) as sender:
        sender.write(typed(blocks(100)))
        until("the first records", lambda: len(read_to_end(scenario, topic)) == 100)
        scenario.ask("kill")
        sender.write(typed(blocks(500, 100)))
        scenario.ask("start")
        sender.write(typed(blocks(100, 600)))
        sender.finish()
    same("values", values_of(read_to_end(scenario, topic)), blocks(700))


def large(scenario: Scenario) -> None:
    topic = scenario.topic(configs={"max.message.bytes": str(9 * MIB)})
    value = bytes(range(256)) * (8 * MIB // 256)
    send_files(scenario, topic, [value], "-X", f"message.max.bytes={9 * MIB}")
    (record,) = read(scenario, topic, 1, "-X", f"fetch.message.max.bytes={9 * MIB}")
    holds("8 MiB came back otherwise", record.value == value)


def too_large(scenario: Scenario) -> None:
    topic = scenario.topic(configs={"max.message.bytes": "100000"})
    try:
        send_files(scenario, topic, [bytes(200_000)])
    except KcatFailed as failed:
        holds(f"not the right error: {failed}", "Message size too large" in str(failed))
    else:
        raise Mismatch("200,000 bytes were taken where 100,000 are allowed")


def many_partitions(scenario: Scenario) -> None:
    topic = scenario.topic(200)
    send_lines(scenario, topic, numbers(2_000), "-p", "-1", "-X", "sticky.partitioning.linger.ms=0")
    got = read_to_end(scenario, topic)
    same("values", sorted(int(record.value or b"-1") for record in got), [*range(2_000)])
    holds("few partitions were written", len({record.partition for record in got}) > 150)


def auto_create(scenario: Scenario) -> None:
    send_lines(scenario, scenario.name, [b"first"])
    same("values", values_of(read(scenario, scenario.name, 1)), [b"first"])


def transactions(scenario: Scenario) -> None:
    """A kcat is killed in its transaction, and the next one with the same transactional id ends it."""
    topic = scenario.topic()
    option = ("-X", f"transactional.id={scenario.name}")
    send_lines(scenario, topic, [b"committed"], *option)
    with running(scenario, "-P", "-t", topic, *option) as sender:
        sender.write(typed(blocks(1)))
        until(
            "what is not committed",
            lambda: len(read_to_end(scenario, topic, *isolation("read_uncommitted"))) == 2,
        )
    send_lines(scenario, topic, [b"after"], *option)
    got = values_of(read_to_end(scenario, topic, *isolation("read_committed")))
    same("committed", got, [b"committed", b"after"])


def exchange_write(scenario: Scenario) -> None:
    for partition, name in enumerate(exchange.CODECS):
        options = ("-p", str(partition), "-X", f"compression.codec={name}", "-X", "linger.ms=100")
        send_lines(scenario, scenario.name, codec_values(), *options)


def exchange_read(scenario: Scenario) -> None:
    got = read_to_end(scenario, scenario.name)
    exchange.check_exchange((record.partition, record.value) for record in got)


SCENARIOS = {
    "exchange_write": exchange_write, "exchange_read": exchange_read, "plain": plain,
    "keys_and_nulls": keys_and_nulls, "headers": headers, "create_time": create_time,
    "log_append_time": log_append_time, "acks": acks, "idempotence": idempotence,
    "idempotence_restart": idempotence_restart, "large": large, "too_large": too_large,
    "many_partitions": many_partitions, "auto_create": auto_create, "transactions": transactions,
    **{name: codec(name) for name in ("gzip", "snappy", "lz4", "zstd")},
}  # fmt: skip
PARTLY = {
    "keys_and_nulls": "kcat sends no empty key beside an absent one",
    "headers": "kcat's headers are text",
    "create_time": "kcat sends its own time only",
}
