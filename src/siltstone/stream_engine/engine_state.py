"""What a stream engine tells about itself."""

from enum import Enum, auto

import msgspec

from siltstone.stream_engine.tail.tail_cache import TailCacheStatistics
from siltstone.stream_engine.upload.pipeline import UploadStatistics
from siltstone.stream_engine.wal.port import WalStatistics


class EngineState(Enum):
    """RUNNING → CLOSING → CLOSED; RUNNING | CLOSING → FAILED."""

    RUNNING = auto()
    CLOSING = auto()
    FAILED = auto()
    CLOSED = auto()


class EngineStatistics(msgspec.Struct, frozen=True):
    """``appends_pending`` are on their way through the WAL, ``appends_waiting`` have no room yet."""

    state: str
    streams_open: int
    appends_pending: int
    appends_waiting: int
    bytes_waiting: int
    wal: WalStatistics
    tail: TailCacheStatistics
    upload: UploadStatistics
