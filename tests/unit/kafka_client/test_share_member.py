"""A member of a share group: what it acquires and acknowledges, and what it does when its session or itself is lost."""

from collections import deque

import pytest

from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.failures import KafkaRefusal
from siltstone.kafka_client.share_member import ACCEPT, CLOSES, GAP, RELEASE, SharingMember
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.share_acknowledge import (
    AcknowledgedPartition,
    AcknowledgedTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from siltstone.kafka_protocol.messages.share_fetch import (
    AcquiredRecords,
    ShareFetchedPartition,
    ShareFetchedTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from siltstone.kafka_protocol.messages.share_group_heartbeat import (
    AssignedSharePartitions,
    NewShareAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from siltstone.kafka_protocol.notation import Message
from support.kafka.answering_cluster import AnsweringCluster
from support.kafka.kafka_requests import batch_of

INTERVAL_MS = 5_000
T0 = TopicPartition("t", 0)


def told(epoch: int, *partitions: int, code: ErrorCode = ErrorCode.NONE) -> ShareGroupHeartbeatResponse:
    rows = [AssignedSharePartitions(topic_id=bytes(16), partitions=list(partitions))] if partitions else []
    assignment = NewShareAssignment(topic_partitions=rows) if epoch else None
    return ShareGroupHeartbeatResponse(
        error_code=code, member_epoch=epoch, heartbeat_interval_ms=INTERVAL_MS, assignment=assignment
    )


def fetched(
    *acquired: tuple[int, int], records: int = 0, code: ErrorCode = ErrorCode.NONE
) -> ShareFetchResponse:
    """``records``: of one batch from offset 0 on."""
    data = ShareFetchedPartition(
        index=0,
        records=[batch_of(records)] if records else [],
        acquired_records=[AcquiredRecords(first_offset=first, last_offset=last) for first, last in acquired],
    )
    return ShareFetchResponse(error_code=code, topics=[ShareFetchedTopic(partitions=[data])])


def acknowledged(code: ErrorCode = ErrorCode.NONE, of_partition: int = 0) -> ShareAcknowledgeResponse:
    row = AcknowledgedPartition(index=0, error_code=of_partition)
    return ShareAcknowledgeResponse(error_code=code, topics=[AcknowledgedTopic(partitions=[row])])


class World:
    """``answers``: what the brokers answer, in order."""

    def __init__(self, *answers: Message) -> None:
        self.waiting = deque(answers)
        classes = (ShareGroupHeartbeatRequest, ShareFetchRequest, ShareAcknowledgeRequest)
        self.cluster = AnsweringCluster(
            leaders={"t": [1, 1]}, coordinators={"g": 2}, answers=dict.fromkeys(classes, self._answer)
        )
        self.member = SharingMember(self.cluster, "g", "t")

    def _answer(self, _: int, request: Message) -> Message:
        answer = self.waiting.popleft()
        assert answer.api_key == request.api_key
        return answer

    @property
    def asked(self) -> list[Message]:
        return [request for _, request in self.cluster.asked]

    def offsets(self, limit: int = 10) -> list[int]:
        return [record.offset for _, record in self.member.fetch(0, limit)]


def test_only_what_is_acquired_is_fetched_and_each_offset_is_acknowledged() -> None:
    world = World(told(1, 0), fetched((1, 2), (4, 5), records=5), acknowledged(), fetched())
    assert world.offsets(7) == [1, 2, 4]
    join, fetch = world.asked
    assert (join.subscribed_topic_names, fetch.share_session_epoch, fetch.max_records) == (["t"], 0, 7)
    assert [row.index for row in fetch.topics[0].partitions] == [0]
    world.member.acknowledge({T0: [1, 4]})
    request = world.asked[-1]
    (row,) = request.topics[0].partitions
    found = [(each.first_offset, list(each.acknowledge_types)) for each in row.acknowledgement_batches]
    assert found == [(1, [ACCEPT, RELEASE]), (4, [ACCEPT, GAP])] and request.share_session_epoch == 1
    world.offsets()
    assert (world.asked[-1].share_session_epoch, world.asked[-1].topics) == (2, [])


@pytest.mark.parametrize("code", [ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH])
def test_a_session_that_is_lost_is_opened_again(code: ErrorCode) -> None:
    world = World(told(1, 0), fetched((0, 0), records=1), acknowledged(code), fetched())
    world.offsets()
    world.member.acknowledge({T0: [0]})
    world.offsets()
    assert world.asked[-1].share_session_epoch == 0 and world.asked[-1].topics
    world.waiting += [fetched(code=code), fetched()]
    assert world.offsets() == [] and world.offsets() == []
    assert world.asked[-1].share_session_epoch == 0


def test_a_session_is_opened_again_for_other_partitions() -> None:
    world = World(told(1, 0), fetched(), told(2, 0, 1), fetched())
    world.offsets()
    world.cluster.clock.advance_ms(INTERVAL_MS)
    world.offsets()
    assert world.asked[-1].share_session_epoch == 0
    assert [row.index for row in world.asked[-1].topics[0].partitions] == [0, 1]


def test_an_acknowledgement_that_comes_too_late_is_no_failure_and_another_error_is() -> None:
    late = acknowledged(of_partition=ErrorCode.INVALID_RECORD_STATE)
    refused = acknowledged(code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    world = World(told(1, 0), fetched((0, 0), records=1), late, fetched((0, 0), records=1), refused)
    world.offsets()
    world.member.acknowledge({T0: [0]})
    world.offsets()
    with pytest.raises(KafkaRefusal):
        world.member.acknowledge({T0: [0]})


def test_a_lost_member_joins_again() -> None:
    world = World(told(3, 0), fetched(), told(0, code=ErrorCode.UNKNOWN_MEMBER_ID), told(4, 0), fetched())
    world.offsets()
    world.cluster.clock.advance_ms(INTERVAL_MS)
    assert world.offsets() == []
    world.offsets()
    assert [request.member_epoch for request in world.asked if isinstance(request, ShareGroupHeartbeatRequest)] == [
        0, 3, 0,
    ]  # fmt: skip


def test_leaving_closes_the_sessions_once() -> None:
    world = World(told(1, 0), fetched((0, 1), records=2), acknowledged(), told(0))
    world.member.leave()
    world.offsets()
    world.member.leave()
    world.member.leave()
    closing, leaving = world.asked[-2:]
    assert (closing.share_session_epoch, closing.topics) == (CLOSES, [])
    assert leaving.member_epoch == -1 and not world.waiting
