"""One stream of Kafka batches, compacted by the task itself: histories in, batches and records out.

A stream is in a memory store, as stream objects. ``compact`` runs one pass over all of them and puts its outputs in
their place, as the commit does.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from siltstone.kafka_protocol.batch_header import (
    CONTROL_BIT,
    NO_PRODUCER_ID,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    patch_offset_and_epoch,
    read_batch_header,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.control import Outcome, TransactionMarker, build_control_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.maintenance.key_compaction.task import compact_keys
from siltstone.maintenance.key_compaction.task_input import KeyCompactionInput, KeyCompactionResult
from siltstone.maintenance.record_rewriting.values import SourceObject
from siltstone.model.objects import object_key
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import encode_frame_header
from siltstone.object_formats.object_layout import ObjectBuilder, ranges_of_entries
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.record_columns.kernels import plain
from siltstone.record_columns.kernels.port import Kernels
from support.engine.objects import index_of, read_object

STREAM_ID = 7
DAY_MS = 86_400_000
HASH_KEY = bytes(range(16))
_names = itertools.count()


class Pair(msgspec.Struct, frozen=True):
    """A record as tests compare it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


class CompactedStream:
    """``add`` appends a batch, ``close_object`` ends an object; the rest is put into a last one by ``compact``."""

    def __init__(self, kernels: Kernels = plain, block_bytes: int = 256, start_at: int = 0) -> None:
        self.url = f"memory:compacted-{next(_names)}"
        self.store = store_at(self.url)
        self.kernels = kernels
        self.block_bytes = block_bytes
        self.sources: list[SourceObject] = []
        self.end_offset = start_at
        self.start_offset = start_at
        self.cleaned_offset = start_at
        self._next_object_id = 1
        self._open: list[RecordBatch] = []

    # -- history ---------------------------------------------------------------------------------------------

    def add(self, *pairs: tuple[str | None, str | None], at_ms: int = 0, **header: Any) -> int:
        """A batch of (key, value) pairs with the times ``at_ms``, + 1 …; its base offset."""
        records = [
            Record(timestamp_ms=at_ms + number, key=_bytes(key), value=_bytes(value))
            for number, (key, value) in enumerate(pairs)
        ]
        return self.add_batch(build_batch(records, **header))

    def add_transactional(
        self, producer_id: int, *pairs: tuple[str | None, str | None], **header: Any
    ) -> int:
        return self.add(
            *pairs, producer_id=producer_id, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL_BIT, **header
        )  # fmt: skip

    def end_transaction(self, producer_id: int, outcome: Outcome, at_ms: int = 0) -> int:
        marker = TransactionMarker(outcome, coordinator_epoch=0)
        return self.add_batch(
            build_control_batch(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=at_ms)
        )

    def add_batch(self, batch: bytearray) -> int:
        base_offset = self.end_offset
        patch_offset_and_epoch(batch, base_offset, 3)
        header = read_batch_header(batch)
        self.end_offset = header.end_offset
        smallest = min(header.base_timestamp_ms, header.max_timestamp_ms)
        self._open.append(
            RecordBatch(
                STREAM_ID, 3, base_offset, header.end_offset, header.record_count, smallest,
                header.max_timestamp_ms, bytes(batch),
            )
        )  # fmt: skip
        return base_offset

    def close_object(self) -> None:
        if not self._open:
            return
        builder = ObjectBuilder(self.block_bytes)
        for batch in self._open:
            builder.append(batch, encode_frame_header(batch))
        encoded = builder.finish()
        object_id = self._take_ids(1)
        self.store.put(object_key(object_id), encoded.buffers)
        (held,) = ranges_of_entries(encoded.entries, object_id)
        self.sources.append(SourceObject(object_id, 0, encoded.size_bytes, held))
        self._open = []

    # -- a pass ----------------------------------------------------------------------------------------------

    def unit(self, now_ms: int = 0, **changes: Any) -> KeyCompactionInput:
        self.close_object()
        unit = KeyCompactionInput(
            name="unit", stream_id=STREAM_ID, sources=tuple(self.sources), start_offset=self.start_offset,
            dirty_offset=self.cleaned_offset, bound=self.end_offset, now_ms=now_ms, horizon_ms=now_ms + DAY_MS,
            producer_expiration_ms=DAY_MS, map_bytes_max=1 << 20, memory_bytes=1 << 24,
            read_request_bytes_max=1024, block_bytes=self.block_bytes, object_bytes=4096, first_object_id=0,
            object_count_max=100, output_bucket_id=0, bucket_urls={0: self.url}, hash_key=HASH_KEY,
        )  # fmt: skip
        unit = msgspec.structs.replace(unit, **changes)
        return msgspec.structs.replace(unit, first_object_id=self._take_ids(unit.object_count_max))

    def compact(self, now_ms: int = 0, **changes: Any) -> KeyCompactionResult:
        """Runs one pass, which is committed unless it failed."""
        result = compact_keys(self.unit(now_ms, **changes), self.kernels)
        if not result.failure:
            self.commit(result)
        return result

    def commit(self, result: KeyCompactionResult) -> None:
        self.cleaned_offset = result.cleaned_offset
        if not result.is_unchanged:
            self.sources = [
                SourceObject(each.object_id, 0, each.size_bytes, each.held) for each in result.objects
            ]

    def _take_ids(self, count: int) -> int:
        first = self._next_object_id
        self._next_object_id += count
        return first

    # -- what is there ---------------------------------------------------------------------------------------

    def object_bytes(self) -> list[bytes]:
        self.close_object()
        return [
            self.store.get_range(object_key(source.object_id), 0, source.size_bytes)
            for source in self.sources
        ]

    def frames(self) -> list[RecordBatch]:
        return [frame for data in self.object_bytes() for frame in read_object(data)]

    def headers(self) -> list[BatchHeader]:
        return [read_batch_header(frame.payload) for frame in self.frames()]

    def records(self) -> list[Pair]:
        """Returns the records of the batches that are no markers."""
        return [
            Pair(record.offset, _view(record.key), _view(record.value), record.timestamp_ms)
            for frame in self.frames()
            if not read_batch_header(frame.payload).is_control
            for record in iterate_records(frame.payload)
        ]

    def said(self) -> list[str]:
        """``3:a=1``, ``4:b=T``, ``5:ABORT``, and ``6-7:empty`` for a batch without records."""
        said: list[str] = []
        for frame in self.frames():
            header = read_batch_header(frame.payload)
            if not header.record_count:
                said.append(f"{header.base_offset}-{header.last_offset}:empty")
            said += [f"{record.offset}:{_text(header, record)}" for record in iterate_records(frame.payload)]
        return said

    def spans(self) -> list[tuple[int, int]]:
        """Returns the offsets of all blocks."""
        return [
            (entry.start_offset, entry.end_offset) for data in self.object_bytes() for entry in index_of(data)
        ]


def offsets(pairs: Iterable[Pair]) -> list[int]:
    return [pair.offset for pair in pairs]


def numbered_keys(count: int, keys: int) -> list[tuple[str | None, str | None]]:
    return [(f"k{number % keys}", f"v{number}") for number in range(count)]


def in_batches(
    stream: CompactedStream,
    pairs: Sequence[tuple[str | None, str | None]],
    size: int,
    codec: Codec = Codec.NONE,
) -> None:
    for first in range(0, len(pairs), size):
        stream.add(*pairs[first : first + size], compression=codec)


def _text(header: BatchHeader, record: Record) -> str:
    if header.is_control:
        return "COMMIT" if bytes(record.key or b"")[3] else "ABORT"
    value = "T" if record.value is None else bytes(record.value).decode()
    key = "-" if record.key is None else bytes(record.key).decode()
    return f"{key}={value}"


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _view(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


assert NO_PRODUCER_ID == -1
assert CONTROL_BIT == 0x20
