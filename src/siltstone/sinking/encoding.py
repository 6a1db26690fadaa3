"""Makes record batches of each partition from the rows of a task. No I/O.

A row is written to the partition that its column ``partition`` names, else to the partition of its key by Kafka's hash,
else to one partition for each run of KEYLESS_RUN_BYTES, so that rows without keys make large batches. Rows that the
topic's broker would refuse are refused here, because after the intent of the batch it would be too late.

Many rows of one topic, without headers, are encoded as columns (``record_columns/kernels``). All others, and
batches with a row that is to be refused, are encoded row by row; both ways make the same bytes.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from siltstone.kafka_protocol.batch_header import (
    BATCH_HEADER_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Codec,
)
from siltstone.kafka_protocol.records.building import append_record, build_batch, seal_batch
from siltstone.kafka_protocol.records.key_partition import partition_of_key
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.model.limits import KIB, MIB
from siltstone.record_columns.kernels.choosing import best_kernels
from siltstone.record_columns.kernels.columns import Integers
from siltstone.sinking.columns import (
    ANY_PARTITION,
    RECORD_OVERHEAD_BYTES,
    RowColumns,
    columns_of,
    partitions_of,
)
from siltstone.sinking.failures import RowRefused
from siltstone.sinking.plan import SinkPlan, TopicPlace
from siltstone.value_formats.failures import RowNotEncodable
from siltstone.value_formats.value_format import FormatKind, ValueEncoding

BATCH_BYTES_MAX = 1 * MIB
KEYLESS_RUN_BYTES = 16 * KIB
PartitionKey = tuple[str, int]
"""Topic name and partition number."""

Encoded = Callable[[TopicPlace, int, bytearray, int], None]
"""Takes a record batch: its topic, its partition, its bytes with base offset 0, and how many records it has."""


COLUMNS_ROWS_MIN = 200
"""Fewer rows are encoded one by one: numpy's calls, and the import of numba in a new worker, would cost more."""


class _OpenBatch(msgspec.Struct):
    """``body`` has the encoded records so far, with time deltas from ``base_ms``. ``size_bytes`` is an upper bound."""

    place: TopicPlace
    base_ms: int
    max_ms: int
    count: int = 0
    body: bytearray = msgspec.field(default_factory=bytearray)
    size_bytes: int = BATCH_HEADER_BYTES


