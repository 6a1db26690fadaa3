"""A member of a classic consumer group over a connection of its own: it sends the requests that the test asks for, in
any version."""

import time
from typing import Any

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest
from siltstone.kafka_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from siltstone.kafka_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.kafka_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from siltstone.kafka_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from support.groups.consumer_bytes import subscription
from support.kafka.raw_calls import RawTopic
from support.kafka.raw_kafka import ANSWER_S_MAX, RawConnection

LOADED_SECONDS_MAX = 60
"""A coordinator that reads its partition of ``__consumer_offsets`` says so, and clients ask again."""

GROUPS_SINCE = 8
"""The version of OffsetFetch from which a request names several groups."""


class RawMember:
    """``joined`` is the last answer to a JoinGroup."""

    def __init__(
        self,
        connection: RawConnection,
        group_id: str,
        *,
        instance_id: str | None = None,
        topics: tuple[str, ...] = ("t",),
        protocols: tuple[str, ...] = ("range",),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 10_000,
        version: int = 9,
        client_id: str = "raw",
    ) -> None:
        self.connection = connection
        self.group_id, self.instance_id = group_id, instance_id
        self.topics, self.protocols, self.protocol_type = topics, protocols, protocol_type
        self.session_ms, self.rebalance_ms = session_ms, rebalance_ms
        self.version, self.client_id = version, client_id
        self.member_id, self.generation = "", -1
        self.joined: Any = None

    # -- joining -----------------------------------------------------------------------------------------

    def join_request(self) -> JoinGroupRequest:
        metadata = subscription(*self.topics)
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in self.protocols],
        )

    def ask_to_join(self) -> Any:
        """Sends a JoinGroup and returns its answer, also an error."""
        return self.connection.ask(self.join_request(), self.version, client_id=self.client_id)

    def begin_join(self) -> None:
        """The JoinGroup that waits for the others; an id is fetched before if there has to be one."""
        if self.version >= 4 and not self.member_id and self.instance_id is None:
            answer = self.ask_to_join()
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            self.member_id = answer.member_id
        self.connection.send(self.join_request(), self.version, client_id=self.client_id)

    def end_join(self) -> Any:
        answer = self.connection.receive()
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        self.joined, self.member_id, self.generation = answer, answer.member_id, answer.generation_id
        return answer

    def join(self) -> Any:
        self.begin_join()
        return self.end_join()

    @property
    def is_leader(self) -> bool:
        return bool(self.joined.leader == self.member_id)

    # -- syncing -----------------------------------------------------------------------------------------

    def begin_sync(self, assignments: dict[str, bytes] | None = None) -> None:
        """A leader gives every member its own id as its assignment, unless the test gives another one."""
        if assignments is None and self.is_leader:
            assignments = {member.member_id: member.member_id.encode() for member in self.joined.members}
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocol_name=self.joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )
        self.connection.send(request, min(self.version, 5))

    def end_sync(self) -> bytes:
        answer = self.connection.receive()
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        return bytes(answer.assignment)

    def sync(self, assignments: dict[str, bytes] | None = None) -> bytes:
        self.begin_sync(assignments)
        return self.end_sync()

    # -- staying and going -------------------------------------------------------------------------------

    def beat(self, **other: Any) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=other.get("generation", self.generation),
            member_id=other.get("member_id", self.member_id),
            group_instance_id=other.get("instance_id", self.instance_id),
        )
        return ErrorCode(self.connection.ask(request, 4).error_code)

    def await_rebalance(self) -> None:
        """Sends heartbeats until the member has to join again; the others have been heard then."""
        deadline = time.monotonic() + ANSWER_S_MAX
        while (told := self.beat()) != ErrorCode.REBALANCE_IN_PROGRESS:
            assert told == ErrorCode.NONE, told
            assert time.monotonic() < deadline, "no rebalance"

    def leave(self) -> ErrorCode:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        answer = self.connection.ask(LeaveGroupRequest(group_id=self.group_id, members=[identity]), 5)
        assert answer.error_code == 0
        return ErrorCode(answer.members[0].error_code)

    # -- offsets -----------------------------------------------------------------------------------------

    def commit(
        self,
        topic: RawTopic,
        offset: int,
        *,
        partition: int = 0,
        version: int = 8,
        metadata: str | None = "",
        **other: Any,
    ) -> ErrorCode:
        row = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=other.get("generation", self.generation),
            member_id=other.get("member_id", self.member_id),
            group_instance_id=other.get("instance_id", self.instance_id),
            topics=[OffsetCommitRequestTopic(name=topic.name, topic_id=topic.id, partitions=[row])],
        )
        deadline = time.monotonic() + LOADED_SECONDS_MAX
        while True:
            (answered,) = self.connection.ask(request, version).topics
            error = ErrorCode(answered.partitions[0].error_code)
            if error is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or time.monotonic() > deadline:
                return error
            time.sleep(0.02)


def joined(*members: RawMember) -> None:
    """Lets members join one after the other, the first one as the leader, until all have one generation. There is no
    initial delay."""
    for number, newcomer in enumerate(members):
        newcomer.begin_join()
        for known in members[:number]:
            known.await_rebalance()
            known.begin_join()
        for each in members[: number + 1]:
            each.end_join()
    assert members[0].is_leader


def assembled(*members: RawMember) -> None:
    """The same, with assignments: each its own id."""
    joined(*members)
    for each in members:
        each.begin_sync()
    for each in members:
        assert each.end_sync() == each.member_id.encode()


def offset_fetch_request(
    group_id: str, topic: RawTopic | None, partitions: list[int], version: int, **fields: Any
) -> OffsetFetchRequest:
    """``topic`` None: all that were committed."""
    if version < GROUPS_SINCE:
        one = (
            None
            if topic is None
            else [OffsetFetchRequestTopic(name=topic.name, partition_indexes=partitions)]
        )
        return OffsetFetchRequest(group_id=group_id, topics=one, **fields)
    several = (
        None
        if topic is None
        else [OffsetFetchRequestTopics(name=topic.name, topic_id=topic.id, partition_indexes=partitions)]
    )
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=several)], **fields)


def committed(
    connection: RawConnection, group_id: str, topic: RawTopic | None, *partitions: int, version: int = 9
) -> dict[int, tuple[int, str | None]]:
    """Offset and metadata of each partition; an error of the group or of a partition fails."""
    answer = connection.ask(offset_fetch_request(group_id, topic, list(partitions), version), version)
    of_group = answer.groups[0] if version >= GROUPS_SINCE else answer
    assert of_group.error_code == 0
    rows = [row for each in of_group.topics for row in each.partitions]
    assert {row.error_code for row in rows} <= {0}
    return {row.partition_index: (row.committed_offset, row.metadata) for row in rows}
