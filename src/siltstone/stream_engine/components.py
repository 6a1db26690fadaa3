"""The components from which a stream engine is made, its states and its statistics.

The server makes the components from settings (``server.components``); tests make their own. Next: ``opening``.
"""

from collections.abc import Mapping
from enum import Enum, auto

import msgspec

from siltstone.foundation.histogram import HistogramCounts
from siltstone.metadata.service import MetadataService
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.metadata_mark import BucketGuard
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.stream_engine.reading.committed_reader import CommittedReader
from siltstone.stream_engine.tail.tail_cache import TailCacheStatistics
from siltstone.stream_engine.upload.pipeline import UploadStatistics
from siltstone.stream_engine.wal.port import WalStatistics, WriteAheadLog


class EngineComponents(msgspec.Struct, frozen=True):
    """``upload_calls``: threads that encode and upload objects, so that uploads never block the threads of the WAL."""

    metadata: MetadataService
    buckets: Buckets
    wal: WriteAheadLog
    reader: CommittedReader
    upload_calls: BlockingCalls
    clock: Clock
    guards: Mapping[int, BucketGuard] = msgspec.field(default_factory=dict)
    """The guards of the buckets that this node has checked; a bucket that is added while it runs gets one, too. Without
    any guard every bucket takes writes unmarked, as in tests of the engine alone."""


class EngineState(Enum):
    """RUNNING → CLOSING → CLOSED; RUNNING | CLOSING → FAILED."""

    RUNNING = auto()
    CLOSING = auto()
    FAILED = auto()
    CLOSED = auto()


class Readiness(Enum):
    """Whether appends are answered, and for how long."""

    READY = "ready"
    FILLING = "filling"
    """Nothing can be uploaded: appends are answered until the write-ahead log or the tail cache is full."""
    FULL = "full"
    """Appends wait: for room, because nothing can be uploaded, or for the disk of the log."""
    STOPPED = "stopped"
    """The engine is closing, closed, or has failed."""


class EngineStatistics(msgspec.Struct, frozen=True):
    """``appends_pending`` are being written to the WAL; ``appends_waiting``, of ``bytes_waiting`` bytes in all, have no
    room yet. ``readiness`` is a value of Readiness; ``reason`` says why it is not "ready", and what to do."""

    state: str
    readiness: str
    reason: str
    streams_open: int
    appends_pending: int
    appends_waiting: int
    bytes_waiting: int
    wal: WalStatistics
    tail: TailCacheStatistics
    upload: UploadStatistics
    append_seconds: HistogramCounts = HistogramCounts()
    """The time from the call of an append to its answer."""
    oldest_uncommitted_seconds: float = 0.0
    """The age of the oldest acknowledged batch that only the write-ahead log and the tail cache hold; 0: there is none.
    """
