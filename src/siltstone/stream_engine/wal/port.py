"""The write-ahead log port: what the engine asks of the place that makes appends durable.

An append is queued in call order; ``on_durable(position)`` then says, in order, up to where the log is as safe
as its settings promise. Positions count bytes since the log began and never go back.
"""

from collections.abc import AsyncIterator, Callable
from typing import Protocol

import msgspec

from siltstone.model.errors import InvalidRequest, Unavailable
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.identity import LogIdentity
from siltstone.object_formats.log_file import WalRecord


class WalInUse(InvalidRequest):
    """Another process has this log open."""


class WalOfAnotherNode(InvalidRequest):
    """The log in this place belongs to another node id."""


class WalWriteFailed(Unavailable):
    """The disk refused a write or a sync. What was queued may or may not be in the log."""


class QueuedAppend(msgspec.Struct, frozen=True):
    """Where an append will stand, and its frame header, which the upload uses again."""

    end_position: int
    frame_header: memoryview


class WalStatistics(msgspec.Struct, frozen=True):
    appends: int
    groups: int
    syncs: int
    bytes_written: int
    bytes_untrimmed: int
    segments: int


class WriteAheadLog(Protocol):
    async def identity(self) -> LogIdentity | None:
        """Whose log it is, and which life's. None for one that nobody has used. Raises DamagedIdentity."""
        ...

    async def is_empty(self) -> bool:
        """Whether there is nothing to recover."""
        ...

    async def claim(self, identity: LogIdentity) -> None:
        """From here on it is that life's. Durable when it returns."""
        ...

    def recover(self) -> AsyncIterator[list[WalRecord]]:
        """What a former life left, in order. Raises DamagedWal when acknowledged records are not whole."""
        ...

    async def reset(self) -> None:
        """Drop everything recovered: it is all committed."""
        ...

    async def start(
        self, node_epoch: int, on_durable: Callable[[int], None], on_failure: Callable[[BaseException], None]
    ) -> None:
        """Begin an empty log for this registration. ``on_failure`` is called at most once."""
        ...

    def append(self, batch: RecordBatch) -> QueuedAppend: ...

    def has_room_for(self, payload_bytes: int) -> bool:
        """Whether an append of this size keeps the untrimmed log within its capacity."""
        ...

    async def trim(self, position: int) -> None:
        """The log below ``position`` is committed and need not be kept."""
        ...

    async def close(self) -> None:
        """Waits until what was queued is durable."""
        ...

    def statistics(self) -> WalStatistics: ...
