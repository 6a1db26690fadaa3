from collections import deque

import pytest

from siltstone.kafka_client.assigning import written_assignment, written_subscription
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.failures import KafkaRefusal
from siltstone.kafka_client.groups import assigned_partitions
from siltstone.kafka_client.membership import HEARTBEAT_INTERVAL_MS, GroupMember, NotCurrent
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from siltstone.kafka_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from siltstone.kafka_protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from siltstone.kafka_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from siltstone.kafka_protocol.notation import Message
from support.kafka.answering_cluster import AnsweringCluster

MINE = TopicPartition("t", 0)


def joined(leader: str = "m", member: str = "m", generation: int = 1, **others: bytes) -> JoinGroupResponse:
    members = [JoinGroupResponseMember(member_id=name, metadata=data) for name, data in others.items()]
    return JoinGroupResponse(
        generation_id=generation, protocol_name="range", leader=leader, member_id=member, members=members
    )


def synced(*partitions: TopicPartition) -> SyncGroupResponse:
    return SyncGroupResponse(assignment=written_assignment(partitions))


def committed(code: int = 0) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[partition])])


class World:
    """``answers``: what the coordinator answers to the next requests of each class, in order."""

    def __init__(self, *answers: Message) -> None:
        self._waiting = deque(answers)
        classes = (
            JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest, OffsetCommitRequest,
        )  # fmt: skip
        self.cluster = AnsweringCluster(
            leaders={"t": [1, 1, 1]}, coordinators={"g": 2}, answers=dict.fromkeys(classes, self._answer)
        )
        self.member = GroupMember(self.cluster, "g", "t")

    def _answer(self, node_id: int, request: Message) -> Message:
        assert node_id == 2
        answer = self._waiting.popleft()
        assert answer.api_key == request.api_key
        return answer

    @property
    def asked(self) -> list[Message]:
        return [request for _, request in self.cluster.asked]


def test_a_member_takes_the_id_that_it_is_given_and_then_joins() -> None:
    asks_again = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m")
    world = World(asks_again, joined(leader="other"), synced(MINE))
    assert world.member.join() == (MINE,)
    first, second, sync = world.asked
    assert (first.member_id, second.member_id) == ("", "m")
    assert second.protocols[0].metadata == written_subscription(["t"])
    assert (sync.generation_id, sync.member_id, sync.assignments) == (1, "m", [])


def test_the_leader_gives_every_member_its_partitions() -> None:
    t = written_subscription(["t"])
    world = World(joined(m=t, n=t), synced(MINE))
    world.member.join()
    assigned = {each.member_id: assigned_partitions(each.assignment) for each in world.asked[1].assignments}
    assert assigned == {
        "m": (MINE, TopicPartition("t", 1)),
        "n": (TopicPartition("t", 2),),
    }


def test_a_rebalance_during_the_sync_means_to_join_again() -> None:
    world = World(
        joined(),
        SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS),
        joined(generation=2),
        synced(MINE),
    )
    assert world.member.join() == (MINE,)
    assert [type(request).__name__ for request in world.asked] == ["JoinGroupRequest", "SyncGroupRequest"] * 2


def test_a_member_whom_the_group_has_forgotten_joins_as_a_new_one() -> None:
    world = World(
        joined(),
        synced(MINE),
        JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID),
        joined(member="n"),
        synced(),
    )
    world.member.join()
    assert world.member.join() == ()
    assert [request.member_id for request in world.asked if isinstance(request, JoinGroupRequest)] == [
        "",
        "m",
        "",
    ]


def test_a_heartbeat_goes_out_when_it_is_due_and_tells_of_a_rebalance() -> None:
    again = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    world = World(joined(), synced(MINE), HeartbeatResponse(), again)
    assert not world.member.is_current()
    world.member.join()
    assert world.member.is_current() and len(world.asked) == 2
    world.cluster.clock.advance_ms(HEARTBEAT_INTERVAL_MS)
    assert world.member.is_current() and len(world.asked) == 3
    assert world.member.is_current() and len(world.asked) == 3
    world.cluster.clock.advance_ms(HEARTBEAT_INTERVAL_MS)
    assert not world.member.is_current()


@pytest.mark.parametrize(
    "code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID]
)
def test_a_commit_of_an_old_generation_is_not_taken(code: ErrorCode) -> None:
    world = World(joined(), synced(MINE), committed(), committed(code))
    world.member.join()
    world.member.commit({MINE: 7})
    request = world.asked[-1]
    assert (request.generation_id_or_member_epoch, request.member_id) == (1, "m")
    assert request.topics[0].partitions[0].committed_offset == 7
    with pytest.raises(NotCurrent):
        world.member.commit({MINE: 8})


def test_another_error_is_a_refusal() -> None:
    world = World(JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    with pytest.raises(KafkaRefusal, match="another way than range"):
        world.member.join()


def test_leaving_is_once_and_only_from_inside() -> None:
    world = World(joined(), synced(MINE), LeaveGroupResponse())
    world.member.leave()
    world.member.join()
    world.member.leave()
    world.member.leave()
    assert world.asked[-1].members[0].member_id == "m" and not world.member.is_current()
