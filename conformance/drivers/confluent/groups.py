"""Scenarios of consumer groups: which member has which partitions, and that every record arrives once while members
join and leave."""

import logging
import re
from collections.abc import Sequence

from confluent_kafka import (
    OFFSET_INVALID,
    AcknowledgeType,
    Consumer,
    KafkaException,
    ShareConsumer,
    TopicPartition,
)

from conformance.drivers import members
from conformance.drivers.confluent.clients import checked, consumer, nothing_comes, read
from conformance.drivers.scenario import Refused, Scenario, holds, same, until, values

COOPERATIVE = "cooperative-sticky"


class ReaderOfGroup:
    """Commits what was read before its partitions are revoked."""

    def __init__(self, scenario: Scenario, topic: str, strategy: str = "range", **configs: str) -> None:
        self.rebalances = 0
        self._is_cooperative = strategy == COOPERATIVE
        configs["partition_assignment_strategy"] = strategy
        self._consumer = consumer(scenario, heartbeat_interval_ms=200, session_timeout_ms=6_000, **configs)
        self._consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def poll(self) -> Sequence[bytes | None]:
        message = self._consumer.poll(0.1)
        return [] if message is None else [checked(message).value()]

    def owned(self) -> Sequence[int]:
        return [each.partition for each in self._consumer.assignment()]

    def close(self) -> None:
        self._consumer.close()

    def _on_assign(self, reader: Consumer, given: list[TopicPartition]) -> None:
        self.rebalances += 1
        if self._is_cooperative:
            reader.incremental_assign(given)
        else:
            reader.assign(given)

    def _on_revoke(self, reader: Consumer, taken: list[TopicPartition]) -> None:
        _commit_read(reader)
        if self._is_cooperative:
            reader.incremental_unassign(taken)
        else:
            reader.unassign()


def _commit_read(reader: Consumer) -> None:
    try:
        reader.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].name() != "_NO_OFFSET":
            raise


def rebalance(scenario: Scenario) -> None:
    members.every_record_once(scenario, lambda topic: ReaderOfGroup(scenario, topic))


def cooperative(scenario: Scenario) -> None:
    members.every_record_once(scenario, lambda topic: ReaderOfGroup(scenario, topic, COOPERATIVE))


def static_member(scenario: Scenario) -> None:
    members.static_member(
        scenario, lambda topic, name: ReaderOfGroup(scenario, topic, group_instance_id=name)
    )
    topic = scenario.topic(suffix="-double")
    first = consumer(scenario, "-double", group_instance_id="double")
    first.subscribe([topic])
    until("its partition", lambda: first.poll(0.1) or first.assignment())
    second = consumer(scenario, "-double", group_instance_id="double")
    second.subscribe([topic])
    until("the partition of whom it replaces", lambda: second.poll(0.1) or second.assignment())
    told = _fatal_error(first)
    holds(f"the one replaced is told {told}", "fenced" in told.lower())
    for reader in (first, second):
        reader.close()


def _fatal_error(reader: Consumer) -> str:
    told: list[str] = []

    def polled() -> bool:
        try:
            message = reader.poll(0.1)
        except KafkaException as error:
            told.append(error.args[0].str())
        else:
            told.extend([message.error().str()] if message is not None and message.error() else [])
        return bool(told)

    until("a fatal error", polled)
    return told[0]


def manual_commit(scenario: Scenario) -> None:
    topic = scenario.filled(10, 2)
    reader = consumer(scenario)
    both = [TopicPartition(topic, partition) for partition in range(2)]
    same("before", [each.offset for each in reader.committed(both, 10)], [OFFSET_INVALID] * 2)
    reader.commit(offsets=[TopicPartition(topic, 0, 4, metadata="märz")], asynchronous=False)
    found = reader.committed(both, 10)
    same("committed", [(each.offset, each.metadata) for each in found], [(4, "märz"), (OFFSET_INVALID, None)])
    reader.close()
    follower = consumer(scenario)
    follower.subscribe([topic])
    got = read(follower, 16)
    same(
        "from there",
        [message.value() for message in got if message.partition() == 0],
        values(0, range(4, 10)),
    )
    follower.commit(asynchronous=False)
    same("read and committed", [each.offset for each in follower.committed(both, 10)], [10, 10])
    follower.close()


