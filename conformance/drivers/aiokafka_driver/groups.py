"""Scenarios of consumer groups: which member has which partitions, and that every record arrives once while members
join and leave."""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from conformance.drivers import members
from conformance.drivers.aiokafka_driver.clients import (
    asked,
    consumer,
    new_consumer,
    nothing_comes,
    read,
    run_to_end,
    until,
    values_of,
)
from conformance.drivers.scenario import Scenario, same, values


class ReaderOfGroup(ConsumerRebalanceListener):
    """Runs on an event loop of its own, while it is polled. Commits what was read before its partitions are revoked."""

    def __init__(self, scenario: Scenario, topic: str, **configs: Any) -> None:
        self.rebalances = 0
        self._loop = asyncio.new_event_loop()
        self._scenario = scenario
        self._topic = topic
        self._configs = {"heartbeat_interval_ms": 200, "session_timeout_ms": 6_000, **configs}
        self._consumer: AIOKafkaConsumer | None = None

    def poll(self) -> Sequence[bytes | None]:
        return self._loop.run_until_complete(self._poll())

    def owned(self) -> Sequence[int]:
        return [each.partition for each in self._consumer.assignment()] if self._consumer else []

    def close(self) -> None:
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        if revoked and self._consumer:
            await self._consumer.commit()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.rebalances += 1

    async def _poll(self) -> list[bytes | None]:
        if self._consumer is None:
            range_only = [RangePartitionAssignor]
            self._consumer = new_consumer(
                self._scenario, partition_assignment_strategy=range_only, **self._configs
            )
            self._consumer.subscribe([self._topic], listener=self)
            await self._consumer.start()
        polled = await self._consumer.getmany(timeout_ms=100, max_records=10)
        return [record.value for records in polled.values() for record in records]

    async def _close(self) -> None:
        if self._consumer is not None:
            await self._consumer.commit()
            await self._consumer.stop()


def rebalance(scenario: Scenario) -> None:
    members.every_record_once(scenario, lambda topic: ReaderOfGroup(scenario, topic))


def static_member(scenario: Scenario) -> None:
    members.static_member(
        scenario, lambda topic, name: ReaderOfGroup(scenario, topic, group_instance_id=name)
    )


async def manual_commit(scenario: Scenario) -> None:
    topic = scenario.filled(10, 2)
    both = [TopicPartition(topic, partition) for partition in range(2)]
    async with consumer(scenario) as reader:
        reader.assign(both)
        same("before", [await reader.committed(each) for each in both], [None, None])
        await reader.commit({both[0]: OffsetAndMetadata(4, "märz")})
        same("committed", [await reader.committed(each) for each in both], [4, None])
    async with consumer(scenario) as follower:
        follower.subscribe([topic])
        got = await read(follower, 16)
        same("from there", values_of(each for each in got if each.partition == 0), values(0, range(4, 10)))
        await follower.commit()
        same("read and committed", [await follower.committed(each) for each in both], [10, 10])


async def group_restart(scenario: Scenario) -> None:
    topic = scenario.filled(100)
    async with consumer(scenario) as reader:
        reader.subscribe([topic])
        same("before", values_of(await read(reader, 50)), values(0, range(50)))
        await reader.commit()
        await asked(scenario, "kill")
        await asked(scenario, "start")
        same("after", values_of(await read(reader, 50, 30)), values(0, range(50, 100)))
        await until("a commit after the restart", lambda: _commits(reader))
    async with consumer(scenario) as follower:
        follower.subscribe([topic])
        await nothing_comes(follower, 3)
        same("committed", await follower.committed(TopicPartition(topic, 0)), 100)


async def _commits(reader: AIOKafkaConsumer) -> bool:
    """The coordinator may not be ready yet after its restart."""
    try:
        await reader.commit()
    except KafkaError as error:
        if not error.retriable:
            raise
        return False
    return True


SCENARIOS = {
    "rebalance": rebalance, "static_member": static_member, "manual_commit": run_to_end(manual_commit),
    "group_restart": run_to_end(group_restart),
}  # fmt: skip
LACKS = {
    "cooperative": "aiokafka has no cooperative assignor",
    "kip848": "aiokafka has the classic protocol only",
    "share_group": "aiokafka has no share groups",
}
PARTLY = {"manual_commit": "aiokafka does not give the metadata back"}
