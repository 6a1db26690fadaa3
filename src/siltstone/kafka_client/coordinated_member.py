"""Membership of a consumer group of KIP-848: the coordinator assigns the partitions, and heartbeats say so.

``CoordinatedMember`` has the methods of ``membership.GroupMember``, and blocks as that does. When a heartbeat takes
partitions away or gives some, ``is_current`` says that the member has to ``join`` again, which reports what it has now:
its caller reads and commits nothing of the others from then on.
"""

from collections.abc import Mapping
from uuid import UUID

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import Connection
from siltstone.kafka_client.failures import KafkaNotReady, refuse_error
from siltstone.kafka_client.membership import REBALANCE_TIMEOUT_MS, commit_as_member
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedPartitions,
)

JOINS, LEAVES = 0, -1
_LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class CoordinatedMember:
    """One member of ``group_id`` that reads ``topic``. Every method raises KafkaRefusal, and Unavailable, after which
    the caller may reconnect the cluster and continue."""

    def __init__(self, cluster: Cluster, group_id: str, topic: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._topic = topic
        self._member_id = str(UUID(int=cluster.rng.getrandbits(128), version=4))
        self._topic_id = bytes(16)
        self._epoch = JOINS
        self._assigned: frozenset[int] = frozenset()
        self._has_changed = True
        self._heartbeat_due_ms = 0.0

    def join(self) -> tuple[TopicPartition, ...]:
        """Joins, or reports what the member has; returns its partitions."""
        self._learn_topic()
        while self._has_changed:
            self._has_changed = False
            if self._epoch != JOINS:
                self._beat(sorted(self._assigned))
            elif not self._joined():
                self._has_changed = True
        return tuple(TopicPartition(self._topic, number) for number in sorted(self._assigned))

    def is_current(self) -> bool:
        """Sends a heartbeat if one is due. False: the member has to join again."""
        if self._epoch == JOINS or self._has_changed:
            return False
        if self._cluster.clock.monotonic_ms() >= self._heartbeat_due_ms:
            self._beat(None)
        return not self._has_changed

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits the next offset of each partition. Raises NotCurrent when the member has to join again first."""
        commit_as_member(self._coordinator(), self._group_id, self._member_id, self._epoch, offsets)

    def leave(self) -> None:
        """Leaves the group, so that the others get the partitions at once. Errors are not reported: a member that does
        not leave is removed when its session ends."""
        if self._epoch != JOINS:
            self._lose()
            self._call(LEAVES)

    def _learn_topic(self) -> None:
        (topic,) = self._cluster.learn([self._topic])
        refuse_error(topic.error_code, f"topic {self._topic}")
        self._topic_id = topic.topic_id

    def _joined(self) -> bool:
        """Returns False while the group does not know yet that the member of before is gone."""
        answer = self._call(
            JOINS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[self._topic],
            topic_partitions=[],
        )
        if answer.error_code in _LOST:
            return False
        self._take(answer)
        self._has_changed = False
        return True

    def _beat(self, owned: list[int] | None) -> None:
        """``owned``: what the member has; None if nothing has changed."""
        rows = [OwnedPartitions(topic_id=self._topic_id, partitions=owned)] if owned else []
        answer = self._call(self._epoch, topic_partitions=None if owned is None else rows)
        if answer.error_code in _LOST:
            self._lose()
        else:
            self._take(answer)

    def _take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        refuse_error(answer.error_code, f"group {self._group_id}", answer.error_message)
        self._epoch = answer.member_epoch
        self._heartbeat_due_ms = self._cluster.clock.monotonic_ms() + answer.heartbeat_interval_ms
        if answer.assignment is None:
            return
        rows = answer.assignment.topic_partitions
        given = frozenset(
            number for row in rows if row.topic_id == self._topic_id for number in row.partitions
        )
        self._has_changed |= given != self._assigned
        self._assigned = given

    def _lose(self) -> None:
        self._epoch, self._assigned, self._has_changed = JOINS, frozenset(), True

    def _call(self, epoch: int, **said: object) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            **said,  # type: ignore[arg-type]
        )
        answer = self._coordinator().call(request, ConsumerGroupHeartbeatResponse)
        if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND and epoch != JOINS:
            self._lose()
            raise KafkaNotReady(
                ErrorCode.GROUP_ID_NOT_FOUND, f"group {self._group_id} is not there: joining again"
            )
        return answer

    def _coordinator(self) -> Connection:
        (node_id,) = self._cluster.coordinators_of([self._group_id])
        return self._cluster.broker(node_id)
