"""Members of a consumer group of a broker in this process."""

import asyncio
from typing import Any

from siltstone.kafka_protocol.notation import Message
from support.broker.broker_world import Client
from support.broker.in_process import InProcessBroker
from support.engine.engine_world import settled
from support.groups.consumer_bytes import assignment
from support.groups.group_client import GroupClient, all_join


class _AskedWorld:
    """The world of a GroupClient, which asks as GroupsWorld does."""

    def __init__(self, broker: InProcessBroker) -> None:
        self._broker = broker
        self._client: Client = broker.world.client()

    async def ask(self, request: Message, version: int) -> Any:
        return await self._client.ask(request, version)

    async def begin(self, request: Message, version: int, _: str = "client") -> "asyncio.Task[Any]":
        task = self._client.send(request, version)
        await settled()
        return task

    async def pass_ms(self, duration_ms: int, steps: int = 1) -> None:
        await self._broker.world.pass_ms(duration_ms)


def joined_member(broker: InProcessBroker, topic: str, group: str, numbers: list[int]) -> GroupClient:
    """The only member of ``group``; it reads these partitions of the topic."""
    member = GroupClient(_AskedWorld(broker), "a client", topics=(topic,), group=group)

    async def join() -> None:
        await all_join(member)
        assigned = {member.member_id: assignment({topic: numbers} if numbers else {})}
        answer = await member.world.ask(member.sync_request(assigned), 5)
        assert answer.error_code == 0

    broker.wait(join())
    return member
