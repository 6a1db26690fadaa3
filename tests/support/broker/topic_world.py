"""A metadata service on a log in memory, with one registered node: topics without an engine."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from siltstone.broker.settings import BrokerSettings
from siltstone.broker.topics.creating import TopicCreation
from siltstone.broker.topics.registry import Topics
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import RegisterNode
from siltstone.metadata.service import MetadataService
from siltstone.metadata.store.memory import MemoryLog
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock

NODE_ID = 7


class TopicWorld:
    def __init__(self, settings: BrokerSettings, log: MemoryLog) -> None:
        self.clock = ManualClock()
        self.settings = settings
        self.log = log
        self.metadata = self.new_service(1)

    def new_service(self, seed: int) -> MetadataService:
        return MetadataService(MetadataClient(self.log, self.clock, Random(seed)), InlineCalls(), self.clock)

    async def start(self) -> None:
        await self.metadata.start()
        registration = await self.metadata.execute(RegisterNode(NODE_ID, "first", "wal"))
        self.node_epoch = registration.node_epoch
        self.topics = Topics(self.metadata, self.settings.topic_defaults)
        self.creation = self.new_creation(self.metadata, self.topics, seed=2)

    def new_creation(self, metadata: MetadataService, topics: Topics, seed: int) -> TopicCreation:
        return TopicCreation(
            metadata, topics, self.settings, self.clock, Random(seed), node_id=NODE_ID, node_epoch=self.node_epoch
        )  # fmt: skip


def in_topic_world(
    scenario: Callable[[TopicWorld], Awaitable[None]], settings: BrokerSettings | None = None
) -> None:
    async def main() -> None:
        world = TopicWorld(settings or BrokerSettings(), MemoryLog())
        await world.start()
        await scenario(world)
        await world.metadata.close()

    asyncio.run(main())
