"""Heartbeats of KIP-848 asked of this broker and of Apache Kafka: the same answers, step by step.

Partitions may be given to other members than at Kafka, so the steps look at how many each has. Member ids, epochs and
codes are compared as they are.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from oracles.apache_kafka import running_apache_kafka
from siltstone.broker.groups.consumer_protocol.embedded import read_assignment
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from siltstone.kafka_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    OwnedPartitions,
)
from siltstone.kafka_protocol.messages.describe_groups import DescribeGroupsRequest
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.kafka_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from siltstone.kafka_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from siltstone.kafka_protocol.notation import Message
from support.broker.broker_process import BrokerProcess
from support.broker.cluster_clients import until
from support.groups.consumer_bytes import assignment
from support.groups.group_client import join_request
from support.kafka.kafka_oracles import or_skip
from support.kafka.raw_calls import create_topic
from support.kafka.raw_kafka import Address, RawConnection

pytestmark = [pytest.mark.kafka, pytest.mark.nightly(tried="heartbeats beside Kafka")]

RETRIED = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class Told(list[tuple[str, object]]):
    """What a broker has answered, step by step."""


class Asked:
    def __init__(self, connection: RawConnection, name: str) -> None:
        self._connection = connection
        self.group = name
        self.first_epoch = 1
        self.topic = create_topic(connection, name, 4)
        # Kafka makes the topic of its groups when somebody looks for a coordinator.
        until(
            lambda: (
                self.ask(FindCoordinatorRequest(coordinator_keys=[name]), 4).coordinators[0].error_code == 0
            ),
            "a coordinator",
        )
        time.sleep(2)  # Kafka's coordinator learns of a topic a moment later, and no request shows when
        self.told = Told()
        self.owned: dict[str, list[OwnedPartitions]] = {}

    def beat(self, name: str, member_id: str, epoch: int, **said: Any) -> Any:
        asked_epoch = self.theirs(epoch)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=member_id, member_epoch=asked_epoch, **said
        )
        answer = self._patiently(request, 1)
        has: object = None
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            self.owned[member_id] = [
                OwnedPartitions(topic_id=row.topic_id, partitions=row.partitions) for row in rows
            ]
            has = sum(len(row.partitions) for row in rows)
        if not self.told[1:] and not answer.error_code:
            self.first_epoch = answer.member_epoch
        epoch_told = None if answer.error_code else self.ours(answer.member_epoch)
        self.told.append((name, (ErrorCode(answer.error_code).name, epoch_told, has)))
        return answer

    def join(self, name: str, member_id: str, **other: Any) -> Any:
        whole = {
            "rebalance_timeout_ms": 60_000, "subscribed_topic_names": [self.topic.name], "topic_partitions": [],
        }  # fmt: skip
        return self.beat(name, member_id, 0, **(whole | other))

    def say_owned(self, name: str, member_id: str, epoch: int) -> Any:
        return self.beat(name, member_id, epoch, topic_partitions=self.owned.get(member_id, []))

    def epoch_of(self, member_id: str) -> int:
        (group,) = self.ask(ConsumerGroupDescribeRequest(group_ids=[self.group]), 1).groups
        return next(each.member_epoch for each in group.members if each.member_id == member_id)

    def theirs(self, epoch: int) -> int:
        """Kafka 4.3.1 begins with epoch 2, 4.3.0 with 1; here the first one is 1."""
        return epoch + self.first_epoch - 1 if epoch > 0 else epoch

    def ours(self, epoch: int) -> int:
        return epoch - self.first_epoch + 1 if epoch > 0 else epoch

    def tell(self, name: str, what: object) -> None:
        self.told.append((name, what))

    def ask(self, request: Message, version: int) -> Any:
        return self._connection.ask(request, version)

    def _patiently(self, request: Message, version: int) -> Any:
        answers: list[Any] = []

        def answered() -> bool:
            answers.append(self._connection.ask(request, version))
            return answers[-1].error_code not in RETRIED

        until(answered, name_of(request))
        return answers[-1]


def commit(asked: Asked, name: str, member_id: str, epoch: int, partition: int, version: int = 9) -> None:
    row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=3)
    topics = [OffsetCommitRequestTopic(name=asked.topic.name, topic_id=asked.topic.id, partitions=[row])]
    request = OffsetCommitRequest(
        group_id=asked.group,
        member_id=member_id,
        generation_id_or_member_epoch=asked.theirs(epoch),
        topics=topics,
    )
    told = asked.ask(request, version).topics[0].partitions[0].error_code
    asked.tell(name, ErrorCode(told).name)


def live_through(asked: Asked) -> Told:
    """A life of two members, and of static ones; the epochs are those that the story leads to."""
    asked.beat("no such group", "A", 4)
    asked.join("A joins", "A")
    asked.join("another assignor", "X", server_assignor="sticky")
    asked.beat("no such member", "X", 1)
    asked.beat("an epoch that is not there yet", "A", 7)
    asked.beat("a wrong epoch", "A", -3)
    asked.beat("nothing new", "A", 1)
    return _with_b(asked)


def _with_b(asked: Asked) -> Told:
    joined = asked.join("B joins", "B")
    until(lambda: _epoch(asked) == (2, 2), "the second assignment")
    asked.beat("A gives back", "A", 1)
    asked.beat("A does not say so", "A", 1)
    asked.say_owned("A says so", "A", 1)
    asked.say_owned("B has the others", "B", asked.ours(joined.member_epoch))
    describe(asked, "two members")
    mine = asked.owned["A"][0].partitions[0]
    theirs = asked.owned["B"][0].partitions[0]
    commit(asked, "a commit of this epoch", "A", 2, mine)
    commit(asked, "a commit of before, kept", "A", 1, mine)
    commit(asked, "a commit of before, not its own", "A", 1, theirs)
    commit(asked, "a commit of an epoch to come", "A", 3, mine)
    commit(asked, "a commit of a stranger", "X", 2, mine)
    commit(asked, "a commit of nobody", "", -1, mine)
    commit(asked, "an old commit", "A", 2, mine, version=8)
    for member_id, epoch in (("A", 2), ("A", 1), ("X", 2), (None, -1)):
        group = OffsetFetchRequestGroup(
            group_id=asked.group, member_id=member_id, member_epoch=asked.theirs(epoch), topics=None
        )
        (row,) = asked.ask(OffsetFetchRequest(groups=[group]), 9).groups
        asked.tell(f"fetch of {member_id} {epoch}", ErrorCode(row.error_code).name)
    asked.beat("B leaves", "B", -1)
    asked.beat("B has left", "B", 2)
    asked.beat("A leaves", "A", -1)
    describe(asked, "nobody")
    return asked.told


def _epoch(asked: Asked) -> tuple[int, int]:
    (group,) = asked.ask(ConsumerGroupDescribeRequest(group_ids=[asked.group]), 1).groups
    if group.assignment_epoch < group.group_epoch:  # the interval between two assignments is not over
        (member,) = [each for each in group.members if each.member_id == "B"]
        beat = ConsumerGroupHeartbeatRequest(
            group_id=asked.group, member_id="B", member_epoch=member.member_epoch
        )
        asked.ask(beat, 1)
    return asked.ours(group.group_epoch), asked.ours(group.assignment_epoch)


def _beat_quietly(asked: Asked) -> None:
    asked.beat("again", "P", asked.ours(asked.epoch_of("P")))
    asked.told.pop()


def describe(asked: Asked, name: str) -> None:
    (group,) = asked.ask(ConsumerGroupDescribeRequest(group_ids=[asked.group]), 1).groups
    members = sorted(
        (
            member.member_id,
            asked.ours(member.member_epoch),
            member.member_type,
            tuple(member.subscribed_topic_names),
        )
        for member in group.members
    )
    asked.tell(
        name,
        (group.error_code, group.group_state, asked.ours(group.group_epoch), group.assignor_name, members),
    )
    (older,) = asked.ask(DescribeGroupsRequest(groups=[asked.group]), 6).groups
    asked.tell(f"{name}, by the older API", (ErrorCode(older.error_code).name, older.group_state))
    (older,) = asked.ask(DescribeGroupsRequest(groups=[asked.group]), 5).groups
    asked.tell(f"{name}, by an older version", (ErrorCode(older.error_code).name, older.group_state))
    listed = {each.group_id: each for each in asked.ask(ListGroupsRequest(), 5).groups}[asked.group]
    asked.tell(f"{name}, listed", (listed.group_type, listed.group_state, listed.protocol_type))


def static_life(asked: Asked) -> Told:
    asked.join("one joins", "one", instance_id="desk")
    asked.join("an instance that is there", "two", instance_id="desk")
    asked.beat("another member of the instance", "two", 1, instance_id="desk")
    asked.beat("no such instance", "one", 1, instance_id="chair")
    asked.beat("away for a while", "one", -2, instance_id="desk")
    asked.join("back with another id", "three", instance_id="desk")
    asked.beat("the old one", "one", 1, instance_id="desk")
    asked.beat("not static", "four", -2)
    asked.beat("leaves", "three", -1, instance_id="desk")
    named = {"subscribed_topic_names": None, "subscribed_topic_regex": "(?!x)"}
    asked.join("a pattern that cannot be read", "P", **named)
    named["subscribed_topic_regex"] = f"{asked.topic.name[:-1]}[a-z]|__consumer_offsets"
    joined = asked.join("a pattern", "P", **named)
    asked.tell("a pattern has no names", joined.error_code)
    if joined.assignment is not None and not joined.assignment.topic_partitions:
        until(lambda: asked.owned.get("P") or _beat_quietly(asked), "the topics of the pattern")
    asked.tell("its topics, an internal one among them", len(asked.owned["P"]))
    return asked.told


class Classic:
    """A member of the classic protocol, eager, with what it was given last. Generations are told as those after its
    first one."""

    def __init__(self, asked: Asked, name: str) -> None:
        self._asked, self.name = asked, name
        self.member_id, self.generation, self.first, self.leader = "", -1, 0, ""

    def join(self, step: str, *, protocol: str = "range", kind: str = "consumer") -> Any:
        request = join_request(
            self.member_id,
            group=self._asked.group,
            topics=(self._asked.topic.name,),
            protocols=(protocol,),
            protocol_type=kind,
        )
        answer = self._asked.ask(request, 9)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return self.join(step, protocol=protocol, kind=kind)
        if not answer.error_code:
            self.generation, self.leader = answer.generation_id, answer.leader
            self.first = self.first or self.generation
        told = (
            answer.protocol_type,
            answer.protocol_name,
            answer.leader == self.member_id,
            len(answer.members),
        )
        self._asked.tell(step, (ErrorCode(answer.error_code).name, self._since(), told))
        return answer

    def sync(self, step: str, *, generation: int = 0, member_id: str = "", protocol: str = "range") -> None:
        """``generation``: more than its own."""
        leads = self.leader == self.member_id
        everything = assignment({self._asked.topic.name: [0, 1, 2, 3]})
        request = SyncGroupRequest(
            group_id=self._asked.group,
            generation_id=self.generation + generation,
            member_id=member_id or self.member_id,
            protocol_type="consumer",
            protocol_name=protocol,
            assignments=[SyncGroupRequestAssignment(member_id=self.member_id, assignment=everything)] * leads,
        )
        answer = self._asked.ask(request, 5)
        given = read_assignment(bytes(answer.assignment))
        self._asked.tell(step, (ErrorCode(answer.error_code).name, None if given is None else len(given)))

    def beat(self, step: str, *, generation: int = 0) -> None:
        request = HeartbeatRequest(
            group_id=self._asked.group, generation_id=self.generation + generation, member_id=self.member_id
        )
        self._asked.tell(step, ErrorCode(self._asked.ask(request, 4).error_code).name)

    def commit(self, step: str, *, generation: int = 0, partition: int = 0, version: int = 8) -> None:
        row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=3)
        request = OffsetCommitRequest(
            group_id=self._asked.group,
            member_id=self.member_id,
            generation_id_or_member_epoch=self.generation + generation,
            topics=[OffsetCommitRequestTopic(name=self._asked.topic.name, partitions=[row])],
        )
        (told,) = self._asked.ask(request, version).topics[0].partitions
        self._asked.tell(step, ErrorCode(told.error_code).name)

    def _since(self) -> int:
        return self.generation - self.first


def mixed_life(asked: Asked) -> Told:
    """A classic member, one of the new protocol beside it, and the classic one alone again."""
    one, other = Classic(asked, "one"), Classic(asked, "other")
    one.join("one joins")
    one.sync("one assigns all to itself")
    one.beat("one alone")
    asked.told.append(("", ""))  # the first epoch is that of the classic group here
    told = asked.join("N joins", "N")
    asked.told[-1] = ("N joins", (told.error_code, told.member_epoch - one.first, asked.told[-1][1][2]))
    one.beat("one has to join")
    one.commit("a commit of before", partition=1)
    one.sync("one syncs before it joins")
    one.join("one joins again")
    one.commit("a commit between join and sync", partition=1)
    one.sync("one syncs")
    one.beat("one is settled")
    given = asked.ask(
        ConsumerGroupHeartbeatRequest(group_id=asked.group, member_id="N", member_epoch=told.member_epoch), 1
    )
    asked.tell("N has the others", sum(len(row.partitions) for row in given.assignment.topic_partitions))
    one.commit("a commit", partition=1)
    one.commit("a commit of a generation to come", generation=1, partition=1)
    one.commit("a commit of the generation before", generation=-1, partition=1)
    one.commit("a commit of the first generation, of version 9", generation=-1, partition=1, version=9)
    one.sync("of a wrong generation", generation=3)
    one.sync("of a member of the other protocol", member_id="N")
    one.sync("of another strategy", protocol="sticky")
    one.beat("in a wrong generation", generation=1)
    other.join("other with another strategy", protocol="sticky")
    other.join("other of another type", kind="connect")
    mixed(asked, "both protocols")
    asked.ask(ConsumerGroupHeartbeatRequest(group_id=asked.group, member_id="N", member_epoch=-1), 1)
    mixed(asked, "N has left")
    one.beat("one in its former generation")
    one.join("one joins a last time")
    one.sync("one assigns all to itself again")
    one.beat("one alone again")
    mixed(asked, "the end")
    return asked.told


def mixed(asked: Asked, step: str) -> None:
    (group,) = asked.ask(ConsumerGroupDescribeRequest(group_ids=[asked.group]), 1).groups
    asked.tell(
        step, (group.error_code, group.group_state, sorted(each.member_type for each in group.members))
    )
    listed = {each.group_id: each for each in asked.ask(ListGroupsRequest(), 5).groups}[asked.group]
    asked.tell(f"{step}, listed", (listed.group_type, listed.group_state, listed.protocol_type))


@pytest.fixture(scope="module")
def kafka() -> Iterator[Address]:
    with or_skip(running_apache_kafka) as server:
        yield address_of(server.bootstrap_servers)


def address_of(bootstrap_servers: str) -> Address:
    host, _, port = bootstrap_servers.partition(":")
    return host, int(port)


def name_of(request: Message) -> str:
    return type(request).__name__


@pytest.mark.parametrize("life", [live_through, static_life, mixed_life])
def test_each_step_is_answered_as_kafka_answers_it(kafka: Address, tmp_path, life) -> None:
    with RawConnection(kafka) as connection:
        expected = life(Asked(connection, life.__name__))
    with (
        BrokerProcess(tmp_path / "store") as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
    ):
        found = life(Asked(connection, life.__name__))
    assert found == expected
