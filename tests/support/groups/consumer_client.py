"""A member of a group of KIP-848 that asks by messages, as a client does."""

from typing import Any

from siltstone.kafka_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    OwnedPartitions,
)
from support.groups.group_client import GROUP
from support.groups.groups_world import GroupsWorld

PartitionOfTopic = tuple[str, int]


class ConsumerClient:
    """``owned``: the partitions that its last answer gave it, by the name of the topic."""

    def __init__(
        self,
        world: GroupsWorld,
        member_id: str,
        *topics: str,
        instance: str | None = None,
        group: str = GROUP,
        version: int = 1,
    ) -> None:
        self._world, self._group, self._version, self._instance = world, group, version, instance
        self.member_id, self.topics, self.epoch = member_id, topics or ("flights",), 0
        self.owned: frozenset[PartitionOfTopic] = frozenset()

    async def join(self, **other: Any) -> Any:
        self.epoch, self.owned = 0, frozenset()
        said = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": list(self.topics),
            "topic_partitions": [],
        }
        return await self.beat(**(said | other))

    async def beat(self, epoch: int | None = None, **said: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            instance_id=self._instance,
            **said,
        )
        told = await self._world.ask(request, self._version, "client")
        if told.error_code == 0 and told.member_epoch >= 0:
            self.member_id, self.epoch = told.member_id, told.member_epoch
            if told.assignment is not None:
                self.owned = frozenset(
                    (topic.name, number)
                    for row in told.assignment.topic_partitions
                    if (topic := self._world.topics.by_id(row.topic_id))
                    for number in row.partitions
                )
        return told

    async def say_owned(self) -> Any:
        rows = [
            OwnedPartitions(topic_id=self._world.topics.topics[name].topic_id, partitions=[number])
            for name, number in sorted(self.owned)
        ]
        return await self.beat(topic_partitions=rows)

    async def leave(self, epoch: int = -1) -> Any:
        return await self.beat(epoch)


async def settle(*clients: ConsumerClient) -> None:
    """Everybody sends heartbeats until all have what they are to have."""
    for _ in range(4):
        for client in clients:
            await client.say_owned()
