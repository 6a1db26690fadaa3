"""Partitions without an engine; their reads do what a test wants."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from siltstone.broker.fetching.damaged_reads import DamagedReads
from siltstone.broker.fetching.gathering import Gathering
from siltstone.broker.fetching.wanted import FoundPartition, WantedPartition
from siltstone.broker.partitions.damage import DamageReport
from siltstone.model.record_batch import RecordBatch
from siltstone.runtime.clock import ManualClock
from siltstone.topic_configs.table import TopicConfig, parse_topic_configs

PLAIN = parse_topic_configs({})


class FakePartition:
    """Batches of one record each. ``is_cached``: they are in memory. ``before_read``: what happens meanwhile."""

    leader_epoch = 0
    stream_id = 1

    def __init__(self, sizes: Sequence[int], *, is_cached: bool = True) -> None:
        self.batches = [RecordBatch(1, 0, o, o + 1, 1, 0, 0, bytes(size)) for o, size in enumerate(sizes)]
        self.log_start_offset = 0
        self.high_watermark = len(sizes)
        self.is_closed = False
        self.before_read: Callable[[], None] = lambda: None
        self.reads: list[tuple[int, int]] = []
        self._is_cached = is_cached

    @property
    def last_stable_offset(self) -> int:
        """There are no transactions."""
        return self.high_watermark

    def append(self, size: int) -> None:
        offset = len(self.batches)
        self.batches.append(RecordBatch(1, 0, offset, offset + 1, 1, 0, 0, bytes(size)))
        self.high_watermark += 1

    def read_cached(self, offset: int, bytes_max: int) -> list[RecordBatch] | None:
        return self._read(offset, bytes_max) if self._is_cached else None

    async def read(self, offset: int, bytes_max: int) -> list[RecordBatch]:
        await asyncio.sleep(0)
        self.before_read()
        return self._read(offset, bytes_max)

    def _read(self, offset: int, bytes_max: int) -> list[RecordBatch]:
        """Returns at least one batch, otherwise those that fit."""
        self.reads.append((offset, bytes_max))
        found: list[RecordBatch] = []
        for batch in self.batches[offset:]:
            if found and sum(map(len, found)) + len(batch) > bytes_max:
                break
            found.append(batch)
        return found


class FakeTopic(msgspec.Struct):
    name: str = "t"
    id: str = "a topic"
    partition_count: int = 100
    config: TopicConfig = PLAIN


class FakePartitions:
    def __init__(self, partitions: Sequence[FakePartition]) -> None:
        self._partitions = partitions

    def opened(self, _: str, index: int) -> FakePartition:
        return self._partitions[index]

    def exists(self, _: str, __: int) -> bool:
        return False


def gathered(
    partitions: Sequence[FakePartition],
    offsets: Sequence[int] | None = None,
    *,
    limit: int = 1 << 20,
    bytes_max: int = 1 << 20,
    config: TopicConfig = PLAIN,
    report: DamageReport | None = None,
) -> list[FoundPartition]:
    """A fetch of all partitions, from the beginning unless offsets are given."""
    topic: Any = FakeTopic(config=config)
    reads = DamagedReads(report or DamageReport(ManualClock()))
    held: Any = FakePartitions(partitions)
    wanted = [
        WantedPartition(topic, "t", b"", index, offset, limit, -1, -1, -1)
        for index, offset in enumerate(offsets if offsets is not None else [0] * len(partitions))
    ]
    return asyncio.run(Gathering(held, reads, bytes_max).gather(wanted))


class ReadsInARow:
    """Fetches of one partition, one after another, by a broker that lives on."""

    def __init__(self, partition: FakePartition, config: TopicConfig) -> None:
        self._reads = DamagedReads(DamageReport(ManualClock()))
        self._partition: Any = partition
        self._topic: Any = FakeTopic(config=config)

    def read(self, offset: int) -> list[RecordBatch]:
        wanted = WantedPartition(self._topic, "t", b"", 0, offset, 1 << 20, -1, -1, -1)
        return asyncio.run(self._reads.read(self._partition, wanted, 1 << 20))


def sizes_of(found: Sequence[FoundPartition]) -> list[list[int]]:
    return [[len(batch) for batch in row.batches] for row in found]
