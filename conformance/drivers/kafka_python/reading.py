"""Scenarios of reading: where a consumer begins, what it skips, how it waits."""

import time
from functools import partial

from kafka import TopicPartition
from kafka.errors import OffsetOutOfRangeError

from conformance.drivers.kafka_python.clients import (
    consumer,
    nothing_comes,
    producer,
    read,
    read_from,
    refused,
    send,
    values_of,
)
from conformance.drivers.payloads import START_MS
from conformance.drivers.scenario import Scenario, holds, same, values


def earliest_latest(scenario: Scenario) -> None:
    topic = scenario.filled(10)
    with consumer(scenario, "-early") as early:
        early.subscribe([topic])
        same("from the earliest", values_of(read(early, 10)), values(0, range(10)))
    with consumer(scenario, "-late") as late:
        partition = TopicPartition(topic, 0)
        late.assign([partition])
        late.seek_to_end(partition)
        same("the end", late.position(partition), 10)
        nothing_comes(late)
        scenario.ask("fill", topic=topic, count=5, first=10)
        same("from the latest", values_of(read(late, 5)), values(0, range(10, 15)))


def seek_offset(scenario: Scenario) -> None:
    topic = scenario.filled(100)
    with consumer(scenario) as reader:
        reader.assign([TopicPartition(topic, 0)])
        for offset in (60, 3, 99):
            reader.seek(TopicPartition(topic, 0), offset)
            (record,) = read(reader, 1)
            same(f"at {offset}", (record.offset, record.value), (offset, b"0-%d" % offset))
            same("position", reader.position(TopicPartition(topic, 0)), offset + 1)


def seek_time(scenario: Scenario) -> None:
    topic = scenario.filled(100, first_timestamp_ms=START_MS, step_ms=10)
    partition = TopicPartition(topic, 0)
    with consumer(scenario) as reader:
        for stamp, wanted in (
            (START_MS - 5, (0, START_MS)),
            (START_MS + 500, (50, START_MS + 500)),
            (START_MS + 501, (51, START_MS + 510)),
        ):
            found = reader.offsets_for_times({partition: stamp})[partition]
            same(f"found for {stamp - START_MS} ms", (found.offset, found.timestamp), wanted)
        same("after the last", reader.offsets_for_times({partition: START_MS + 5_000})[partition], None)
        reader.assign([partition])
        reader.seek(partition, reader.offsets_for_times({partition: START_MS + 333})[partition].offset)
        same("first read", read(reader, 1)[0].timestamp, START_MS + 340)


def out_of_range(scenario: Scenario) -> None:
    topic = scenario.filled(10)
    partition = TopicPartition(topic, 0)
    with consumer(scenario) as reader:
        reader.assign([partition])
        reader.seek(partition, 1_000)
        same("with earliest", values_of(read(reader, 10)), values(0, range(10)))
    with consumer(scenario, auto_offset_reset="none") as reader:
        reader.assign([partition])
        reader.seek(partition, 1_000)
        refused(OffsetOutOfRangeError, lambda: read(reader, 1))


def small_fetches(scenario: Scenario) -> None:
    topic = scenario.topic(2)
    payloads = [bytes([number]) * 50_000 for number in range(10)]
    with producer(scenario, linger_ms=0) as sender:
        for payload in payloads:
            send(sender, topic, ({"value": payload, "partition": partition} for partition in range(2)))
    got = read_from(scenario, topic, 20, 2, max_partition_fetch_bytes=1_000, fetch_max_bytes=1_000)
    for partition in range(2):
        mine = [record.value for record in got if record.partition == partition]
        holds(f"records of {partition} are not whole or not in order", mine == payloads)


def pause_resume(scenario: Scenario) -> None:
    topic = scenario.filled(5, 2)
    both = [TopicPartition(topic, partition) for partition in range(2)]
    with consumer(scenario) as reader:
        reader.assign(both)
        read(reader, 10)
        reader.pause(both[0])
        for partition in range(2):
            scenario.ask("fill", topic=topic, count=5, partition=partition, first=5)
        same("while 0 is paused", values_of(read(reader, 5)), values(1, range(5, 10)))
        nothing_comes(reader)
        reader.resume(both[0])
        same("resumed", values_of(read(reader, 5)), values(0, range(5, 10)))


def pattern(scenario: Scenario) -> None:
    """A poll that ends while the group is joined anew because of a new topic loses the assignment: kafka-python 3.0.12
    then no longer sees that it has to join. So each poll here may take long."""
    read_all = partial(read, poll_ms=10_000)
    topics = [scenario.topic(suffix="-a"), scenario.topic(suffix="-b")]
    for topic in topics:
        scenario.ask("fill", topic=topic, count=3)
    with consumer(scenario, metadata_max_age_ms=500) as reader:
        reader.subscribe(pattern=f"^{scenario.name}-[a-z]$")
        same("topics", {record.topic for record in read_all(reader, 6)}, set(topics))
        reader.commit()
        later = scenario.topic(suffix="-c")
        scenario.ask("fill", topic=later, count=3)
        same("topics made later", {record.topic for record in read_all(reader, 3)}, {later})


def read_committed(scenario: Scenario) -> None:
    topic = scenario.filled(20)
    got = read_from(scenario, topic, 20, isolation_level="read_committed")
    same("values", values_of(got), values(0, range(20)))


def long_idle(scenario: Scenario) -> None:
    """Tries idle connections. The broker closes a connection on which nothing is sent, such as that of a producer, or
    of a consumer that is not polled."""
    topic = scenario.topic()
    with producer(scenario) as sender, consumer(scenario) as reader:
        send(sender, topic, [{"value": b"before"}])
        reader.assign([TopicPartition(topic, 0)])
        same("before", values_of(read(reader, 1)), [b"before"])
        time.sleep(3)
        send(sender, topic, [{"value": b"after"}])
        same("after", values_of(read(reader, 1)), [b"after"])


SCENARIOS = {
    "earliest_latest": earliest_latest, "seek_offset": seek_offset, "seek_time": seek_time,
    "out_of_range": out_of_range, "small_fetches": small_fetches, "pause_resume": pause_resume, "pattern": pattern,
    "read_committed": read_committed, "long_idle": long_idle,
}  # fmt: skip
