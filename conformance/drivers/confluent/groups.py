"""Consumer groups: who has what, and every record once whoever comes and goes."""

import time
from collections.abc import Callable

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition

from conformance.drivers.confluent.clients import checked, consumer, nothing_comes, read, until
from conformance.drivers.scenario import Scenario, holds, same, values

PARTITIONS = 6


class Member:
    """A consumer that commits what it has read before its partitions are taken from it."""

    def __init__(self, scenario: Scenario, topic: str, **configs: str | int) -> None:
        self.got: list[bytes | None] = []
        self.rebalances = 0
        self._is_cooperative = configs.get("partition_assignment_strategy") == "cooperative-sticky"
        self.consumer = consumer(scenario, heartbeat_interval_ms=200, session_timeout_ms=6_000, **configs)
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    @property
    def owned(self) -> int:
        return len(self.consumer.assignment())

    def poll(self) -> None:
        message = self.consumer.poll(0.01)
        while message is not None:
            self.got.append(checked(message).value())
            message = self.consumer.poll(0)

    def leave(self) -> None:
        self.consumer.close()

    def _on_assign(self, reader: Consumer, given: list[TopicPartition]) -> None:
        self.rebalances += 1
        if self._is_cooperative:
            reader.incremental_assign(given)
        else:
            reader.assign(given)

    def _on_revoke(self, reader: Consumer, taken: list[TopicPartition]) -> None:
        commit_read(reader)
        if self._is_cooperative:
            reader.incremental_unassign(taken)
        else:
            reader.unassign()


def commit_read(reader: Consumer) -> None:
    try:
        reader.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].name() != "_NO_OFFSET":
            raise


def every_record_once(**configs: str) -> Callable[[Scenario], None]:
    """Two members, then a third while records are on their way, then the first goes."""

    def scenario_of_members(scenario: Scenario) -> None:
        topic = scenario.topic(PARTITIONS)
        members = [Member(scenario, topic, **configs) for _ in range(2)]
        settle(members)
        fill_all(scenario, topic, range(20))
        members.append(Member(scenario, topic, **configs))
        settle(members)
        fill_all(scenario, topic, range(20, 40))
        gone = members.pop(0)
        gone.leave()
        settle(members)
        fill_all(scenario, topic, range(40, 60))
        wanted = sorted(value for partition in range(PARTITIONS) for value in values(partition, range(60)))
        until("all records", lambda: poll_all(members, [gone]) >= len(wanted))
        for _ in range(10):
            poll_all(members, [gone])
        same("records", sorted(value or b"" for member in [gone, *members] for value in member.got), wanted)
        for member in members:
            member.leave()

    return scenario_of_members


def settle(members: list[Member]) -> None:
    """Until each has its share."""

    def shared() -> bool:
        poll_all(members, [])
        return [member.owned for member in members] == [PARTITIONS // len(members)] * len(members)

    until(f"{len(members)} members with {PARTITIONS // len(members)} partitions each", shared)


def poll_all(members: list[Member], gone: list[Member]) -> int:
    """How many records all have read so far."""
    for member in members:
        member.poll()
    return sum(len(member.got) for member in [*members, *gone])


def fill_all(scenario: Scenario, topic: str, numbers: range) -> None:
    for partition in range(PARTITIONS):
        scenario.ask("fill", topic=topic, count=len(numbers), partition=partition, first=numbers.start)


def static_member(scenario: Scenario) -> None:
    """It comes back to what it had and nobody else notices; its double takes its place and it is told."""
    topic = scenario.topic(PARTITIONS)
    stays = Member(scenario, topic, group_instance_id="stays")
    returns = Member(scenario, topic, group_instance_id="returns")
    settle([stays, returns])
    had, rebalances = partitions_of(returns), stays.rebalances
    returns.leave()
    again = Member(scenario, topic, group_instance_id="returns")
    until("its partitions again", lambda: poll_all([stays, again], []) or partitions_of(again) == had)
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        poll_all([stays, again], [])
    same("rebalances that the other saw", stays.rebalances, rebalances)
    double = Member(scenario, topic, group_instance_id="returns")
    until(
        "the double has its partitions", lambda: poll_all([stays, double], []) or partitions_of(double) == had
    )
    same("what the one replaced is told", _fatal_error(again), "FENCED_INSTANCE_ID")
    for member in (stays, double, again):
        member.leave()


def partitions_of(member: Member) -> list[int]:
    return sorted(each.partition for each in member.consumer.assignment())


def _fatal_error(member: Member) -> str:
    told: list[str] = []

    def polled() -> bool:
        try:
            member.poll()
        except KafkaException as error:
            told.append(error.args[0].str())
        return bool(told)

    until("a fatal error", polled)
    return "FENCED_INSTANCE_ID" if "fenced" in told[0].lower() else told[0]


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
    """None while the coordinator is not ready."""
    try:
        return reader.committed([TopicPartition(topic, 0)], 10)[0].offset
    except KafkaException as error:
        if not error.args[0].retriable() and "COORDINATOR" not in error.args[0].name():
            raise
        return None


def kip848(scenario: Scenario) -> None:
    topic = scenario.filled(10, 2)
    readers = [consumer(scenario, group_protocol="consumer") for _ in range(2)]
    got: list[bytes | None] = []
    for reader in readers:
        reader.subscribe([topic])

    def polled() -> bool:
        for reader in readers:
            message = reader.poll(0.05)
            if message is not None:
                got.append(checked(message).value())
        return len(got) >= 20

    until("20 records", polled, 15)
    holds("records twice", len(set(got)) == 20)
    for reader in readers:
        reader.close()


SCENARIOS = {
    "rebalance": every_record_once(),
    "cooperative": every_record_once(partition_assignment_strategy="cooperative-sticky"),
    "static_member": static_member, "manual_commit": manual_commit, "group_restart": group_restart, "kip848": kip848,
}  # fmt: skip
