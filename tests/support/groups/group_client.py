"""A consumer as clients behave: it joins, syncs, beats and commits, and does what the answers say."""

import asyncio
from typing import Any

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_groups import DescribeGroupsRequest
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
from support.groups.groups_world import GroupsWorld

GROUP = "readers"


def join_request(
    member_id: str = "",
    *,
    group: str = GROUP,
    instance: str | None = None,
    topics: tuple[str, ...] = ("flights",),
    protocols: tuple[str, ...] = ("range",),
    protocol_type: str = "consumer",
    session_ms: int = 10_000,
    rebalance_ms: int = 60_000,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=subscription(*topics)) for name in protocols],
    )


def commit_request(
    offset: int,
    *,
    partition: int = 0,
    group: str = GROUP,
    member_id: str = "",
    generation: int = -1,
    instance: str | None = None,
    topic: str = "flights",
    topic_id: bytes = bytes(16),
    metadata: str | None = "",
    retention_ms: int = -1,
    leader_epoch: int = -1,
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        retention_time_ms=retention_ms,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=leader_epoch,
                        committed_metadata=metadata,
                    )
                ],
            )
        ],
    )


class GroupClient:
    """``assignment`` is what it was given last; a leader gives everybody its own member id."""

    def __init__(self, world: GroupsWorld, name: str, version: int = 9, **join: Any) -> None:
        self.world = world
        self.name = name
        self.version = version
        self.join = join
        self.group: str = join.get("group", GROUP)
        self.instance: str | None = join.get("instance")
        self.member_id = ""
        self.generation = -1
        self.joined: Any = None
        self.assignment: bytes | None = None

    async def begin_join(self) -> "asyncio.Task[Any]":
        """The request that waits for the join phase to end; an id is fetched before if there has to be one."""
        task = await self._join_once()
        if task.done() and task.result().error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = task.result().member_id
            task = await self._join_once()
        return task

    async def _join_once(self) -> "asyncio.Task[Any]":
        request = join_request(self.member_id, **self.join)
        return await self.world.begin(request, self.version, self.name)

    def has_joined(self, answer: Any) -> None:
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        self.joined, self.member_id, self.generation = answer, answer.member_id, answer.generation_id

    @property
    def is_leader(self) -> bool:
        return bool(self.joined.leader == self.member_id)

    def sync_request(self, assignments: dict[str, bytes] | None = None) -> SyncGroupRequest:
        if assignments is None and self.is_leader and not self.joined.skip_assignment:
            assignments = {member.member_id: member.member_id.encode() for member in self.joined.members}
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name=self.joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )

    async def begin_sync(self) -> "asyncio.Task[Any]":
        return await self.world.begin(self.sync_request(), min(self.version, 5))

    async def beat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        return ErrorCode((await self.world.ask(request, 4)).error_code)

    async def commit(self, offset: int, version: int = 8, **changes: Any) -> ErrorCode:
        asked = {"member_id": self.member_id, "generation": self.generation, "instance": self.instance}
        request = commit_request(offset, group=self.group, **(asked | changes))
        response = await self.world.ask(request, version)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    async def leave(self) -> ErrorCode:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        response = await self.world.ask(LeaveGroupRequest(group_id=self.group, members=[identity]), 5)
        return ErrorCode(response.members[0].error_code)


async def all_join(*clients: GroupClient) -> None:
    """Whoever takes part in the rebalance, and it ends."""
    tasks = [await client.begin_join() for client in clients]
    for _ in range(100):
        if all(task.done() for task in tasks):
            break
        await clients[0].world.pass_ms(10, steps=1)
    for client, task in zip(clients, tasks, strict=True):
        client.has_joined(task.result())


async def all_sync(*clients: GroupClient) -> None:
    """The leader last."""
    ordered = sorted(clients, key=lambda client: client.is_leader)
    tasks = [(client, await client.begin_sync()) for client in ordered]
    for client, task in tasks:
        assert task.result().error_code == ErrorCode.NONE, ErrorCode(task.result().error_code)
        client.assignment = bytes(task.result().assignment)


async def stable_group(world: GroupsWorld, *names: str, **join: Any) -> list[GroupClient]:
    """The first leads."""
    clients = [GroupClient(world, name, **join) for name in names]
    await all_join(*clients)
    await all_sync(*clients)
    return clients


async def committed(world: GroupsWorld, group: str = GROUP) -> dict[tuple[str, int], int]:
    """Returns every offset of the group, as OffsetFetch answers."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    (fetched,) = (await world.ask(request, 9)).groups
    assert fetched.error_code == ErrorCode.NONE, ErrorCode(fetched.error_code)
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in fetched.topics
        for partition in topic.partitions
    }


async def commit(world: GroupsWorld, request: Any, version: int = 8) -> ErrorCode:
    """The error of its first partition."""
    response = await world.ask(request, version)
    return ErrorCode(response.topics[0].partitions[0].error_code)


def fetch_request(version: int, group: str, topic: str, *partitions: int, topic_id: bytes = bytes(16)) -> Any:
    """OffsetFetch, of one group."""
    if version < 8:
        topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))]
        return OffsetFetchRequest(group_id=group, topics=topics)
    several = [OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=list(partitions))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=several)])


async def describe(world: GroupsWorld, group: str = GROUP, version: int = 5) -> Any:
    (described,) = (await world.ask(DescribeGroupsRequest(groups=[group]), version)).groups
    return described


async def state(world: GroupsWorld) -> str:
    return str((await describe(world)).group_state)
