"""A write-ahead log and a listener of its events, for tests."""

import asyncio
from pathlib import Path

from siltstone.model.record_batch import RecordBatch
from siltstone.runtime.blocking import BlockingCalls, InlineCalls
from siltstone.runtime.clock import Clock, ManualClock
from siltstone.stream_engine.settings import WalSettings
from siltstone.stream_engine.wal.file_wal import FileWriteAheadLog
from support.engine.batches import batch
from support.engine.engine_world import settled

SETTINGS = WalSettings(segment_bytes=4096, capacity_bytes=64 * 1024, group_bytes_max=2048)


class Listener:
    def __init__(self) -> None:
        self.durable: list[int] = []
        self.failures: list[BaseException] = []


class WalNode:
    def __init__(
        self,
        folder: Path,
        settings: WalSettings = SETTINGS,
        *,
        node_id: int = 3,
        calls: BlockingCalls | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.wal = FileWriteAheadLog(
            folder, node_id, settings, calls or InlineCalls(), clock or ManualClock()
        )
        self.heard = Listener()

    async def start(self, node_epoch: int = 1) -> "WalNode":
        await self.wal.start(node_epoch, self.heard.durable.append, self.heard.failures.append)
        return self

    def append(self, offset: int, payload_bytes: int = 100, stream_id: int = 1) -> int:
        return self.wal.append(batch(stream_id, offset, 1, payload_bytes), 0).end_position

    async def append_durably(self, offset: int, payload_bytes: int = 100) -> int:
        position = self.append(offset, payload_bytes)
        await self.until_durable(position)
        return position

    async def until_durable(self, position: int) -> None:
        for _ in range(100_000):
            if self.heard.durable and self.heard.durable[-1] >= position:
                return
            assert not self.heard.failures, self.heard.failures
            await asyncio.sleep(0)
        raise AssertionError(f"not durable: {position}")


async def recovered(folder: Path, node_id: int = 3) -> list[RecordBatch]:
    """Returns what a next run finds in the log, and leaves the log as it is."""
    wal = FileWriteAheadLog(folder, node_id, SETTINGS, InlineCalls(), ManualClock())
    try:
        return [record.batch async for records in wal.recover() for record in records]
    finally:
        await wal.close()


def recovered_offsets(folder: Path, node_id: int = 3) -> list[int]:
    return [one.base_offset for one in asyncio.run(recovered(folder, node_id))]


__all__ = ["SETTINGS", "Listener", "WalNode", "recovered", "recovered_offsets", "settled"]
