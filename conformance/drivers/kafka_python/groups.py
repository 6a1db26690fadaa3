"""Scenarios of consumer groups: which member has which partitions, and that every record arrives once while members
join and leave."""

from collections.abc import Sequence
from typing import Any

from kafka import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import FencedInstanceIdError

from conformance.drivers import members
from conformance.drivers.kafka_python.clients import (
    consumer,
    new_consumer,
    nothing_comes,
    read,
    refused,
    values_of,
)
from conformance.drivers.scenario import Scenario, same, until, values


class ReaderOfGroup(ConsumerRebalanceListener):
    """kafka-python itself commits what was read, before its partitions are revoked and when it is closed; a listener
    may not commit."""

    def __init__(
        self, scenario: Scenario, topic: str, assignor: type = RangePartitionAssignor, **configs: Any
    ) -> None:
        self.rebalances = 0
        configs |= {
            "enable_auto_commit": True,
            "auto_commit_interval_ms": 60_000,
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": 6_000,
            "max_poll_records": 10,
        }
        self._consumer = new_consumer(scenario, partition_assignment_strategy=[assignor], **configs)
        self._consumer.subscribe([topic], listener=self)

    def poll(self) -> Sequence[bytes | None]:
        polled = self._consumer.poll(timeout_ms=1_000)  # it commits within it
        return [record.value for records in polled.values() for record in records]

    def owned(self) -> Sequence[int]:
        return [each.partition for each in self._consumer.assignment()]

    def close(self) -> None:
        self._consumer.close()

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        pass

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.rebalances += 1


def rebalance(scenario: Scenario) -> None:
    members.every_record_once(scenario, lambda topic: ReaderOfGroup(scenario, topic))


def cooperative(scenario: Scenario) -> None:
    members.every_record_once(
        scenario, lambda topic: ReaderOfGroup(scenario, topic, CooperativeStickyAssignor)
    )


def static_member(scenario: Scenario) -> None:
    members.static_member(
        scenario, lambda topic, name: ReaderOfGroup(scenario, topic, group_instance_id=name)
    )
    topic = scenario.topic(suffix="-double")
    static = {"group_instance_id": "double", "heartbeat_interval_ms": 200}
    with consumer(scenario, "-double", **static) as first, consumer(scenario, "-double", **static) as second:
        first.subscribe([topic])
        until("its partition", lambda: first.poll(100) or first.assignment())
        second.subscribe([topic])
        until("the partition of whom it replaces", lambda: second.poll(100) or second.assignment())
        place = {TopicPartition(topic, 0): OffsetAndMetadata(0, "", -1)}
        refused(FencedInstanceIdError, lambda: first.commit(place))


def manual_commit(scenario: Scenario) -> None:
    topic = scenario.filled(10, 2)
    both = [TopicPartition(topic, partition) for partition in range(2)]
    with consumer(scenario) as reader:
        same("before", [reader.committed(each) for each in both], [None, None])
        reader.commit({both[0]: OffsetAndMetadata(4, "märz", -1)})
        found = reader.committed(both[0], metadata=True)
        same("committed", (found.offset, found.metadata), (4, "märz"))
        same("not committed", reader.committed(both[1]), None)
    with consumer(scenario) as follower:
        follower.subscribe([topic])
        got = read(follower, 16)
        same("from there", values_of(each for each in got if each.partition == 0), values(0, range(4, 10)))
        follower.commit()
        same("read and committed", [follower.committed(each) for each in both], [10, 10])


def group_restart(scenario: Scenario) -> None:
    topic = scenario.filled(100)
    with consumer(scenario, session_timeout_ms=10_000, reconnect_backoff_max_ms=500) as reader:
        reader.subscribe([topic])
        same("before", values_of(read(reader, 50)), values(0, range(50)))
        reader.commit()
        scenario.ask("kill")
        scenario.ask("start")
        same("after", values_of(read(reader, 50, 30)), values(0, range(50, 100)))
        reader.commit()
    with consumer(scenario) as follower:
        follower.subscribe([topic])
        nothing_comes(follower, 3)
        same("committed", follower.committed(TopicPartition(topic, 0)), 100)


SCENARIOS = {
    "rebalance": rebalance, "cooperative": cooperative, "static_member": static_member,
    "manual_commit": manual_commit, "group_restart": group_restart,
}  # fmt: skip
LACKS = {
    "kip848": "kafka-python has the classic protocol only",
    "share_group": "kafka-python has no share groups",
}
