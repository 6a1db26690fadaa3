"""What a stream engine is made of; the server makes them from settings, tests from whatever they like."""

import msgspec

from siltstone.metadata.service import MetadataService
from siltstone.object_store.buckets import Buckets
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.stream_engine.reading.committed_reader import CommittedReader
from siltstone.stream_engine.wal.port import WriteAheadLog


class EngineComponents(msgspec.Struct, frozen=True):
    """``upload_calls``: threads for encoding and putting objects, apart from those of the WAL."""

    metadata: MetadataService
    buckets: Buckets
    wal: WriteAheadLog
    reader: CommittedReader
    upload_calls: BlockingCalls
    clock: Clock
