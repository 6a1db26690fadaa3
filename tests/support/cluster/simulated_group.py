"""Members of a consumer group of a simulated cluster: they join, share the partitions, read on from what was committed,
commit what they have read, leave, and come back. What they commit and find committed is in the history: an offset that
a member finds when it takes a partition over is never older than the last one that was acknowledged to another.
"""

from random import Random
from typing import Any

from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest
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
    OffsetFetchRequestTopics,
)
from siltstone.kafka_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from siltstone.kafka_protocol.notation import Message
from support.cluster.cluster_history import ClusterHistory, CommitSeen, Committed, Polled
from support.cluster.simulated_clients import Network, NoAnswer, SimulatedClient, records_in
from support.groups.consumer_bytes import subscription
from support.kafka.kafka_requests import fetch_request, row_of

GROUP = "shared"
SESSION_MS, REBALANCE_MS = 6_000, 5_000
PROTOCOL = {"protocol_type": "consumer", "protocol_name": "range"}

REJOIN = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}
LOST_ID = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}


class SimulatedMember(SimulatedClient):
    """``generation`` is None while it has no assignment."""

    def __init__(
        self, name: str, network: Network, topic: Topic, history: ClusterHistory, rng: Random
    ) -> None:
        super().__init__(name, network, topic, history, rng)
        self.member_id = ""
        self.generation: int | None = None
        self.positions: dict[int, int] = {}
        self.times_joined = 0
        self._coordinator: int | None = None

    async def act(self) -> None:
        if self.generation is None:
            await self._join()
        else:
            kind = self.rng.random()
            if kind < 0.3:
                await self._beat()
            elif kind < 0.75:
                await self._poll()
            elif kind < 0.98:
                await self._commit()
            else:
                await self._leave()
        await self.pause(300)

    # -- its place in the group ----------------------------------------------------------------------------

    async def _join(self) -> None:
        protocol = JoinGroupRequestProtocol(name="range", metadata=subscription(self.topic.name))
        request = JoinGroupRequest(
            group_id=GROUP, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id, protocol_type="consumer", protocols=[protocol],
        )  # fmt: skip
        joined = await self._ask_coordinator(request, 9)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return
        if self._is_refused(joined.error_code):
            return
        self.member_id = joined.member_id
        shares = self._shares([member.member_id for member in joined.members])
        synced = await self._ask_coordinator(
            SyncGroupRequest(
                group_id=GROUP, generation_id=joined.generation_id, member_id=self.member_id,
                assignments=[
                    SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(share))
                    for member_id, share in shares.items()
                ],
                **PROTOCOL,
            ),
            5,
        )  # fmt: skip
        if not self._is_refused(synced.error_code):
            self.positions = await self._committed([*bytes(synced.assignment)])
            self.generation = joined.generation_id
            self.times_joined += 1  # also in one generation, after an answer that was lost

    def _shares(self, member_ids: list[str]) -> dict[str, list[int]]:
        """Nothing for a member that does not lead the group, since its answer names no members."""
        partitions = range(len(self.topic.metadata.partitions))
        return {
            member_id: list(partitions[number :: len(member_ids)])
            for number, member_id in enumerate(sorted(member_ids))
        }

    async def _beat(self) -> None:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        self._is_refused((await self._ask_coordinator(request, 4)).error_code)

    async def _leave(self) -> None:
        identity = MemberIdentity(member_id=self.member_id)
        await self._ask_coordinator(LeaveGroupRequest(group_id=GROUP, members=[identity]), 5)
        self.member_id, self.generation = "", None

    def _is_refused(self, code: int) -> bool:
        """Notes what a refusal asks for."""
        error = ErrorCode(code)
        if error is ErrorCode.NONE:
            return False
        if error in LOST_ID:
            self.member_id = ""
        if error in LOST_ID | REJOIN:
            self.generation = None
        else:
            self._coordinator = None
        return True

    async def _ask_coordinator(self, request: Message, version: int) -> Any:
        if self._coordinator is None:
            answer = await self.network.ask(
                self.any_node(), FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
            )
            (found,) = answer.coordinators
            if found.error_code:
                raise NoAnswer
            self._coordinator = found.node_id
        try:
            return await self.network.ask(self._coordinator, request, version)
        except NoAnswer:
            self._coordinator = None
            raise

    # -- its partitions --------------------------------------------------------------------------------------

    async def _committed(self, partitions: list[int]) -> dict[int, int]:
        """Returns the offsets at which others have stopped. Raises NoAnswer, after which the member joins anew."""
        if not partitions:
            return {}
        wanted = OffsetFetchRequestTopics(name=self.topic.name, partition_indexes=partitions)
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[wanted])])
        begun_ms = self.clock.monotonic_ms()
        (group,) = (await self._ask_coordinator(request, 9)).groups
        rows = group.topics[0].partitions if not group.error_code else []
        if not rows or any(row.error_code for row in rows):
            self._coordinator = None
            raise NoAnswer
        for row in rows:
            self.history.commits_seen.append(
                CommitSeen(GROUP, row.partition_index, row.committed_offset, begun_ms)
            )
        return {row.partition_index: max(0, row.committed_offset) for row in rows}

    async def _poll(self) -> None:
        if not self.positions:
            return
        partition = self.rng.choice(sorted(self.positions))
        position = self.positions[partition]
        try:
            node_id = await self.leader_of(partition)
            row = row_of(await self.network.ask(node_id, fetch_request(self.topic, {partition: position})))
        except NoAnswer:
            self.forget_leader(partition)
            raise
        if row.error_code:
            self.forget_leader(partition)
            return
        if found := records_in(row, position):
            self.positions[partition] = found[-1][0] + 1
            told = tuple((offset, value) for offset, value, _ in found)
            consumer = f"{self.name}, joined {self.times_joined} times"
            self.history.polled.append(Polled(consumer, partition, node_id, told))

    async def _commit(self) -> None:
        if not self.positions:
            return
        partition = self.rng.choice(sorted(self.positions))
        position = self.positions[partition]
        row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=position)
        request = OffsetCommitRequest(
            group_id=GROUP, generation_id_or_member_epoch=self.generation, member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=self.topic.name, partitions=[row])],
        )  # fmt: skip
        begun_ms, ended_ms = self.clock.monotonic_ms(), None
        try:
            answer = await self._ask_coordinator(request, 9)
            if not self._is_refused(row_of(answer).error_code):
                ended_ms = self.clock.monotonic_ms()
        finally:
            self.history.commits.append(Committed(GROUP, partition, position, begun_ms, ended_ms))
