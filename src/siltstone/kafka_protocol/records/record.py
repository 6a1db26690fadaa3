"""One record, as values. Its bytes are drawn in ``reading``."""

from typing import TypeAlias

import msgspec

from siltstone.model.buffers import Buffer
from siltstone.model.record_batch import NO_TIMESTAMP

RecordHeader: TypeAlias = tuple[str, Buffer | None]


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Key, value and header values that were read are views into the batch (or what was decompressed of it).

    A header name that is no UTF-8 is read with surrogate escapes, so that it is written again as it was.
    """

    offset: int = 0
    timestamp_ms: int = NO_TIMESTAMP
    key: Buffer | None = None
    value: Buffer | None = None
    headers: tuple[RecordHeader, ...] = ()
