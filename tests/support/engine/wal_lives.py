"""Lives of a write-ahead log, one after another, over either adapter of the port, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import TypeVar

from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.identity import LogIdentity
from siltstone.object_formats.wal_object import WalObjectPlace, wal_object_name
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectStore
from siltstone.runtime.blocking import BlockingCalls, InlineCalls
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.settings import WalSettings
from siltstone.stream_engine.wal.bucket_wal import BucketWriteAheadLog
from siltstone.stream_engine.wal.file_wal import FileWriteAheadLog
from siltstone.stream_engine.wal.port import WriteAheadLog
from support.engine.batches import batch
from support.engine.engine_world import settled
from support.engine.wal_node import SETTINGS, Listener

T = TypeVar("T")

NODE, STORE_ID = 3, "ab" * 16


class WalLife:
    """One run of a log: it is opened, begun under a node epoch, and appended to. ``sent``: the batches that were
    appended, each with ``metadata_version``."""

    def __init__(self, wal: WriteAheadLog, clock: ManualClock) -> None:
        self.wal = wal
        self.clock = clock
        self.heard = Listener()
        self.sent: list[RecordBatch] = []
        self.metadata_version = 0

    async def begin(self, node_epoch: int, *, carry: bool = False) -> list[RecordBatch]:
        """Opens the log as ``opening`` does. Returns the recovered batches; they are carried into this run, or count
        as committed."""
        await self.passing(self.wal.fence(node_epoch))
        found = await self.passing(self._recovered())
        end = found[-1][0] if found and carry else 0
        if not end:
            await self.passing(self.wal.reset())
        await self.passing(self.wal.claim(LogIdentity(STORE_ID, NODE, node_epoch)))
        await self.passing(
            self.wal.start(node_epoch, self.heard.durable.append, self.heard.failures.append, end)
        )
        return [one for _, one in found]

    async def _recovered(self) -> list[tuple[int, RecordBatch]]:
        return [(each.end_position, each.batch) async for records in self.wal.recover() for each in records]

    def append(self, offset: int, payload_bytes: int = 100) -> int:
        """→ The log position after the record."""
        self.sent.append(batch(1, offset, 1, payload_bytes))
        return self.wal.append(self.sent[-1], self.metadata_version).end_position

    async def append_durably(self, offset: int, payload_bytes: int = 100) -> int:
        position = self.append(offset, payload_bytes)
        await self.until_durable(position)
        return position

    async def until_durable(self, position: int) -> None:
        await self.until(lambda: self.durable >= position)

    @property
    def durable(self) -> int:
        return self.heard.durable[-1] if self.heard.durable else 0

    async def until(
        self, condition: Callable[[], object], step_ms: float = 10, steps_max: int = 20_000
    ) -> None:
        """Time passes until the condition is true. Fails when the log fails first."""
        for _ in range(steps_max):
            if condition():
                return
            assert not self.heard.failures, self.heard.failures
            await settled(20)
            if not condition():
                self.clock.advance_ms(step_ms)
        raise AssertionError("the condition does not become true")

    async def pass_ms(self, duration_ms: float, step_ms: float = 100) -> None:
        for _ in range(int(duration_ms / step_ms)):
            await settled(20)
            self.clock.advance_ms(step_ms)
        await settled(20)

    async def passing(self, awaited: Awaitable[T]) -> T:
        task = asyncio.ensure_future(awaited)
        for _ in range(20_000):
            await settled(20)
            if task.done():
                return task.result()
            self.clock.advance_ms(10)
        task.cancel()
        raise AssertionError("nothing comes of it")

    async def close(self) -> None:
        await self.passing(self.wal.close())


class BucketLives:
    """Lives of a log in one bucket; a life that is not closed is a process that was killed, or that still runs."""

    def __init__(self, store: ObjectStore | None = None, settings: WalSettings = SETTINGS) -> None:
        self.clock = ManualClock()
        self.store = store or MemoryStore(self.clock)
        self.settings = settings
        self._rng = Random(1)

    def open(
        self,
        *,
        calls: BlockingCalls | None = None,
        node_id: int = NODE,
        store_id: str = STORE_ID,
        store: ObjectStore | None = None,
    ) -> WalLife:
        wal = BucketWriteAheadLog(
            store or self.store,
            store_id,
            node_id,
            self.settings,
            calls or InlineCalls(),
            self.clock,
            self._rng,
        )
        return WalLife(wal, self.clock)

    def names(self) -> list[WalObjectPlace]:
        found = (wal_object_name(summary.key) for summary in self.store.list("wal/"))
        return [name for name in found if name is not None]

    def seqs(self, node_epoch: int) -> list[int]:
        return [name.seq for name in self.names() if name.node_epoch == node_epoch]


class FileLives:
    """Lives of a log in one folder. A process that was killed has let its lock go, so a life is closed before the
    next one, or its folder is copied."""

    def __init__(self, folder: Path, settings: WalSettings = SETTINGS) -> None:
        self.clock = ManualClock()
        self.folder = folder
        self.settings = settings

    def open(self) -> WalLife:
        wal = FileWriteAheadLog(self.folder, NODE, self.settings, InlineCalls(), self.clock)
        return WalLife(wal, self.clock)


class HeldPutCalls:
    """Calls of one life; puts of the held seqs wait until they are released. ``asked``: the seqs in the order in which
    their puts were asked for."""

    def __init__(self, *held: int) -> None:
        self._gates = {seq: asyncio.Event() for seq in held}
        self.asked: list[int] = []

    def release(self, seq: int) -> None:
        self._gates[seq].set()

    async def run(self, call: Callable[..., T], *args: object, **kwargs: object) -> T:
        await asyncio.sleep(0)
        if getattr(call, "__name__", "") == "put_if_absent":
            seq = int(str(args[0]).rpartition("/")[2])
            self.asked.append(seq)
            if seq in self._gates:
                await self._gates[seq].wait()
        return call(*args, **kwargs)

    def close(self) -> None:
        return None
