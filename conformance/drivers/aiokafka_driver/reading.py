"""Scenarios of reading: where a consumer begins, what it skips, how it waits."""

import asyncio

from aiokafka import TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

from conformance.drivers.aiokafka_driver.clients import (
    asked,
    consumer,
    nothing_comes,
    producer,
    read,
    read_from,
    refused,
    run_to_end,
    send,
    values_of,
)
from conformance.drivers.payloads import START_MS
from conformance.drivers.scenario import Scenario, holds, same, values


async def earliest_latest(scenario: Scenario) -> None:
    topic = scenario.filled(10)
    async with consumer(scenario, "-early") as early:
        early.subscribe([topic])
        same("from the earliest", values_of(await read(early, 10)), values(0, range(10)))
    async with consumer(scenario, "-late") as late:
        partition = TopicPartition(topic, 0)
        late.assign([partition])
        await late.seek_to_end(partition)
        same("the end", await late.position(partition), 10)
        await nothing_comes(late)
        await asked(scenario, "fill", topic=topic, count=5, first=10)
        same("from the latest", values_of(await read(late, 5)), values(0, range(10, 15)))


async def seek_offset(scenario: Scenario) -> None:
    topic = scenario.filled(100)
    partition = TopicPartition(topic, 0)
    async with consumer(scenario) as reader:
        reader.assign([partition])
        for offset in (60, 3, 99):
            reader.seek(partition, offset)
            (record,) = await read(reader, 1)
            same(f"at {offset}", (record.offset, record.value), (offset, b"0-%d" % offset))
            same("position", await reader.position(partition), offset + 1)


async def seek_time(scenario: Scenario) -> None:
    topic = scenario.filled(100, first_timestamp_ms=START_MS, step_ms=10)
    partition = TopicPartition(topic, 0)
    async with consumer(scenario) as reader:
        for stamp, wanted in (
            (START_MS - 5, (0, START_MS)),
            (START_MS + 500, (50, START_MS + 500)),
            (START_MS + 501, (51, START_MS + 510)),
        ):
            found = (await reader.offsets_for_times({partition: stamp}))[partition]
            same(f"found for {stamp - START_MS} ms", (found.offset, found.timestamp), wanted)
        same(
            "after the last", (await reader.offsets_for_times({partition: START_MS + 5_000}))[partition], None
        )
        reader.assign([partition])
        reader.seek(
            partition, (await reader.offsets_for_times({partition: START_MS + 333}))[partition].offset
        )
        same("first read", (await read(reader, 1))[0].timestamp, START_MS + 340)


async def out_of_range(scenario: Scenario) -> None:
    topic = scenario.filled(10)
    partition = TopicPartition(topic, 0)
    async with consumer(scenario) as reader:
        reader.assign([partition])
        reader.seek(partition, 1_000)
        same("with earliest", values_of(await read(reader, 10)), values(0, range(10)))
    async with consumer(scenario, auto_offset_reset="none") as reader:
        reader.assign([partition])
        reader.seek(partition, 1_000)
        await refused(OffsetOutOfRangeError, read(reader, 1))


async def small_fetches(scenario: Scenario) -> None:
    topic = scenario.topic(2)
    payloads = [bytes([number]) * 50_000 for number in range(10)]
    async with producer(scenario, linger_ms=0) as sender:
        for payload in payloads:
            await send(sender, topic, ({"value": payload, "partition": partition} for partition in range(2)))
    got = await read_from(scenario, topic, 20, 2, max_partition_fetch_bytes=1_000, fetch_max_bytes=1_000)
    for partition in range(2):
        mine = [record.value for record in got if record.partition == partition]
        holds(f"records of {partition} are not whole or not in order", mine == payloads)


async def pause_resume(scenario: Scenario) -> None:
    topic = scenario.filled(5, 2)
    both = [TopicPartition(topic, partition) for partition in range(2)]
    async with consumer(scenario) as reader:
        reader.assign(both)
        await read(reader, 10)
        reader.pause(both[0])
        for partition in range(2):
            await asked(scenario, "fill", topic=topic, count=5, partition=partition, first=5)
        same("while 0 is paused", values_of(await read(reader, 5)), values(1, range(5, 10)))
        await nothing_comes(reader)
        reader.resume(both[0])
        same("resumed", values_of(await read(reader, 5)), values(0, range(5, 10)))


async def pattern(scenario: Scenario) -> None:
    topics = [scenario.topic(suffix="-a"), scenario.topic(suffix="-b")]
    for topic in topics:
        await asked(scenario, "fill", topic=topic, count=3)
    async with consumer(scenario, metadata_max_age_ms=500) as reader:
        reader.subscribe(pattern=f"^{scenario.name}-[a-z]$")
        same("topics", {record.topic for record in await read(reader, 6)}, set(topics))
        await reader.commit()
        later = scenario.topic(suffix="-c")
        await asked(scenario, "fill", topic=later, count=3)
        same("topics made later", {record.topic for record in await read(reader, 3)}, {later})


async def read_committed(scenario: Scenario) -> None:
    topic = scenario.filled(20)
    got = await read_from(scenario, topic, 20, isolation_level="read_committed")
    same("values", values_of(got), values(0, range(20)))


async def long_idle(scenario: Scenario) -> None:
    """The broker closes idle connections: those of a paused consumer, which does not fetch, and of a producer
    without records."""
    topic = scenario.topic()
    partition = TopicPartition(topic, 0)
    async with producer(scenario) as sender, consumer(scenario) as reader:
        await send(sender, topic, [{"value": b"before"}])
        reader.assign([partition])
        same("before", values_of(await read(reader, 1)), [b"before"])
        reader.pause(partition)
        await asyncio.sleep(3)
        await send(sender, topic, [{"value": b"after"}])
        reader.resume(partition)
        same("after", values_of(await read(reader, 1)), [b"after"])


SCENARIOS = {
    name: run_to_end(scenario)
    for name, scenario in {
        "earliest_latest": earliest_latest, "seek_offset": seek_offset, "seek_time": seek_time,
        "out_of_range": out_of_range, "small_fetches": small_fetches, "pause_resume": pause_resume,
        "pattern": pattern, "read_committed": read_committed, "long_idle": long_idle,
    }.items()
}  # fmt: skip
