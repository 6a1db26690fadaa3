"""Scenarios of reading: where a consumer begins, what it skips, how it waits."""

import time

from confluent_kafka import OFFSET_END, KafkaException, Message, TopicPartition

from conformance.drivers.confluent.clients import consumer, nothing_comes, producer, read, read_from, send
from conformance.drivers.payloads import START_MS
from conformance.drivers.scenario import Scenario, holds, same, values


def plain_values(messages: list[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


def earliest_latest(scenario: Scenario) -> None:
    topic = scenario.filled(10)
    early = consumer(scenario, "-early")
    early.subscribe([topic])
    same("from the earliest", plain_values(read(early, 10)), values(0, range(10)))
    early.close()
    late = consumer(scenario, "-late", auto_offset_reset="latest")
    late.assign([TopicPartition(topic, 0, OFFSET_END)])
    nothing_comes(late)
    for first in range(10, 60, 5):  # where its end is, it looks up in the background
        scenario.ask("fill", topic=topic, count=5, first=first)
        message = late.poll(1)
        if message is not None:
            break
    holds(
        "nothing from the latest",
        message is not None and message.value() in values(0, range(10, first + 5, 5)),
    )
    late.close()


def seek_offset(scenario: Scenario) -> None:
    topic = scenario.filled(100)
    reader = consumer(scenario)
    reader.assign([TopicPartition(topic, 0, 0)])
    read(reader, 1)
    for offset in (60, 3, 99):
        reader.seek(TopicPartition(topic, 0, offset))
        message = read(reader, 1)[0]
        same(f"at {offset}", (message.offset(), message.value()), (offset, values(0, range(100))[offset]))
    reader.close()


def seek_time(scenario: Scenario) -> None:
    topic = scenario.filled(100, first_timestamp_ms=START_MS, step_ms=10)
    reader = consumer(scenario)
    for stamp, wanted in (
        (START_MS - 5, 0),
        (START_MS + 500, 50),
        (START_MS + 501, 51),
        (START_MS + 5_000, OFFSET_END),
    ):
        found = reader.offsets_for_times([TopicPartition(topic, 0, stamp)], 10)[0]
        same(f"offset for {stamp - START_MS} ms", found.offset, wanted)
    reader.assign(reader.offsets_for_times([TopicPartition(topic, 0, START_MS + 333)], 10))
    same("first read", read(reader, 1)[0].timestamp()[1], START_MS + 340)
    reader.close()


def out_of_range(scenario: Scenario) -> None:
    topic = scenario.filled(10)
    for policy, wanted in (("earliest", values(0, range(10))[:1]), ("error", [])):
        reader = consumer(scenario, auto_offset_reset=policy)
        reader.assign([TopicPartition(topic, 0, 1_000)])
        try:
            same(f"with {policy}", plain_values(read(reader, 1)), wanted)
        except KafkaException as refused:
            same(f"error with {policy}", refused.args[0].name(), "_AUTO_OFFSET_RESET")
            holds(f"no word of the cause: {refused}", "out of range" in str(refused).lower())
        else:
            same("policy without an error", policy, "earliest")
        reader.close()


def small_fetches(scenario: Scenario) -> None:
    topic = scenario.topic(2)
    payloads = [bytes([number]) * 50_000 for number in range(10)]
    sender = producer(scenario, linger_ms=0)
    for payload in payloads:
        send(sender, topic, [{"value": payload, "partition": partition} for partition in range(2)])
    got = read_from(
        scenario, topic, 20, 2, fetch_message_max_bytes=1_000, fetch_max_bytes=1_000, message_max_bytes=1_000
    )
    for partition in range(2):
        mine = [message.value() for message in got if message.partition() == partition]
        holds(f"records of {partition} are not whole or not in order", mine == payloads)


def pause_resume(scenario: Scenario) -> None:
    topic = scenario.filled(5, 2)
    reader = consumer(scenario)
    both = [TopicPartition(topic, partition, 0) for partition in range(2)]
    reader.assign(both)
    read(reader, 10)
    reader.pause(both[:1])
    for partition in range(2):
        scenario.ask("fill", topic=topic, count=5, partition=partition, first=5)
    same("while 0 is paused", plain_values(read(reader, 5)), values(1, range(5, 10)))
    nothing_comes(reader)
    reader.resume(both[:1])
    same("resumed", plain_values(read(reader, 5)), values(0, range(5, 10)))
    reader.close()


def pattern(scenario: Scenario) -> None:
    topics = [scenario.topic(suffix="-a"), scenario.topic(suffix="-b")]
    for topic in topics:
        scenario.ask("fill", topic=topic, count=3)
    reader = consumer(scenario, topic_metadata_refresh_interval_ms=500)
    reader.subscribe([f"^{scenario.name}-[a-z]$"])
    same("topics", {message.topic() for message in read(reader, 6)}, set(topics))
    reader.commit(asynchronous=False)  # all is assigned anew when a topic comes
    later = scenario.topic(suffix="-c")
    scenario.ask("fill", topic=later, count=3)
    same("topics made later", {message.topic() for message in read(reader, 3)}, {later})
    reader.close()


def read_committed(scenario: Scenario) -> None:
    topic = scenario.filled(20)
    got = read_from(scenario, topic, 20, isolation_level="read_committed")
    same("values", plain_values(got), values(0, range(20)))


def long_idle(scenario: Scenario) -> None:
    """The broker closes idle connections: those of a paused consumer and of a producer without records."""
    topic = scenario.topic()
    sender = producer(scenario)
    send(sender, topic, [{"value": b"before"}])
    reader = consumer(scenario)
    reader.assign([TopicPartition(topic, 0, 0)])
    same("before", plain_values(read(reader, 1)), [b"before"])
    reader.pause([TopicPartition(topic, 0)])
    time.sleep(3)
    send(sender, topic, [{"value": b"after"}])
    reader.resume([TopicPartition(topic, 0)])
    same("after", plain_values(read(reader, 1)), [b"after"])
    reader.close()


SCENARIOS = {
    "earliest_latest": earliest_latest, "seek_offset": seek_offset, "seek_time": seek_time,
    "out_of_range": out_of_range, "small_fetches": small_fetches, "pause_resume": pause_resume, "pattern": pattern,
    "read_committed": read_committed, "long_idle": long_idle,
}  # fmt: skip