def group_restart(scenario: Scenario) -> None:
    topic = scenario.filled(100)
    reader = consumer(scenario, reconnect_backoff_max_ms=500, session_timeout_ms=10_000)
    reader.subscribe([topic])
    same("before", [message.value() for message in read(reader, 50)], values(0, range(50)))
    reader.commit(asynchronous=False)
    scenario.ask("kill")
    scenario.ask("start")
    other = consumer(scenario, "-other")
    until("offsets of a group nobody knows", lambda: _committed(other, topic) == OFFSET_INVALID)
    other.close()
    goes_on = [message.value() for message in read(reader, 50, seconds_max=30)]
    same("after", goes_on, values(0, range(50, 100)))
    reader.commit(asynchronous=False)
    reader.close()
    follower = consumer(scenario)
    follower.subscribe([topic])
    nothing_comes(follower)
    same("committed", _committed(follower, topic), 100)
    follower.close()


def _committed(reader: Consumer, topic: str) -> int | None:
    """Returns None while the coordinator is not ready."""
    try:
        return reader.committed([TopicPartition(topic, 0)], 10)[0].offset
    except KafkaException as error:
        if not error.args[0].retriable() and "COORDINATOR" not in error.args[0].name():
            raise
        return None


def kip848(scenario: Scenario) -> None:
    topic = scenario.filled(10, 2)
    log = _Log()
    logger = logging.Logger(topic)
    logger.addHandler(log)
    readers = [consumer(scenario, group_protocol="consumer", debug="cgrp", logger=logger) for _ in range(2)]
    got: list[bytes | None] = []
    for reader in readers:
        reader.subscribe([topic])

    def polled() -> bool:
        for reader in readers:
            message = reader.poll(0.05)
            if message is not None:
                got.append(checked(message).value())
        log.raise_refusal()
        return len(set(got)) >= 20

    until("20 records", polled)
    # Each at least once: nothing is committed when the first member gives a partition up to the second.
    same(
        "records",
        sorted({value or b"" for value in got}),
        sorted(values(0, range(10)) + values(1, range(10))),
    )
    for reader in readers:
        reader.close()


class Sharing:
    """A member of the scenario's share group."""

    def __init__(self, scenario: Scenario, topic: str) -> None:
        self._consumer = ShareConsumer(
            {
                "bootstrap.servers": scenario.bootstrap,
                "group.id": scenario.name,
                "share.acknowledgement.mode": "explicit",
            }
        )
        self._consumer.subscribe([topic])

    def poll(self, *, accepts: bool) -> Sequence[tuple[bytes | None, int]]:
        got = [checked(message) for message in self._consumer.poll(0.5)]
        for message in got:
            self._consumer.acknowledge(
                message, AcknowledgeType.ACCEPT if accepts else AcknowledgeType.RELEASE
            )
        if got:
            self._consumer.commit_sync(10.0)
        return [(message.value(), message.delivery_count()) for message in got]

    def close(self) -> None:
        self._consumer.close()


def share_group(scenario: Scenario) -> None:
    members.share_group(scenario, lambda topic: Sharing(scenario, topic))


class _Log(logging.Handler):
    """librdkafka asks again and again when a broker lacks the protocol, and only its log says so."""

    def __init__(self) -> None:
        super().__init__()
        self._refusal = ""

    def emit(self, record: logging.LogRecord) -> None:
        said = re.search(r"\w+Request not supported by broker", record.getMessage())
        self._refusal = said[0] if said else self._refusal

    def raise_refusal(self) -> None:
        if self._refusal:
            raise Refused(f"{self._refusal} (only librdkafka's log says so)")


SCENARIOS = {
    "rebalance": rebalance, "cooperative": cooperative, "static_member": static_member, "manual_commit": manual_commit,
    "group_restart": group_restart, "kip848": kip848, "share_group": share_group,
}  # fmt: skip
