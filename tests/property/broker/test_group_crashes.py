"""Consumers at work while appends are slow, fail, or fail after all, and the node dies and comes back: what was
acknowledged stays, what was read is never taken back, and left alone everybody ends up with partitions of its own.
"""

import asyncio
import json
from collections import defaultdict
from contextlib import suppress
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from support.groups.group_client import GROUP, GroupClient, join_request
from support.groups.groups_world import FakeTopics, GroupsWorld, closed, turns
from support.values.examples import examples

PARTITIONS = 4
SETTINGS = GroupSettings(
    group_initial_rebalance_delay_ms=500, checkpoint_records_min=40, checkpoint_live_factor=2
)
GOES_ON = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class Disconnected(Exception):
    """The node died before it answered."""


class FaultyWorld(GroupsWorld):
    def __init__(self, rng: Random) -> None:
        super().__init__(SETTINGS, topics=FakeTopics(flights=PARTITIONS))
        self.rng = rng
        self.log.held = True
        self.died: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.crashes = self.failures = 0
        self.acknowledged: dict[int, int] = defaultdict(lambda: -1)
        self.read: dict[int, int] = defaultdict(lambda: -1)
        self.committers: dict[tuple[int, int], set[str]] = defaultdict(set)

    async def ask(self, request: Any, version: int, client_id: str | None = "client") -> Any:
        """As long as the node lives."""
        asking = asyncio.ensure_future(super().ask(request, version, client_id))
        await asyncio.wait({asking, self.died}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            asking.cancel()
            raise Disconnected
        return asking.result()

    def crash(self) -> None:
        """Of what was under way some may have reached the disk."""
        self.crashes += 1
        self.restart()
        self.log.fail(but_stands=self.rng.random() < 0.5)
        died, self.died = self.died, asyncio.get_running_loop().create_future()
        died.set_result(None)

    def disturb(self) -> None:
        chance = self.rng.random()
        if chance < 0.01:
            self.crash()
        elif chance < 0.04 and self.log.under_way:
            self.failures += 1
            self.log.fail(but_stands=self.rng.random() < 0.5)
        elif chance < 0.6:
            self.log.release()

    async def committed(self) -> dict[int, int] | None:
        """None: not now. What was acknowledged is there, and so is what was read before."""
        promised = {
            partition: max(self.acknowledged[partition], self.read[partition])
            for partition in range(PARTITIONS)
        }
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        (fetched,) = (await self.ask(request, 9)).groups
        if fetched.error_code != ErrorCode.NONE:
            assert fetched.error_code in GOES_ON
            return None
        rows = [row for topic in fetched.topics for row in topic.partitions]
        offsets = defaultdict(lambda: -1, {row.partition_index: row.committed_offset for row in rows})
        for partition, promise in promised.items():
            assert offsets[partition] >= promise, (partition, offsets[partition], promise)
            self.read[partition] = max(self.read[partition], offsets[partition])
        return offsets


class Consumer(GroupClient):
    """Reads its partitions one record after another, and commits each."""

    world: FaultyWorld

    def __init__(self, world: FaultyWorld, name: str) -> None:
        super().__init__(world, name, instance=name if name.startswith("static") else None)
        self.partitions: list[int] = []
        self.is_in = False
        self.rounds = 0

    async def live(self) -> None:
        while True:
            with suppress(Disconnected):
                await self._round()
            await self.world.clock.sleep_ms(self.world.rng.choice([200, 700, 2_000]))

    async def _round(self) -> None:
        if not self.is_in:
            await self._get_in()
        elif self._goes_on(await self.beat()):
            await self._work()

    async def _get_in(self) -> None:
        answer = await self.world.ask(join_request(self.member_id, **self.join), 9, self.name)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif self._goes_on(ErrorCode(answer.error_code)) and answer.error_code == ErrorCode.NONE:
            self.has_joined(answer)
            synced = await self.world.ask(self.sync_request(self._shares()), 5)
            if self._goes_on(ErrorCode(synced.error_code)) and synced.error_code == ErrorCode.NONE:
                self.partitions = json.loads(bytes(synced.assignment) or b"[]")
                self.is_in = True

    def _shares(self) -> dict[str, bytes] | None:
        members = sorted(member.member_id for member in self.joined.members)
        if not members or self.joined.skip_assignment:
            return {}
        return {
            member_id: json.dumps(
                [partition for partition in range(PARTITIONS) if partition % len(members) == place]
            ).encode()
            for place, member_id in enumerate(members)
        }

    async def _work(self) -> None:
        offsets = await self.world.committed()
        for partition in self.partitions if offsets is not None else ():
            generation, offset = self.generation, offsets[partition] + 1
            code = await self.commit(offset, partition=partition)
            if code == ErrorCode.NONE:
                self.world.acknowledged[partition] = max(self.world.acknowledged[partition], offset)
                self.world.committers[generation, partition].add(self.name)
                self.rounds += 1
            if not self._goes_on(code):
                return

    def _goes_on(self, code: ErrorCode) -> bool:
        """Whether it is still what it was."""
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if code == ErrorCode.NONE or code in GOES_ON:
            return True
        assert code in {
            ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION,
        }, code  # fmt: skip
        self.is_in = False
        return False


async def look_now_and_then(world: FaultyWorld) -> None:
    while True:
        with suppress(Disconnected):
            await world.committed()
        await world.clock.sleep_ms(900)


async def story(seed: int) -> FaultyWorld:
    rng = Random(seed)
    world = FaultyWorld(rng)
    consumers = [Consumer(world, name) for name in ("a", "b", "static-c")]
    tasks = [asyncio.ensure_future(consumer.live()) for consumer in consumers]
    tasks.append(asyncio.ensure_future(look_now_and_then(world)))
    try:
        for _ in range(400):
            world.disturb()
            world.clock.advance_ms(rng.choice([50, 100, 300]))
            await turns(12)
        await calm_down(world, tasks)
        check(world, consumers)
        offsets = await world.committed()
        assert offsets is not None and all(offsets[partition] >= 0 for partition in range(PARTITIONS))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await closed(world)
    return world


async def calm_down(world: FaultyWorld, tasks: "list[asyncio.Future[None]]") -> None:
    world.log.held = False
    world.log.release()
    for _ in range(700):
        world.clock.advance_ms(200)
        await turns(12)
    for task in tasks:
        if task.done():
            task.result()


def check(world: FaultyWorld, consumers: list[Consumer]) -> None:
    assert all(consumer.is_in for consumer in consumers)
    assert len({consumer.generation for consumer in consumers}) == 1
    owned = sorted(partition for consumer in consumers for partition in consumer.partitions)
    assert owned == list(range(PARTITIONS))
    (coordinator,) = world.groups.statistics.coordinators
    assert coordinator.log_records <= 40 + 20
    assert all(len(names) == 1 for names in world.committers.values())
    assert world.committers


@settings(max_examples=examples(12))
@given(st.integers(0, 2**32))
def test_acknowledged_offsets_outlive_everything(seed: int) -> None:
    asyncio.run(story(seed))