class RowEncoder:
    """Collects the rows of one task and passes record batches to ``on_batch``. ``task_number`` spreads the tasks' rows
    without keys over the partitions; ``now_ms`` is the time of rows that have none. ``columns_rows_min``: fewer rows
    are encoded one by one."""

    def __init__(
        self,
        plan: SinkPlan,
        task_number: int,
        now_ms: int,
        on_batch: Encoded,
        *,
        columns_rows_min: int = COLUMNS_ROWS_MIN,
    ) -> None:
        self.columns_rows_min = columns_rows_min
        self._plan = plan
        self._places = {place.name: place for place in plan.topics}
        self._task_number = task_number
        self._now_ms = now_ms
        self._on_batch = on_batch
        self._encode = None if plan.encoding is None else _encoder(plan.encoding)
        self._open: dict[PartitionKey, _OpenBatch] = {}
        self._keyless: dict[str, tuple[int, int]] = {}
        self.open_bytes = 0

    def add_all(self, rows: Any) -> None:
        """Adds a pyarrow.RecordBatch. Raises RowRefused."""
        try:
            if self._add_columns(rows):
                return
            for key, value, topic, partition, headers, timestamp_ms in self._columns(rows):
                self.add(key, value, topic or self._plan.topic, partition, headers or (), timestamp_ms)
        except RowNotEncodable as cause:
            raise RowRefused(self._plan.topic or "a topic", str(cause)) from cause

    def _columns(self, rows: Any) -> Iterator[tuple[Any, ...]]:
        """Yields the rows as the arguments of ``add``."""
        names = rows.schema.names
        count = rows.num_rows

        def values(name: str, kind: str | None = None) -> Any:
            if name not in names:
                return [None] * count
            column = rows.column(name)
            return (column if kind is None else column.cast(kind)).to_pylist()

        encode = self._encode
        encoded = values("value", "binary") if encode is None else encode(rows.column("value"))
        times = values("timestamp", "int64")
        return zip(
            values("key", "binary"),
            encoded,
            values("topic"),
            values("partition"),
            values("headers"),
            [None if time is None else time // 1000 for time in times],
            strict=True,
        )

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        topic: str | None,
        partition: int | None,
        headers: Any,
        timestamp_ms: int | None,
    ) -> None:
        """Adds one row. Raises RowRefused."""
        place = self._place(topic)
        if timestamp_ms is None:
            timestamp_ms = self._now_ms
        elif place.has_own_times:
            self._refuse_time(place, timestamp_ms)
        if key is None and place.needs_keys:
            raise RowRefused(place.name, "the topic is compacted, and the row has no key")
        pairs = tuple((each["key"], each["value"]) for each in headers)
        size_bytes = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
        size_bytes += sum(len(name) * 3 + len(data or b"") + 10 for name, data in pairs)
        number = self._partition(place, key, partition, size_bytes)
        opened = self._open.get((place.name, number))
        limit = min(BATCH_BYTES_MAX, place.message_bytes_max)
        if opened is not None and opened.size_bytes + size_bytes > limit:
            self._seal((place.name, number))
            opened = None
        if opened is None:
            opened = self._open[place.name, number] = _OpenBatch(place, timestamp_ms, timestamp_ms)
        record = Record(timestamp_ms=timestamp_ms, key=key, value=value, headers=pairs)
        append_record(opened.body, record, opened.count, opened.base_ms)
        opened.count += 1
        opened.max_ms = max(opened.max_ms, timestamp_ms)
        opened.size_bytes += size_bytes
        self.open_bytes += size_bytes

    # -- as columns ------------------------------------------------------------------------------------------------

    def _add_columns(self, rows: Any) -> bool:
        """Adds the rows as columns; adds none, and returns false, if they have to go one by one."""
        place = self._places.get(self._plan.topic)
        if place is None or rows.num_rows < self.columns_rows_min or self._encode is not None:
            return False
        given = columns_of(rows, place, self._now_ms)
        numbers = None if given is None else partitions_of(given, place)
        if given is None or numbers is None:
            return False
        keyless = np.flatnonzero(numbers == ANY_PARTITION)
        if len(keyless):
            numbers[keyless] = self._runs(place, given.sizes[keyless])
        by_partition = np.argsort(numbers, kind="stable")
        self._add_sorted(place, given.in_order(by_partition), numbers[by_partition])
        return True

    def _runs(self, place: TopicPlace, sizes: Integers) -> Integers:
        """Returns the partitions of rows without keys: one for each run of KEYLESS_RUN_BYTES."""
        count = len(place.stream_ids)
        number, filled = self._keyless.get(place.name, (self._task_number % count, 0))
        ends = np.cumsum(sizes)
        found = np.empty(len(sizes), dtype=np.int64)
        first = 0
        while first < len(sizes):
            before = int(ends[first - 1]) if first else 0
            end = int(np.searchsorted(ends, before + KEYLESS_RUN_BYTES - filled, side="right"))
            if end == first and filled:
                number, filled = (number + 1) % count, 0
                continue
            end = max(end, first + 1)
            found[first:end] = number
            filled += int(ends[end - 1]) - before
            first = end
        self._keyless[place.name] = number, filled
        return found

    def _add_sorted(self, place: TopicPlace, given: RowColumns, numbers: Integers) -> None:
        """Adds rows that are ordered by partition."""
        times, sizes = given.times, given.sizes
        pieces = self._pieces(place, numbers, times, sizes)
        time_deltas, offset_deltas = times.copy(), np.arange(len(times), dtype=np.int64)
        for opened, _, first, end in pieces:
            time_deltas[first:end] -= opened.base_ms
            offset_deltas[first:end] += opened.count - first
            opened.count += end - first
        body, ends = best_kernels().encode_records(given.keys, given.values, time_deltas, offset_deltas)
        for opened, number, first, end in pieces:
            opened.body += body[int(ends[first - 1]) if first else 0 : int(ends[end - 1])].data
            opened.max_ms = max(opened.max_ms, int(times[first:end].max()))
            current = self._open.get((place.name, number))
            if current is not opened:
                if current is not None:
                    self._seal((place.name, number))
                self._open[place.name, number] = opened
            self.open_bytes += int(sizes[first:end].sum())

    def _pieces(
        self, place: TopicPlace, numbers: Integers, times: Integers, sizes: Integers
    ) -> list[tuple[_OpenBatch, int, int, int]]:
        """Returns which rows, ordered by partition, go into which batch: (batch, partition, first row, end). A batch is
        open already, or new."""
        limit = min(BATCH_BYTES_MAX, place.message_bytes_max)
        ends = np.cumsum(sizes)
        borders = [*np.flatnonzero(np.diff(numbers, prepend=-1)).tolist(), len(numbers)]
        pieces = []
        for first, end in pairwise(borders):
            number = int(numbers[first])
            opened = self._open.get((place.name, number))
            at = first
            while at < end:
                before = int(ends[at - 1]) if at else 0
                room = limit - (BATCH_HEADER_BYTES if opened is None else opened.size_bytes)
                until = min(int(np.searchsorted(ends, before + room, side="right")), end)
                if until <= at and opened is not None:
                    opened = None
                    continue
                until = max(until, at + 1)
                if opened is None:
                    opened = _OpenBatch(place, int(times[at]), int(times[at]))
                opened.size_bytes += int(ends[until - 1]) - before
                pieces.append((opened, number, at, until))
                at = until
                if at < end:
                    opened = None
        return pieces

    def seal_all(self) -> None:
        """Passes all open batches to ``on_batch``. Raises RowRefused."""
        for key in list(self._open):
            self._seal(key)
        self.open_bytes = 0

    def _place(self, topic: str | None) -> TopicPlace:
        if not topic:
            raise RowRefused("no topic", "its column topic is null, and option topic is not given")
        place = self._places.get(topic)
        if place is None:
            raise RowRefused(
                f"topic {topic}", "the store has no such topic; create it before the query starts"
            )
        return place

    def _partition(self, place: TopicPlace, key: bytes | None, wanted: int | None, size_bytes: int) -> int:
        count = len(place.stream_ids)
        if wanted is not None:
            if not 0 <= wanted < count:
                raise RowRefused(
                    place.name, f"it says partition {wanted}, and the topic has {count}, from 0 on"
                )
            return wanted
        if key is not None:
            return partition_of_key(key, count)
        number, filled = self._keyless.get(place.name, (self._task_number % count, 0))
        if filled + size_bytes > KEYLESS_RUN_BYTES and filled:
            number, filled = (number + 1) % count, 0
        self._keyless[place.name] = number, filled + size_bytes
        return number

    def _refuse_time(self, place: TopicPlace, timestamp_ms: int) -> None:
        if timestamp_ms - self._now_ms > place.timestamp_after_max_ms:
            raise RowRefused(
                place.name,
                f"its timestamp {timestamp_ms} ms is later than message.timestamp.after.max.ms allows",
            )
        if self._now_ms - timestamp_ms > place.timestamp_before_max_ms:
            raise RowRefused(
                place.name,
                f"its timestamp {timestamp_ms} ms is earlier than message.timestamp.before.max.ms allows",
            )

    def _seal(self, key: PartitionKey) -> None:
        opened = self._open.pop(key)
        self.open_bytes = max(0, self.open_bytes - opened.size_bytes + BATCH_HEADER_BYTES)
        data = seal_batch(_header(opened), opened.body, opened.count)
        if len(data) <= opened.place.message_bytes_max:
            self._on_batch(opened.place, key[1], data, opened.count)
            return
        for part, count in _batches(opened.place, list(iterate_records(data))):
            self._on_batch(opened.place, key[1], part, count)


