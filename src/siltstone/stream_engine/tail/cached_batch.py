"""A batch as the tail cache holds it: with the frame header that was made for the WAL, for the upload to use."""

import msgspec

from siltstone.model.buffers import Buffer
from siltstone.model.limits import TAIL_CACHE_RECORD_OVERHEAD_BYTES
from siltstone.model.record_batch import RecordBatch


class CachedBatch(msgspec.Struct, frozen=True):
    batch: RecordBatch
    frame_header: Buffer

    @property
    def charge_bytes(self) -> int:
        return charge_of(len(self.batch.payload))


def charge_of(payload_bytes: int) -> int:
    """What a batch counts against the limit: a million empty batches are not free."""
    return payload_bytes + TAIL_CACHE_RECORD_OVERHEAD_BYTES
