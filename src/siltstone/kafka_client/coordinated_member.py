"""Membership of a consumer group of KIP-848: the coordinator assigns the partitions, and heartbeats say so.

``CoordinatedMember`` has the methods of ``membership.GroupMember``, and blocks as that does. When a heartbeat takes
partitions away or gives some, ``is_current`` says that the member has to ``join`` again, which reports what it has now:
its caller reads and commits nothing of the others from then on.
"""

from collections.abc import Mapping

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.failures import KafkaNotReady
from siltstone.kafka_client.heartbeats import JOINS, LEAVES, GroupHeartbeats
from siltstone.kafka_client.membership import REBALANCE_TIMEOUT_MS, commit_as_member
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedPartitions,
)

_LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class CoordinatedMember:
    """One member of ``group_id`` that reads ``topic``. Every method raises KafkaRefusal, and Unavailable, after which
    the caller may reconnect the cluster and continue."""

    def __init__(self, cluster: Cluster, group_id: str, topic: str) -> None:
        self._heartbeats = GroupHeartbeats(
            cluster, group_id, topic, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
        )
        self._has_changed = True

    def join(self) -> tuple[TopicPartition, ...]:
        """Joins, or reports what the member has; returns its partitions."""
        heartbeats = self._heartbeats
        heartbeats.learn_topic()
        while self._has_changed:
            self._has_changed = False
            if heartbeats.epoch != JOINS:
                self._beat(sorted(heartbeats.assigned))
            elif not self._joined():
                self._has_changed = True
        return tuple(TopicPartition(heartbeats.topic, number) for number in sorted(heartbeats.assigned))

    def is_current(self) -> bool:
        """Sends a heartbeat if one is due. False: the member has to join again."""
        if self._heartbeats.epoch == JOINS or self._has_changed:
            return False
        if self._heartbeats.is_due:
            self._beat(None)
        return not self._has_changed

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits the next offset of each partition. Raises NotCurrent when the member has to join again first."""
        its = self._heartbeats
        commit_as_member(its.coordinator(), its.group_id, its.member_id, its.epoch, offsets)

    def leave(self) -> None:
        """Leaves the group, so that the others get the partitions at once. Errors are not reported: a member that does
        not leave is removed when its session ends."""
        if self._heartbeats.epoch != JOINS:
            self._lose()
            self._heartbeats.send(LEAVES)

    def _joined(self) -> bool:
        """Returns False while the group does not know yet that the member of before is gone."""
        answer = self._heartbeats.send(
            JOINS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[self._heartbeats.topic],
            topic_partitions=[],
        )
        if answer.error_code in _LOST:
            return False
        self._heartbeats.take(answer)
        return True

    def _beat(self, owned: list[int] | None) -> None:
        """``owned``: what the member has; None if nothing has changed."""
        heartbeats = self._heartbeats
        rows = [OwnedPartitions(topic_id=heartbeats.topic_id, partitions=owned)] if owned else []
        answer = heartbeats.send(heartbeats.epoch, topic_partitions=None if owned is None else rows)
        if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            self._lose()
            text = f"group {heartbeats.group_id} is not there: joining again"
            raise KafkaNotReady(ErrorCode.GROUP_ID_NOT_FOUND, text)
        if answer.error_code in _LOST:
            self._lose()
        else:
            self._has_changed |= heartbeats.take(answer)

    def _lose(self) -> None:
        self._heartbeats.lose()
        self._has_changed = True