def _header(opened: _OpenBatch) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        batch_length=0,
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=Codec(opened.place.codec),
        last_offset_delta=opened.count - 1,
        base_timestamp_ms=opened.base_ms,
        max_timestamp_ms=opened.max_ms,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=opened.count,
    )


def _batches(place: TopicPlace, records: list[Record]) -> Iterator[tuple[bytearray, int]]:
    """Yields the records as one batch, or as several if one would be too large for the topic after compression. Raises
    RowRefused."""
    data = build_batch(records, compression=Codec(place.codec))
    if len(data) <= place.message_bytes_max:
        yield data, len(records)
        return
    if len(records) == 1:
        raise RowRefused(
            place.name,
            f"its record has {len(data)} bytes, and max.message.bytes is {place.message_bytes_max}",
        )
    middle = len(records) // 2
    yield from _batches(place, records[:middle])
    yield from _batches(place, records[middle:])


def _encoder(encoding: ValueEncoding) -> Callable[[Any], Iterator[bytes | None]]:
    if encoding.schema.kind is FormatKind.JSON:
        from siltstone.value_formats.encoders.json import JsonEncoder  # noqa: PLC0415  beside the other

        return JsonEncoder().encode
    from siltstone.value_formats.encoders.avro import AvroEncoder  # noqa: PLC0415  loads fastavro

    return AvroEncoder(encoding).encode
