"""Retention beside others at work, from seeds: appends, uploads, stream set object compaction, topics that are deleted
or configured otherwise, a second driver, restarts and crashes of the node, before and between plan and commit.

Whatever happens: no acknowledged record is missing that is not older than retention.ms, a start never goes back, what
producers sent is known again, and the check finds nothing.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

import pytest

from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import carry_out
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.checking.check import check
from siltstone.maintenance.retention.kind import RETENTION, Retention
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import AlterTopicConfigs
from siltstone.metadata.refusals import Refusal
from siltstone.model.limits import SECOND_MS
from siltstone.object_store.buckets import Buckets
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import CompactionSettings
from siltstone.offline.tasks import source_bytes as stores
from siltstone.offline.tasks.runner import InProcessRunner
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.engine.engine_world import settled
from support.kafka.kafka_requests import batch_of, produce_request, row_of, sequenced
from support.maintenance import compacting
from support.maintenance.retained_store import no_runner

RETENTION_MS = 60 * SECOND_MS
CONFIGS = {
    "retention_ms": str(RETENTION_MS),
    "segment_ms": str(20 * SECOND_MS),
    "siltstone_segment_batches_max": "3",
}
SETTINGS = CompactionSettings(split_size_bytes=2_000, small_object_bytes=0)
PRODUCERS = (1, 2)
Batch = tuple[int, int, bytes, int]
"""First offset, end offset, value, when it was sent."""


class RetainedPartition:
    def __init__(self, world: BrokerWorld, rng: Random) -> None:
        self.world = world
        self.rng = rng
        self._reset()

    def _reset(self) -> None:
        self.batches: list[Batch] = []
        self.sent: dict[int, tuple[int, int]] = {}
        self.start = 0
        self.expired_before_ms = 0
        """What was sent before that may be gone."""

    async def begin(self) -> None:
        self.topic = await self.world.topic("t", **CONFIGS)

    @property
    def now_ms(self) -> int:
        return self.world.clock.now_ms()

    def another_process(self) -> MaintenanceContext:
        client = MetadataClient(self.world.world.log, self.world.clock, self.rng)
        return MaintenanceContext(client, Buckets({0: self.world.world.store}), self.world.clock, self.rng)

    # -- what happens --------------------------------------------------------------------------------------

    async def append(self) -> None:
        producer = self.rng.choice([None, *PRODUCERS])
        size = self.rng.choice([5, 50, 900])
        if producer is None:
            batch = batch_of(self.rng.randint(1, 4), value_bytes=size, timestamp_ms=self.now_ms)
        else:
            sequence, _ = self.sent.get(producer, (-1, 0))
            batch = sequenced(producer, sequence + 1, value_bytes=size, timestamp_ms=self.now_ms)
        row = row_of(await self.world.client().ask(produce_request(self.topic, batch)))
        assert row.error_code == 0
        count = int.from_bytes(batch[57:61], "big")
        self.batches.append((row.base_offset, row.base_offset + count, bytes(batch[61:]), self.now_ms))
        if producer is not None:
            self.sent[producer] = (sequence + 1, row.base_offset)

    async def append_more(self) -> None:
        for _ in range(5):
            await self.append()

    async def upload(self) -> None:
        await self.world.parts.engine.flush()

    async def wait(self) -> None:
        """Segments are closed by age, and come of age."""
        for _ in range(self.rng.randint(1, 4)):
            await self.world.pass_ms(self.rng.choice([SECOND_MS, 10 * SECOND_MS, 30 * SECOND_MS]))
            await settled(60)

    async def restart(self) -> None:
        await self.world.restart()

    async def crash(self) -> None:
        await self.world.crash()

    async def delete_topic(self) -> None:
        await self.world.parts.partitions.delete_topic(self.topic)
        self._reset()
        await self.begin()

    async def configure(self) -> None:
        """Retention of a plan made before is not what is wanted any more; the limit stays what it is."""
        command = AlterTopicConfigs(self.topic.id, put={"segment.jitter.ms": str(self.rng.randrange(1_000))})
        await self.world.parts.metadata.execute(command)

    async def retain_alone(self) -> None:
        """A second driver, when another's plan is made."""
        await self.retain(others=0)

    async def retain(self, others: int = 2) -> None:
        context = self.another_process()
        kind, watch = Retention(), Watch(RETENTION, self.world.clock)
        planned_ms = self.now_ms
        plan = kind.plan(context, Scope(), watch)
        before = self.topic.id
        for _ in range(self.rng.randint(0, others)):
            await self.rng.choice(self.others)(self)
        if before == self.topic.id:
            self.expired_before_ms = max(self.expired_before_ms, planned_ms - RETENTION_MS)
        report = carry_out(context, kind, plan, no_runner, Budget(), watch, Scope())
        assert not report.failed

    async def compact(self) -> None:
        context = self.another_process()
        plan = compacting.planned_round(context, SETTINGS)
        for _ in range(self.rng.randint(0, 2)):
            await self.rng.choice(self.others)(self)
        with suppress(Refusal):  # another driver was faster, or what it covers is another thing now
            compacting.carry_out(context, InProcessRunner(), plan)

    Act = Callable[["RetainedPartition"], Awaitable[None]]
    others: tuple[Act, ...] = (
        append,
        append_more,
        upload,
        wait,
        restart,
        crash,
        delete_topic,
        configure,
        retain_alone,
    )
    acts: tuple[Act, ...] = (
        append_more, append_more, append_more, upload, upload, wait, wait, restart, crash, configure, retain, retain,
        retain, compact, compact,
    )  # fmt: skip

    # -- what holds ------------------------------------------------------------------------------------------

    async def assert_kept(self) -> None:
        await self.world.pass_ms(100)
        await settled(60)
        partition = await self.world.partition(self.topic)
        start, end = partition.log_start_offset, partition.high_watermark
        assert self.start <= start <= end == (self.batches[-1][1] if self.batches else 0)
        self.start = start
        gone = [batch for batch in self.batches if batch[1] <= start]
        assert all(sent_ms < self.expired_before_ms for _, _, _, sent_ms in gone)
        kept = [batch for batch in self.batches if batch[1] > start]
        assert start in (end, *(batch[0] for batch in kept)), "only whole batches go"
        found, at = [], start
        while at < end:
            read = await partition.read(at, 4_096)
            found += [(one.base_offset, one.end_offset, bytes(one.payload[61:])) for one in read]
            at = read[-1].end_offset
        assert found == [batch[:3] for batch in kept]
        for producer, (sequence, base_offset) in self.sent.items():
            again = partition.append(sequenced(producer, sequence), self.topic.config, 13)
            assert (again.base_offset, again.durable) == (base_offset, None)
        stream = self.world.parts.metadata.image.streams[partition.stream_id]
        borders = [one.start_offset for one in stream.segments[1:]]
        assert borders == [one.end_offset for one in stream.segments[:-1]]

    async def assert_all_goes_when_its_time_has_come(self) -> None:
        """R17: idle, it ends up with no records and the same end. Who sent them is known all the same, after a crash
        too."""
        await self.append()
        for _ in range(8):
            await self.world.pass_ms(RETENTION_MS / 4)
            await settled(60)
        await self.upload()
        await self.retain_alone()
        await self.assert_kept()
        assert self.start == self.batches[-1][1]
        await self.crash()
        await self.assert_kept()

    def assert_sound(self) -> None:
        found = check(self.another_process())
        assert found.is_clean, found


@pytest.mark.parametrize("seed", range(16))
def test_retention_beside_others_at_work(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)

    async def scenario(world: BrokerWorld) -> None:
        monkeypatch.setitem(stores._opened, world.world.store.url, world.world.store)
        retained = RetainedPartition(world, rng)
        await retained.begin()
        for _ in range(18):
            await rng.choice(retained.acts)(retained)
            await retained.assert_kept()
        await retained.assert_all_goes_when_its_time_has_come()
        retained.assert_sound()

    in_broker_world(scenario)
