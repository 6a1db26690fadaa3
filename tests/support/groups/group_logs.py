"""``__consumer_offsets`` in memory: what is appended is durable at once, or when the test says so, or never."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec

from siltstone.broker.groups.offsets_log.record import EncodedRecord, LogProducer
from siltstone.model.errors import Unavailable


class MemoryGroupLog:
    """``held``: appends wait for ``release`` or ``fail``. The records in ``records`` are durable."""

    def __init__(self) -> None:
        self.records: list[tuple[int, EncodedRecord]] = []
        self.start_offset = 0
        self.held = False
        self.appends = 0
        self.reads = 0
        self.batches: list[list[EncodedRecord]] = []
        self._under_way: list[tuple[list[EncodedRecord], asyncio.Future[None]]] = []
        self.reading = asyncio.Event()
        self.reading.set()

    @property
    def next_offset(self) -> int:
        return self.records[-1][0] + 1 if self.records else self.start_offset

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    async def take_transactions(self) -> None:
        raise AssertionError("the broker world has transactions")

    async def append(self, records: Sequence[EncodedRecord], producer: LogProducer | None = None) -> None:
        assert records, "nothing to append"
        assert producer is None, "the broker world has transactions"
        self.appends += 1
        if self.held:
            waits: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._under_way.append((list(records), waits))
            await waits
        else:
            self._stand(list(records))

    def release(self) -> None:
        """Makes the appends that are under way durable."""
        under_way, self._under_way = self._under_way, []
        for records, waits in under_way:
            self._stand(records)
            if not waits.done():
                waits.set_result(None)

    def fail(self, *, but_stands: bool = False) -> None:
        """Loses the appends that are under way, or only their answers."""
        under_way, self._under_way = self._under_way, []
        for records, waits in under_way:
            if but_stands:
                self._stand(records)
            if not waits.done():
                waits.set_exception(Unavailable("the disk is away; try again later"))

    async def read_all(self) -> AsyncIterator[EncodedRecord]:
        self.reads += 1
        await self.reading.wait()
        for _, record in list(self.records):
            yield record

    async def trim_before(self, offset: int) -> None:
        self.records = [(at, record) for at, record in self.records if at >= offset]
        self.start_offset = offset

    def _stand(self, records: list[EncodedRecord]) -> None:
        self.batches.append(records)
        for record in records:
            self.records.append((self.next_offset, record))


class Life(msgspec.Struct):
    """One run of a node. After it has ended, none of its calls reaches a log, and no answer reaches it."""

    has_ended: bool = False

    async def goes_on(self) -> None:
        if self.has_ended:
            await asyncio.get_running_loop().create_future()


class LogOfOneLife:
    def __init__(self, log: MemoryGroupLog, life: Life) -> None:
        self._log = log
        self._life = life

    @property
    def next_offset(self) -> int:
        return self._log.next_offset

    async def take_transactions(self) -> None:
        raise AssertionError("the broker world has transactions")

    async def append(self, records: Sequence[EncodedRecord], producer: LogProducer | None = None) -> None:
        await self._life.goes_on()
        await self._log.append(records, producer)
        await self._life.goes_on()

    async def read_all(self) -> AsyncIterator[EncodedRecord]:
        async for record in self._log.read_all():
            await self._life.goes_on()
            yield record

    async def trim_before(self, offset: int) -> None:
        await self._life.goes_on()
        await self._log.trim_before(offset)


class LogsOfOneLife:
    """The open logs of a node, until it dies."""

    def __init__(self, logs: "MemoryGroupLogs") -> None:
        self._logs = logs
        self.life = Life()

    async def partition_count(self) -> int:
        await self._logs.counting.wait()
        self._logs.counted += 1
        return len(self._logs.logs)

    async def open(self, partition: int) -> LogOfOneLife:
        await self.life.goes_on()
        if self._logs.fails_to_open:
            raise self._logs.fails_to_open.pop(0)
        return LogOfOneLife(self._logs.logs[partition], self.life)


class MemoryGroupLogs:
    """The durable records, which outlive every coordinator. ``fails_to_open`` is raised, one each time. ``counting``
    lets the topic be created, ``counted`` times."""

    def __init__(self, partition_count: int = 1) -> None:
        self.logs = [MemoryGroupLog() for _ in range(partition_count)]
        self.fails_to_open: list[Exception] = []
        self.counting = asyncio.Event()
        self.counting.set()
        self.counted = 0
