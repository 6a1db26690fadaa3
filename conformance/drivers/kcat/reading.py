"""Scenarios of reading: where a consumer begins, what it skips, how it waits."""

import time

from conformance.drivers.kcat.program import (
    KcatFailed,
    blocks,
    isolation,
    member,
    read,
    read_to_end,
    running,
    send_files,
    typed,
    values_of,
)
from conformance.drivers.payloads import START_MS
from conformance.drivers.scenario import Mismatch, Scenario, holds, same, until, values


def earliest_latest(scenario: Scenario) -> None:
    topic = scenario.filled(10)
    same("from the earliest", values_of(read_to_end(scenario, topic)), values(0, range(10)))
    same("at the end", read_to_end(scenario, topic, "-o", "end"), [])
    same("the last three", values_of(read_to_end(scenario, topic, "-o", "-3")), values(0, range(7, 10)))


def seek_offset(scenario: Scenario) -> None:
    topic = scenario.filled(100)
    for offset in (60, 3, 99):
        (record,) = read(scenario, topic, 1, "-o", str(offset), "-p", "0")
        same(f"at {offset}", (record.offset, record.value), (offset, b"0-%d" % offset))


def seek_time(scenario: Scenario) -> None:
    topic = scenario.filled(100, first_timestamp_ms=START_MS, step_ms=10)
    for stamp, wanted in ((START_MS - 5, 0), (START_MS + 500, 50), (START_MS + 501, 51)):
        (record,) = read(scenario, topic, 1, "-o", f"s@{stamp}", "-p", "0")
        same(f"first from {stamp - START_MS} ms", record.offset, wanted)
    until_stamp = read_to_end(
        scenario, topic, "-o", f"s@{START_MS + 200}", "-o", f"e@{START_MS + 300}", "-p", "0"
    )
    same("from 200 to 300 ms", [record.offset for record in until_stamp], [*range(20, 30)])


def out_of_range(scenario: Scenario) -> None:
    topic = scenario.filled(10)
    got = read(scenario, topic, 10, "-o", "1000", "-p", "0", "-X", "topic.auto.offset.reset=earliest")
    same("with earliest", values_of(got), values(0, range(10)))
    try:
        read(scenario, topic, 1, "-o", "1000", "-p", "0", "-X", "topic.auto.offset.reset=error")
    except KcatFailed as failed:
        holds(f"no word of the cause: {failed}", "out of range" in str(failed).lower())
    else:
        raise Mismatch("an offset that is not there was read")


def small_fetches(scenario: Scenario) -> None:
    topic = scenario.topic()
    payloads = [bytes([number]) * 50_000 for number in range(10)]
    for payload in payloads:
        send_files(scenario, topic, [payload])
    got = read(scenario, topic, 10, "-X", "fetch.message.max.bytes=1000")
    holds("records are not whole or not in order", values_of(got) == payloads)


def pattern(scenario: Scenario) -> None:
    topics = [scenario.topic(suffix="-a"), scenario.topic(suffix="-b")]
    for topic in topics:
        scenario.ask("fill", topic=topic, count=3)
    with member(
        scenario, f"^{scenario.name}-[a-z]$", "-X", "topic.metadata.refresh.interval.ms=500"
    ) as reader:
        until("six records", lambda: len(reader.records) == 6)
        same("topics", {record.topic for record in reader.records}, set(topics))
        later = scenario.topic(suffix="-c")
        scenario.ask("fill", topic=later, count=3)
        until("a topic made later", lambda: [record.topic for record in reader.records].count(later) == 3)


def read_committed(scenario: Scenario) -> None:
    topic = scenario.filled(20)
    same(
        "values", values_of(read_to_end(scenario, topic, *isolation("read_committed"))), values(0, range(20))
    )


def long_idle(scenario: Scenario) -> None:
    topic = scenario.topic()
    with running(scenario, "-P", "-E", "-t", topic) as sender:
        sender.write(typed(blocks(1)))
        until("the first record", lambda: len(read_to_end(scenario, topic)) == 1)
        time.sleep(3)
        sender.write(typed(blocks(1, 1)))
        sender.finish()
    same("values", values_of(read_to_end(scenario, topic)), blocks(2))


SCENARIOS = {
    "earliest_latest": earliest_latest, "seek_offset": seek_offset, "seek_time": seek_time,
    "out_of_range": out_of_range, "small_fetches": small_fetches, "pattern": pattern,
    "read_committed": read_committed, "long_idle": long_idle,
}  # fmt: skip
LACKS = {"pause_resume": "kcat cannot pause"}
