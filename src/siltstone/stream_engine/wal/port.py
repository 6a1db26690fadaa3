"""The write-ahead log port: the interface of the log that makes appends durable.

Appends are queued in call order. The log then calls ``on_durable(position)``, with growing positions, when everything
below the position is as durable as ``WalSync`` promises. A *position* is a number of bytes since the log was started.
"""

from collections.abc import AsyncIterator, Callable
from typing import Protocol

import msgspec

from siltstone.foundation.histogram import HistogramCounts
from siltstone.model.buffers import Buffer
from siltstone.model.errors import Fenced, InvalidRequest, Unavailable
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.identity import LogIdentity
from siltstone.object_formats.log_file import WalRecord


class WalInUse(InvalidRequest):
    """Another process has this log open."""


class WalSealed(Fenced):
    """Another process has taken over this log, which is in a bucket."""


class ConditionalPutIgnored(InvalidRequest):
    """The bucket replaces objects although it is asked not to, so no log in it could be fenced."""


class WalOfAnotherNode(InvalidRequest):
    """The log belongs to another node id."""


class WalOfAnotherStore(InvalidRequest):
    """The log at this place belongs to another store."""


class WalWriteFailed(Unavailable):
    """A write or a sync failed. Appends that were queued may or may not be in the log."""


class LogObjectsContradict(Unavailable):
    """The bucket lists an object of the log that it does not return, or refuses a put at a key where it shows none."""


class QueuedAppend(msgspec.Struct, frozen=True, gc=False):
    """The log position after the append's record, and its frame header, which the upload uses again: a copy, because
    the garbage collector would scan a view of it as long as the batch is in the tail cache."""

    end_position: int
    frame_header: Buffer


class WalStatistics(msgspec.Struct, frozen=True):
    """``trouble``: what the log waits for, and appends with it; empty while it waits for nothing. ``full_disk``: why
    appends are refused, or soon will be; empty while there is space."""

    appends: int
    groups: int
    syncs: int
    bytes_written: int
    bytes_untrimmed: int
    segments: int
    trouble: str = ""
    full_disk: str = ""
    write_seconds: HistogramCounts = HistogramCounts()
    """The time of each group: its write, and its sync where one is due."""

    @property
    def words_of_trouble(self) -> str:
        """Says why appends wait, or are refused; empty: they are answered."""
        if self.trouble:
            return f"appends wait: {self.trouble}"
        return f"appends are refused: {self.full_disk}" if self.full_disk else ""


class WriteAheadLog(Protocol):
    async def identity(self) -> LogIdentity | None:
        """Returns the store, node and node epoch of the log; None if no node has used it. Raises DamagedIdentity."""
        ...

    async def is_empty(self) -> bool:
        """Returns whether the log holds nothing to recover."""
        ...

    async def newest_record(self) -> WalRecord | None:
        """Returns the newest whole record of an earlier start; None when the log has none, or its end is damaged, which
        ``recover`` reports. The log need not be fenced: an older process may append further records."""
        ...

    async def claim(self, identity: LogIdentity) -> None:
        """Sets the identity of the log. It is durable when the call returns."""
        ...

    async def fence(self, node_epoch: int) -> None:
        """Makes sure that no process can have an append acknowledged in this log under a lower node epoch from here on.
        The caller is registered under ``node_epoch``. Raises DamagedWal."""
        ...

    def recover(self) -> AsyncIterator[list[WalRecord]]:
        """Yields the records of an earlier start, in order; the log was fenced before. Raises DamagedWal when
        acknowledged records are missing or damaged."""
        ...

    async def reset(self) -> None:
        """Deletes every record. The caller has committed what it recovered."""
        ...

    async def start(
        self,
        node_epoch: int,
        on_durable: Callable[[int], None],
        on_failure: Callable[[BaseException], None],
        carried_end: int = 0,
    ) -> None:
        """Begins a log under this node epoch: an empty one, or, with a ``carried_end``, the continuation of the log of
        the earlier start at that position, after the last record that ``recover`` yielded. ``on_failure`` is called at
        most once."""
        ...

    def append(self, batch: RecordBatch, metadata_version: int) -> QueuedAppend:
        """Queues a batch; ``on_durable`` reports when it is durable. ``metadata_version``: that of the metadata which
        the node has read."""
        ...

    def has_room_for(self, payload_bytes: int) -> bool:
        """Returns whether an append of this size keeps the untrimmed log within its capacity."""
        ...

    def why_refused(self, payload_bytes: int) -> str:
        """Returns why an append of this size is refused, with what to do: the disk is full, and the space that is
        reserved has no room for it. Empty: it is not. Appends that were queued before are written all the same."""
        ...

    async def trim(self, position: int) -> None:
        """Frees the log below ``position``, which is committed."""
        ...

    async def forget_trimmed(self) -> None:
        """Deletes what was trimmed so far, as soon as no record beside it is needed. Other trimmed records may stay on
        the disk, in files that are used again."""
        ...

    async def empty(self) -> bool:
        """Deletes the log if all its records are trimmed, as at a clean stop: nothing is appended afterwards. Returns
        whether it was so."""
        ...

    async def close(self) -> None:
        """Writes what is queued, waits until it is durable, and releases the log. Idempotent."""
        ...

    def statistics(self) -> WalStatistics: ...
