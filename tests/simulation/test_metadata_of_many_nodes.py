"""The metadata log under many nodes, from a seed: all write at once, appends are lost, late or refused, and each
command is done once."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest

from siltstone.metadata.client import CommitUnknown, MetadataClient
from siltstone.metadata.commands import PutKey
from siltstone.metadata.service import FOLLOW_INTERVAL_MS, MetadataService
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store.port import LogUnavailable
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock
from support.metadata.chance_log import ChanceLog
from support.processes.tried import RecordTried

COMMANDS, TOGETHER = 4, 3


class ManyNodes:
    def __init__(self, seed: int, nodes: int) -> None:
        self.rng = Random(seed)
        self.clock = ManualClock()
        self.memory = MemoryLog(entries_kept=100_000)
        self.logs = [ChanceLog(self.memory, Random(self.rng.random()), 0.0) for _ in range(nodes)]
        self.services = [
            MetadataService(
                MetadataClient(log, self.clock, Random(self.rng.random())), InlineCalls(), self.clock
            )
            for log in self.logs
        ]

    async def run(self) -> None:
        for service in self.services:
            await service.start()
        for log in self.logs:
            log.fault_rate = 0.1
        await self._ended([self._commands(number) for number in range(len(self.services))])
        for log in self.logs:
            log.fault_rate = 0.0
            log.land_late()
        for _ in range(20):  # outages that have begun come to their end
            await self._pass()
        images = [service.image for service in self.services]
        wanted = {
            key_of(number, command) for number in range(len(images)) for command in range(COMMANDS * TOGETHER)
        }
        assert {image.version for image in images} == {self.memory.head().version}
        assert all({*image.keys} == wanted for image in images)
        for service in self.services:
            await service.close()

    async def _commands(self, number: int) -> None:
        for first in range(0, COMMANDS * TOGETHER, TOGETHER):
            await asyncio.gather(*(self._done(number, command) for command in range(first, first + TOGETHER)))

    async def _done(self, number: int, command: int) -> None:
        while True:
            try:
                await self.services[number].execute(PutKey(key_of(number, command), b"done"))
                return
            except (CommitUnknown, LogUnavailable):
                await self.clock.sleep_ms(self.rng.randrange(1, 500))

    async def _ended(self, stories: list[Coroutine[Any, Any, None]]) -> None:
        tasks = [asyncio.ensure_future(story) for story in stories]
        while not all(task.done() for task in tasks):
            await self._pass()
        for task in tasks:
            task.result()

    async def _pass(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        self.clock.advance_ms(FOLLOW_INTERVAL_MS)


def key_of(number: int, command: int) -> str:
    return f"{number}/{command}"


@pytest.mark.parametrize("seed", range(3))
def test_twenty_nodes_write_at_once(seed: int) -> None:
    asyncio.run(ManyNodes(seed, 20).run())


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_hundred_nodes_write_at_once(record_tried: RecordTried) -> None:
    for seed in range(10):
        asyncio.run(ManyNodes(seed, 100).run())
        record_tried("commands of a hundred nodes", 100 * COMMANDS * TOGETHER)
