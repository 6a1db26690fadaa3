"""Membership of a consumer group: joins, heartbeats, commits, leaves.

``GroupMember`` blocks and has no thread: its caller calls ``is_current`` between fetches, at least every few seconds,
which sends the heartbeats. A member that was lost, or whose group rebalances, joins again with ``join``.
"""

from collections.abc import Mapping

import msgspec

from siltstone.kafka_client.assigning import (
    RANGE,
    assigned_by_range,
    subscribed_topics,
    written_assignment,
    written_subscription,
)
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import ANSWER_TIME_LIMIT_MS, Connection
from siltstone.kafka_client.failures import refuse_error
from siltstone.kafka_client.groups import assigned_partitions, offset_commit_topics
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from siltstone.kafka_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from siltstone.kafka_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from siltstone.kafka_protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from siltstone.kafka_protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from siltstone.model.errors import Unavailable

PROTOCOL_TYPE = "consumer"
SESSION_TIMEOUT_MS = 45_000
"""The default of Kafka's clients [Kafka: session.timeout.ms]."""

REBALANCE_TIMEOUT_MS = 60_000
"""How long the group waits for its members to join again; a slow reader of a pipe may delay this member."""

HEARTBEAT_INTERVAL_MS = 3_000
"""The default of Kafka's clients [Kafka: heartbeat.interval.ms]."""

_JOIN_AGAIN = frozenset({
    ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID,
})  # fmt: skip


_NOT_COMMITTED = _JOIN_AGAIN | {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.FENCED_MEMBER_EPOCH}


class NotCurrent(Unavailable):
    """The group has rebalanced, or has lost the member: offsets are not committed, and the member has to join again."""


class MemberPlace(msgspec.Struct, frozen=True):
    """The place of a member in its group; ``generation`` -1 and an empty ``member_id`` outside of any."""

    member_id: str = ""
    generation: int = -1


class GroupMember:
    """One member of ``group_id`` that reads ``topic``. Every method raises KafkaRefusal, and Unavailable, after which
    the caller may reconnect the cluster and continue."""

    def __init__(self, cluster: Cluster, group_id: str, topic: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._topic = topic
        self._place = MemberPlace()
        self._heartbeat_due_ms = 0.0

    def join(self) -> tuple[TopicPartition, ...]:
        """Joins, or joins again; returns the partitions of this member when the whole group has joined."""
        while True:
            self._cluster.learn([self._topic])
            joined = self._joined()
            synced = self._synced(joined)
            if synced is not None:
                self._heartbeat_due_ms = self._cluster.clock.monotonic_ms() + HEARTBEAT_INTERVAL_MS
                return assigned_partitions(synced.assignment)

    def _joined(self) -> JoinGroupResponse:
        while True:
            request = JoinGroupRequest(
                group_id=self._group_id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self._place.member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[
                    JoinGroupRequestProtocol(name=RANGE, metadata=written_subscription([self._topic]))
                ],
            )
            answer = self._coordinator().call(
                request, JoinGroupResponse, REBALANCE_TIMEOUT_MS + ANSWER_TIME_LIMIT_MS
            )
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._place = MemberPlace(answer.member_id)
            elif answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID and self._place.member_id:
                self._place = MemberPlace()
            else:
                refuse_error(answer.error_code, f"group {self._group_id}")
                self._place = MemberPlace(answer.member_id, answer.generation_id)
                return answer

    def _synced(self, joined: JoinGroupResponse) -> SyncGroupResponse | None:
        """Returns None if the group has started another rebalance meanwhile."""
        is_leader = joined.leader == joined.member_id
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self._place.generation,
            member_id=self._place.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=self._assignments(joined) if is_leader else [],
        )
        answer = self._coordinator().call(
            request, SyncGroupResponse, REBALANCE_TIMEOUT_MS + ANSWER_TIME_LIMIT_MS
        )
        if answer.error_code in _JOIN_AGAIN:
            if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._place = MemberPlace()
            return None
        refuse_error(answer.error_code, f"group {self._group_id}")
        return answer

    def _assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        subscriptions = {member.member_id: subscribed_topics(member.metadata) for member in joined.members}
        topics = sorted({topic for topics in subscriptions.values() for topic in topics})
        partitions = {
            topic.name or "": [partition.partition_index for partition in topic.partitions]
            for topic in self._cluster.learn(topics)
            if not topic.error_code
        }
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=written_assignment(theirs))
            for member, theirs in assigned_by_range(subscriptions, partitions).items()
        ]

    def is_current(self) -> bool:
        """Sends a heartbeat if one is due. False: the member has to join again."""
        if self._place.generation < 0:
            return False
        now_ms = self._cluster.clock.monotonic_ms()
        if now_ms < self._heartbeat_due_ms:
            return True
        request = HeartbeatRequest(
            group_id=self._group_id, generation_id=self._place.generation, member_id=self._place.member_id
        )
        answer = self._coordinator().call(request, HeartbeatResponse)
        if answer.error_code in _JOIN_AGAIN:
            return False
        refuse_error(answer.error_code, f"group {self._group_id}")
        self._heartbeat_due_ms = now_ms + HEARTBEAT_INTERVAL_MS
        return True

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits the next offset of each partition. Raises NotCurrent when the member has to join again first."""
        place = self._place
        commit_as_member(self._coordinator(), self._group_id, place.member_id, place.generation, offsets)

    def leave(self) -> None:
        """Leaves the group, so that the others get the partitions at once. Errors are not reported: a member that does
        not leave is removed when its session ends."""
        if not self._place.member_id:
            return
        members = [MemberIdentity(member_id=self._place.member_id)]
        request = LeaveGroupRequest(group_id=self._group_id, member_id=self._place.member_id, members=members)
        self._place = MemberPlace()
        self._coordinator().call(request, LeaveGroupResponse)

    def _coordinator(self) -> Connection:
        (node_id,) = self._cluster.coordinators_of([self._group_id])
        return self._cluster.broker(node_id)


def commit_as_member(
    coordinator: Connection,
    group_id: str,
    member_id: str,
    generation: int,
    offsets: Mapping[TopicPartition, int],
) -> None:
    """``generation``: or the epoch of a member of KIP-848. Raises NotCurrent when the member has to join again."""
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=offset_commit_topics(offsets),
    )
    answer = coordinator.call(request, OffsetCommitResponse)
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code in _NOT_COMMITTED:
                raise NotCurrent(
                    f"group {group_id} has rebalanced: offsets of {topic.name} are not committed"
                )
            refuse_error(partition.error_code, f"group {group_id}, {topic.name}-{partition.partition_index}")
