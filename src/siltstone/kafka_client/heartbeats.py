"""The heartbeats of a member of a group whose coordinator assigns the partitions: a consumer group of KIP-848, or a
share group (KIP-932).

``GroupHeartbeats`` holds what a member of either kind knows of its place in the group. It blocks, and sends a heartbeat
only when its caller says so: ``coordinated_member`` and ``share_member`` decide what a heartbeat says, and what follows
from the answer.
"""

from typing import Generic, TypeVar
from uuid import UUID

from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import Connection
from siltstone.kafka_client.failures import refuse_error
from siltstone.kafka_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from siltstone.kafka_protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

JOINS, LEAVES = 0, -1
"""Epochs of a member that joins, and of one that leaves."""

Answer = TypeVar("Answer", ConsumerGroupHeartbeatResponse, ShareGroupHeartbeatResponse)


class GroupHeartbeats(Generic[Answer]):
    """``epoch``: of the member; JOINS outside of the group. ``assigned``: its partitions of ``topic``, by number."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topic: str,
        request: type[ConsumerGroupHeartbeatRequest] | type[ShareGroupHeartbeatRequest],
        answer: type[Answer],
    ) -> None:
        self._cluster = cluster
        self._request = request
        self._answer: type[Answer] = answer
        self._due_ms = 0.0
        self.group_id = group_id
        self.topic = topic
        self.topic_id = bytes(16)
        self.member_id = str(UUID(int=cluster.rng.getrandbits(128), version=4))
        self.epoch = JOINS
        self.assigned: frozenset[int] = frozenset()

    @property
    def is_due(self) -> bool:
        return self._cluster.clock.monotonic_ms() >= self._due_ms

    def learn_topic(self) -> None:
        """Raises KafkaRefusal if the topic does not exist."""
        (topic,) = self._cluster.learn([self.topic])
        refuse_error(topic.error_code, f"topic {self.topic}")
        self.topic_id = topic.topic_id

    def send(self, epoch: int, **said: object) -> Answer:
        """Sends a heartbeat with this epoch, and returns the answer as it is."""
        request = self._request(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            **said,  # type: ignore[arg-type]
        )
        answer: Answer = self.coordinator().call(request, self._answer)
        return answer

    def take(self, answer: Answer) -> bool:
        """Takes epoch and partitions from the answer, and returns whether the partitions have changed. Raises
        KafkaRefusal for an answer with an error."""
        refuse_error(answer.error_code, f"group {self.group_id}", answer.error_message)
        self.epoch = answer.member_epoch
        self._due_ms = self._cluster.clock.monotonic_ms() + answer.heartbeat_interval_ms
        if answer.assignment is None:
            return False
        before = self.assigned
        self.assigned = frozenset(
            number
            for row in answer.assignment.topic_partitions
            if row.topic_id == self.topic_id
            for number in row.partitions
        )
        return self.assigned != before

    def lose(self) -> None:
        """The member is outside of the group, and has no partitions any more."""
        self.epoch, self.assigned = JOINS, frozenset()

    def coordinator(self) -> Connection:
        (node_id,) = self._cluster.coordinators_of([self.group_id])
        return self._cluster.broker(node_id)
