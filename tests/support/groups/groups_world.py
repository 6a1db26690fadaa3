"""All groups of a node on a log in memory and a manual clock, asked by messages of a version as clients send them."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from siltstone.broker.group_configs import settings_of_group
from siltstone.broker.groups.apis.consumer_describe import handle_consumer_group_describe
from siltstone.broker.groups.apis.consumer_heartbeat import handle_consumer_group_heartbeat
from siltstone.broker.groups.apis.delete_groups import handle_delete_groups
from siltstone.broker.groups.apis.describe_groups import handle_describe_groups
from siltstone.broker.groups.apis.list_groups import handle_list_groups
from siltstone.broker.groups.apis.membership import (
    handle_heartbeat,
    handle_join_group,
    handle_leave_group,
    handle_sync_group,
)
from siltstone.broker.groups.apis.offset_commit import handle_offset_commit
from siltstone.broker.groups.apis.offset_delete import handle_offset_delete
from siltstone.broker.groups.apis.offset_fetch import handle_offset_fetch
from siltstone.broker.groups.apis.share_describe import handle_share_group_describe
from siltstone.broker.groups.apis.share_heartbeat import handle_share_group_heartbeat
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.request import ConnectionContext, Listener, RequestContext
from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.notation import Message
from siltstone.runtime.clock import ManualClock
from support.groups.group_logs import LogsOfOneLife, MemoryGroupLogs

T = TypeVar("T")


class FakeTopic(msgspec.Struct, frozen=True):
    name: str
    topic_id: bytes
    partition_count: int
    created_ms: int = 0


class FakeTopics:
    def __init__(self, **partition_counts: int) -> None:
        self.topics = {
            name: FakeTopic(name, name.encode().ljust(16, b"."), count)
            for name, count in partition_counts.items()
        }

    def by_name(self, name: str) -> FakeTopic | None:
        return self.topics.get(name)

    def by_id(self, topic_id: bytes) -> FakeTopic | None:
        return next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def all(self) -> tuple[FakeTopic, ...]:
        return tuple(self.topics.values())


def context(version: int, client_id: str | None = "client") -> RequestContext:
    connection = ConnectionContext(1, "10.0.0.1", Listener("PLAINTEXT", "broker.example", 9092))
    return RequestContext(connection, 0, version, 1, client_id)


async def turns(count: int = 20) -> None:
    """Turns the event loop until everything that can happen without time passing has happened."""
    for _ in range(count):
        await asyncio.sleep(0)


async def _no_shares(_: str) -> ErrorCode:
    """No leader of a partition knows any share group."""
    return ErrorCode.NONE


HANDLERS = {
    "JoinGroupRequest": handle_join_group,
    "SyncGroupRequest": handle_sync_group,
    "HeartbeatRequest": handle_heartbeat,
    "LeaveGroupRequest": handle_leave_group,
    "ConsumerGroupHeartbeatRequest": handle_consumer_group_heartbeat,
    "ConsumerGroupDescribeRequest": handle_consumer_group_describe,
    "OffsetCommitRequest": handle_offset_commit,
    "OffsetFetchRequest": handle_offset_fetch,
    "OffsetDeleteRequest": handle_offset_delete,
    "DescribeGroupsRequest": handle_describe_groups,
    "ListGroupsRequest": handle_list_groups,
    "ShareGroupHeartbeatRequest": handle_share_group_heartbeat,
    "ShareGroupDescribeRequest": handle_share_group_describe,
    "DeleteGroupsRequest": lambda groups, _, request: handle_delete_groups(groups, request, _no_shares),
}
NO_DELAY = GroupSettings(group_initial_rebalance_delay_ms=0)


class GroupsWorld:
    """``restart`` is a crash: the coordinators are gone, what is durable stays."""

    def __init__(
        self,
        settings: GroupSettings = NO_DELAY,
        logs: MemoryGroupLogs | None = None,
        topics: FakeTopics | None = None,
    ) -> None:
        self.settings = settings
        self.logs = MemoryGroupLogs() if logs is None else logs
        self.topics = FakeTopics(flights=4, planes=2) if topics is None else topics
        self.clock = ManualClock()
        self._rng = random.Random(7)
        self.configured: dict[str, bytes] = {}
        """Group → what is configured for it, as it is stored."""
        self.groups = self._made()
        self._tasks: set[asyncio.Task[Any]] = set()

    def restart(self) -> None:
        self._life.has_ended = True
        self.groups = self._made()

    def _made(self) -> Groups:
        logs = LogsOfOneLife(self.logs)
        self._life = logs.life
        return Groups(
            logs, self.topics, self.settings, self.clock, self._rng,
            configured=lambda settings, group_id: settings_of_group(settings, self.configured.get(group_id)),
        )  # fmt: skip

    @property
    def log(self) -> Any:
        return self.logs.logs[0]

    async def ask(self, request: Message, version: int, client_id: str | None = "client") -> Any:
        """Asks as over the wire: fields that the version does not have are lost or refused."""
        sent = decode(type(request), version, encode(request, version))
        response = await HANDLERS[type(request).__name__](self.groups, context(version, client_id), sent)
        response_type = CATALOGUE[request.api_key][1]
        return decode(response_type, version, encode(response, version))

    async def begin(self, request: Message, version: int, client_id: str = "client") -> "asyncio.Task[Any]":
        """Asked, and not waited for."""
        task = asyncio.get_running_loop().create_task(self.ask(request, version, client_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await turns()
        return task

    async def pass_ms(self, duration_ms: int, steps: int = 10) -> None:
        for step in range(steps):
            done = duration_ms * step // steps
            self.clock.advance_ms(duration_ms * (step + 1) // steps - done)
            await turns()


def run(story: Callable[[GroupsWorld], Awaitable[T]], *args: Any, **kwargs: Any) -> T:
    """The story in a world that is made in its event loop and closed after it."""

    async def told() -> T:
        world = GroupsWorld(*args, **kwargs)
        try:
            return await story(world)
        finally:
            await closed(world)

    return asyncio.run(told())


async def closed(world: GroupsWorld) -> None:
    closing = asyncio.get_running_loop().create_task(world.groups.close())
    await turns()
    world.clock.advance_ms(10_000)
    await closing
