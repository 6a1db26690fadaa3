"""Kafka's own classes for record batches, as its producer writes and its consumer reads them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from oracles.java_artifacts import APACHE_KAFKA, fetch_jars
from oracles.java_machine import JavaMachine, running_java_machine

JavaRecord = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""The offset, the timestamp in ms, the key, the value and the headers of a record."""


class JavaRecords:
    """A codec of batches. Each record costs a few milliseconds."""

    def __init__(self, machine: JavaMachine) -> None:
        self._machine = machine
        self._wrap = machine.classes.java.nio.ByteBuffer.wrap
        self._common = machine.classes.org.apache.kafka.common
        self._memory_records = self._common.record.internal.MemoryRecords

    def build(self, records: Sequence[JavaRecord], codec: str, producer: tuple[int, int, int]) -> bytes:
        """Encodes a batch as the producer sends it: with offsets from 0 on, the id and the epoch of the producer,
        and the base sequence."""
        kind = self._common.record.internal.SimpleRecord
        array = self._machine.array(kind, [self._simple(kind, record) for record in records])
        compression = self._common.compress.Compression.of(codec.lower()).build()
        built = self._memory_records.withIdempotentRecords(2, 0, compression, *producer, -1, array)
        return self._bytes(built.buffer())

    def read(self, batches: bytes) -> list[JavaRecord]:
        """Returns all records of all batches, after it has checked their CRCs."""
        read = self._memory_records.readableRecords(self._wrap(batches))
        found = []
        for batch in _each(read.batches()):
            batch.ensureValid()
            found += [self._record(record) for record in _each(batch)]
        return found

    def control_batch(
        self, commits: bool, coordinator_epoch: int, producer: tuple[int, int], now_ms: int
    ) -> bytes:
        """Encodes the end of a transaction as the partition's leader writes it."""
        internal = self._common.record.internal
        outcome = internal.ControlRecordType.COMMIT if commits else internal.ControlRecordType.ABORT
        marker = internal.EndTransactionMarker(outcome, coordinator_epoch)
        built = self._memory_records.withEndTransactionMarker(0, now_ms, -1, *producer, marker)
        return self._bytes(built.buffer())

    def _simple(self, kind: Any, record: JavaRecord) -> Any:
        _, timestamp_ms, key, value, headers = record
        header = self._common.header.internals.RecordHeader
        array = self._machine.array(
            self._common.header.Header, [header(name, data) for name, data in headers]
        )
        return kind(timestamp_ms, key, value, array)

    def _record(self, record: Any) -> JavaRecord:
        headers = tuple((header.key(), header.value()) for header in record.headers())
        return (
            record.offset(),
            record.timestamp(),
            self._bytes(record.key()),
            self._bytes(record.value()),
            headers,
        )

    def _bytes(self, buffer: Any) -> Any:
        return self._common.utils.Utils.toNullableArray(buffer)


def _each(iterable: Any) -> Iterator[Any]:
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


@contextmanager
def running_java_records() -> Iterator[JavaRecords]:
    """Starts the codec. Raises JavaArtifactsUnavailable."""
    with running_java_machine(fetch_jars(APACHE_KAFKA)) as machine:
        yield JavaRecords(machine)
