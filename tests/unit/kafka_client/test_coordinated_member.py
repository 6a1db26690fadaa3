"""A member of a group of KIP-848: joins, gives back, is lost, commits and leaves."""

from collections import deque

import pytest

from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.coordinated_member import CoordinatedMember
from siltstone.kafka_client.failures import KafkaNotReady, KafkaRefusal
from siltstone.kafka_client.membership import NotCurrent
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.consumer_group_heartbeat import (
    AssignedPartitions,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    NewAssignment,
)
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from siltstone.kafka_protocol.notation import Message
from support.kafka.answering_cluster import AnsweringCluster

INTERVAL_MS = 5_000


def told(
    epoch: int, *partitions: int, nothing: bool = False, code: ErrorCode = ErrorCode.NONE
) -> ConsumerGroupHeartbeatResponse:
    rows = [AssignedPartitions(topic_id=bytes(16), partitions=list(partitions))] if partitions else []
    return ConsumerGroupHeartbeatResponse(
        error_code=code,
        member_epoch=epoch,
        heartbeat_interval_ms=INTERVAL_MS,
        assignment=None if nothing else NewAssignment(topic_partitions=rows),
    )


def committed(code: int) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[partition])])


class World:
    """``answers``: what the coordinator answers, in order."""

    def __init__(self, *answers: Message) -> None:
        self.waiting = deque(answers)
        classes = (ConsumerGroupHeartbeatRequest, OffsetCommitRequest)
        self.cluster = AnsweringCluster(
            leaders={"t": [1, 1, 1]}, coordinators={"g": 2}, answers=dict.fromkeys(classes, self._answer)
        )
        self.member = CoordinatedMember(self.cluster, "g", "t")

    def _answer(self, node_id: int, request: Message) -> Message:
        assert node_id == 2
        answer = self.waiting.popleft()
        assert answer.api_key == request.api_key
        return answer

    def later(self) -> bool:
        self.cluster.clock.advance_ms(INTERVAL_MS)
        return self.member.is_current()

    @property
    def asked(self) -> list[Message]:
        return [request for _, request in self.cluster.asked]


def parts(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("t", number) for number in numbers)


def test_a_member_says_everything_when_it_joins_and_little_later() -> None:
    world = World(told(1, 0, 1), told(1, nothing=True))
    assert not world.member.is_current()
    assert world.member.join() == parts(0, 1)
    (join,) = world.asked
    assert (join.member_epoch, join.subscribed_topic_names, join.topic_partitions) == (0, ["t"], [])
    assert world.member.is_current() and len(world.asked) == 1, "no heartbeat is due"
    assert world.later() and world.asked[-1].member_epoch == 1
    assert world.asked[-1].topic_partitions is None and world.asked[-1].member_id == join.member_id


def test_what_is_taken_away_is_reported_when_the_caller_has_stopped_reading_it() -> None:
    world = World(told(1, 0, 1), told(1, 0), told(2, nothing=True), told(2, 0, 2), told(2, nothing=True))
    world.member.join()
    assert not world.later() and not world.member.is_current()
    assert world.member.join() == parts(0)
    assert [row.partitions for row in world.asked[-1].topic_partitions] == [[0]]
    assert not world.later() and world.member.join() == parts(0, 2)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_lost_member_joins_as_a_new_one(code: ErrorCode) -> None:
    world = World(told(3, 0), told(0, code=code, nothing=True), told(5, 1))
    world.member.join()
    assert not world.later()
    assert world.member.join() == parts(1) and world.asked[-1].member_epoch == 0


def test_a_group_that_is_gone_is_joined_again() -> None:
    gone = told(0, code=ErrorCode.GROUP_ID_NOT_FOUND, nothing=True)
    world = World(told(3, 0), gone, told(1, 0))
    world.member.join()
    with pytest.raises(KafkaNotReady):
        world.later()
    assert world.member.join() == parts(0)


def test_another_error_is_a_refusal() -> None:
    world = World(told(0, code=ErrorCode.GROUP_ID_NOT_FOUND, nothing=True))
    with pytest.raises(KafkaRefusal):
        world.member.join()


def test_a_commit_has_the_epoch_and_fails_when_that_is_over() -> None:
    world = World(told(4, 0), committed(0), committed(ErrorCode.STALE_MEMBER_EPOCH))
    world.member.join()
    world.member.commit({parts(0)[0]: 7})
    assert world.asked[-1].generation_id_or_member_epoch == 4
    with pytest.raises(NotCurrent):
        world.member.commit({parts(0)[0]: 8})


def test_leaving_is_once_and_only_from_inside() -> None:
    world = World(told(1, 0), told(-1, nothing=True))
    world.member.leave()
    world.member.join()
    world.member.leave()
    world.member.leave()
    assert world.asked[-1].member_epoch == -1 and not world.waiting and not world.member.is_current()
