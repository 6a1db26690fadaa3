"""Scenarios of consumer groups: which member has which partitions, and that every record arrives once while members
join and leave."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from conformance.drivers import members
from conformance.drivers.java.clients import (
    JavaScenario,
    consumer,
    dotted,
    keys_of,
    nothing_comes,
    poll,
    read,
    refused,
    values_of,
)
from conformance.drivers.scenario import Scenario, same, until, values
from oracles.java_clients import JavaClients, java_failures

ASSIGNORS = "org.apache.kafka.clients.consumer"


class ReaderOfGroup:
    """The Java client itself commits what was read, before its partitions are revoked and when it closes."""

    def __init__(
        self,
        scenario: Scenario,
        clients: JavaClients,
        topic: str,
        assignor: str = "RangeAssignor",
        **configs: Any,
    ) -> None:
        settings = {
            "group_id": scenario.name, "enable_auto_commit": "true", "heartbeat_interval_ms": 200,
            "session_timeout_ms": 6_000, "fetch_max_wait_ms": 100, "max_poll_records": 10, **configs,
        }  # fmt: skip
        if "group_protocol" in configs:  # there the broker knows about heartbeats, sessions and assignors
            del settings["heartbeat_interval_ms"], settings["session_timeout_ms"]
        else:
            settings["partition_assignment_strategy"] = f"{ASSIGNORS}.{assignor}"
        self.rebalances = 0
        self._clients = clients
        self._open = ExitStack()
        self._consumer = self._open.enter_context(clients.consumer(dotted(settings)))
        self._consumer.subscribe([topic])

    def poll(self) -> Sequence[bytes | None]:
        got = values_of(poll(self._clients, self._consumer))
        self.rebalances = int(self._consumer.groupMetadata().generationId())  # it counts them for all members
        return got

    def owned(self) -> Sequence[int]:
        return [each.partition() for each in self._consumer.assignment()]

    def close(self) -> None:
        with java_failures():
            self._open.close()


def rebalance(scenario: Scenario, clients: JavaClients) -> None:
    members.every_record_once(scenario, lambda topic: ReaderOfGroup(scenario, clients, topic))


def cooperative(scenario: Scenario, clients: JavaClients) -> None:
    members.every_record_once(
        scenario, lambda topic: ReaderOfGroup(scenario, clients, topic, "CooperativeStickyAssignor")
    )


def kip848(scenario: Scenario, clients: JavaClients) -> None:
    members.every_record_once(
        scenario, lambda topic: ReaderOfGroup(scenario, clients, topic, group_protocol="consumer")
    )


def static_member(scenario: Scenario, clients: JavaClients) -> None:
    members.static_member(
        scenario, lambda topic, name: ReaderOfGroup(scenario, clients, topic, group_instance_id=name)
    )
    topic = scenario.topic(suffix="-double")
    static = {"group_instance_id": "double", "heartbeat_interval_ms": 200}
    with (
        consumer(scenario, clients, "-double", **static) as first,
        consumer(scenario, clients, "-double", **static) as second,
    ):
        first.subscribe([topic])
        until("its partition", lambda: poll(clients, first) or len(first.assignment()))
        second.subscribe([topic])
        until("the partition of whom it replaces", lambda: poll(clients, second) or len(second.assignment()))
        refused("FencedInstanceIdException", lambda: [poll(clients, first) for _ in range(20)])


def manual_commit(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.filled(10, 2)
    first, second = (clients.topic_partition(topic, partition) for partition in range(2))

    def committed(reader: Any) -> list[tuple[int, str] | None]:
        found = reader.committed(keys_of(range(2), clients, topic))
        places = [found[partition] for partition in (first, second)]
        return [(place.offset(), place.metadata()) if place else None for place in places]

    with consumer(scenario, clients) as reader:
        same("before", committed(reader), [None, None])
        place = clients.machine.classes.org.apache.kafka.clients.consumer.OffsetAndMetadata(4, "märz")
        reader.commitSync(clients.machine.hash_map({first: place}))
        same("committed", committed(reader), [(4, "märz"), None])
    with consumer(scenario, clients) as follower:
        follower.subscribe([topic])
        got = read(clients, follower, 16)
        same("from there", values_of(each for each in got if each.partition == 0), values(0, range(4, 10)))
        follower.commitSync()
        same("read and committed", committed(follower), [(10, ""), (10, "")])


def group_restart(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.filled(100)
    with consumer(scenario, clients, max_poll_records=50, reconnect_backoff_max_ms=500) as reader:
        reader.subscribe([topic])
        same("before", values_of(read(clients, reader, 50)), values(0, range(50)))
        reader.commitSync()
        scenario.ask("kill")
        scenario.ask("start")
        same("after", values_of(read(clients, reader, 50, 30)), values(0, range(50, 100)))
        with java_failures():
            reader.commitSync()
    with consumer(scenario, clients) as follower:
        follower.subscribe([topic])
        nothing_comes(clients, follower, 3)
        found = follower.committed(keys_of([0], clients, topic))
        same("committed", found[clients.topic_partition(topic, 0)].offset(), 100)


class Sharing:
    """A member of the scenario's share group."""

    def __init__(self, scenario: Scenario, clients: JavaClients, topic: str) -> None:
        self._clients = clients
        self._open = ExitStack()
        self._consumer = self._open.enter_context(clients.share_consumer({"group.id": scenario.name}))
        self._consumer.subscribe(clients.machine.classes.java.util.List.of(topic))

    def poll(self, *, accepts: bool) -> Sequence[tuple[bytes | None, int]]:
        outcome = self._clients.acknowledge_type("ACCEPT" if accepts else "RELEASE")
        got: list[tuple[bytes | None, int]] = []
        with java_failures():
            for record in self._consumer.poll(self._clients.machine.milliseconds(500)).iterator():
                self._consumer.acknowledge(record, outcome)
                got.append((bytes(record.value()), record.deliveryCount().get()))
            if got:
                failures = self._consumer.commitSync()
                same("refused", [str(each) for each in failures if failures[each].isPresent()], [])
        return got

    def close(self) -> None:
        with java_failures():
            self._open.close()


def share_group(scenario: Scenario, clients: JavaClients) -> None:
    members.share_group(scenario, lambda topic: Sharing(scenario, clients, topic))


SCENARIOS: dict[str, JavaScenario] = {
    "rebalance": rebalance, "cooperative": cooperative, "static_member": static_member,
    "manual_commit": manual_commit, "group_restart": group_restart, "kip848": kip848,
    "share_group": share_group,
}  # fmt: skip
