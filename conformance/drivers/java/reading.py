"""Scenarios of reading: where a consumer begins, what it skips, how it waits."""

import time

from conformance.drivers.java.clients import (
    JavaScenario,
    assign,
    consumer,
    nothing_comes,
    poll,
    read,
    read_from,
    records,
    refused,
    values_of,
)
from conformance.drivers.payloads import START_MS
from conformance.drivers.scenario import Scenario, holds, same, values
from oracles.java_clients import JavaClients


def earliest_latest(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.filled(10)
    with consumer(scenario, clients, "-early") as early:
        early.subscribe([topic])
        same("from the earliest", values_of(read(clients, early, 10)), values(0, range(10)))
    with consumer(scenario, clients, "-late") as late:
        assigned = assign(clients, late, topic, begin=False)
        late.seekToEnd(assigned)
        same("the end", late.position(assigned[0]), 10)
        nothing_comes(clients, late)
        scenario.ask("fill", topic=topic, count=5, first=10)
        same("from the latest", values_of(read(clients, late, 5)), values(0, range(10, 15)))


def seek_offset(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.filled(100)
    with consumer(scenario, clients, max_poll_records=1) as reader:
        (partition,) = assign(clients, reader, topic)
        for offset in (60, 3, 99):
            reader.seek(partition, offset)
            (record,) = read(clients, reader, 1)
            same(f"at {offset}", (record.offset, record.value), (offset, b"0-%d" % offset))
            same("position", reader.position(partition), offset + 1)


def seek_time(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.filled(100, first_timestamp_ms=START_MS, step_ms=10)
    with consumer(scenario, clients) as reader:
        (partition,) = assign(clients, reader, topic)

        def found(stamp: int) -> tuple[int, int] | None:
            long = clients.machine.classes.java.lang.Long.valueOf(str(stamp))
            place = reader.offsetsForTimes(clients.machine.hash_map({partition: long}))[partition]
            return (place.offset(), place.timestamp()) if place else None

        for after, wanted in ((-5, 0), (500, 50), (501, 51)):
            same(f"found for {after} ms", found(START_MS + after), (wanted, START_MS + 10 * wanted))
        same("after the last", found(START_MS + 5_000), None)
        reader.seek(partition, found(START_MS + 333)[0])  # type: ignore[index]
        same("first read", read(clients, reader, 1)[0].timestamp_ms, START_MS + 340)


def out_of_range(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.filled(10)
    with consumer(scenario, clients) as reader:
        (partition,) = assign(clients, reader, topic)
        reader.seek(partition, 1_000)
        same("with earliest", values_of(read(clients, reader, 10)), values(0, range(10)))
    with consumer(scenario, clients, auto_offset_reset="none") as reader:
        (partition,) = assign(clients, reader, topic, begin=False)
        reader.seek(partition, 1_000)
        refused("OffsetOutOfRangeException", lambda: read(clients, reader, 1))


def small_fetches(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.topic(2)
    payloads = [bytes([number]) * 50_000 for number in range(10)]
    with clients.producer({"linger.ms": 0}) as sender:
        for payload in payloads:
            for partition in range(2):
                clients.send(sender, topic, records([payload], partition))
    got = read_from(scenario, clients, topic, 20, 2, max_partition_fetch_bytes=1_000, fetch_max_bytes=1_000)
    for partition in range(2):
        mine = [record.value for record in got if record.partition == partition]
        holds(f"records of {partition} are not whole or not in order", mine == payloads)


def pause_resume(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.filled(5, 2)
    with consumer(scenario, clients) as reader:
        first, _ = assign(clients, reader, topic, 2)
        read(clients, reader, 10)
        reader.pause([first])
        for partition in range(2):
            scenario.ask("fill", topic=topic, count=5, partition=partition, first=5)
        same("while 0 is paused", values_of(read(clients, reader, 5)), values(1, range(5, 10)))
        nothing_comes(clients, reader)
        reader.resume([first])
        same("resumed", values_of(read(clients, reader, 5)), values(0, range(5, 10)))


def pattern(scenario: Scenario, clients: JavaClients) -> None:
    topics = [scenario.topic(suffix="-a"), scenario.topic(suffix="-b")]
    for topic in topics:
        scenario.ask("fill", topic=topic, count=3)
    with consumer(scenario, clients, metadata_max_age_ms=500) as reader:
        reader.subscribe(clients.machine.classes.java.util.regex.Pattern.compile(f"^{scenario.name}-[a-z]$"))
        same("topics", {record.topic for record in read(clients, reader, 6)}, set(topics))
        reader.commitSync()
        later = scenario.topic(suffix="-c")
        scenario.ask("fill", topic=later, count=3)
        same("topics made later", {record.topic for record in read(clients, reader, 3)}, {later})


def read_committed(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.filled(20)
    got = read_from(scenario, clients, topic, 20, isolation_level="read_committed")
    same("values", values_of(got), values(0, range(20)))


def long_idle(scenario: Scenario, clients: JavaClients) -> None:
    """The broker closes idle connections: those of a consumer that is not polled, and of a producer."""
    topic = scenario.topic()
    with clients.producer() as sender, consumer(scenario, clients) as reader:
        clients.send(sender, topic, records([b"before"]))
        assign(clients, reader, topic)
        same("before", values_of(read(clients, reader, 1)), [b"before"])
        time.sleep(3)
        clients.send(sender, topic, records([b"after"]))
        same("after", values_of(read(clients, reader, 1)), [b"after"])
        same("more", poll(clients, reader), [])


SCENARIOS: dict[str, JavaScenario] = {
    "earliest_latest": earliest_latest, "seek_offset": seek_offset, "seek_time": seek_time,
    "out_of_range": out_of_range, "small_fetches": small_fetches, "pause_resume": pause_resume, "pattern": pattern,
    "read_committed": read_committed, "long_idle": long_idle,
}  # fmt: skip
