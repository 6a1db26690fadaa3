"""Reads messages of a topic for a page: the newest, or from a place on; all of them, or those of a filter.

A page reads a window of each partition: as many offsets as it shows, or with a filter as many as it may search. The
window becomes smaller until its bytes are within the limits, as they are stored and as they are read. ``Found.older``
and ``Found.newer`` say where the next page begins. Records that are in no object yet come from their brokers, as in
every scan.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from siltstone.console.confined import confined_matches
from siltstone.console.shown import ShownBytes, shown_bytes, shown_value
from siltstone.foundation.quantity_words import counted, size_words
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.following import Found as FoundRecord
from siltstone.kafka_protocol.records.reading import Record
from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.model.console_limits import (
    CONSOLE_ANSWER_SECONDS_MAX,
    CONSOLE_DECODED_BYTES_MAX,
    CONSOLE_HEADER_BYTES,
    CONSOLE_HEADERS_MAX,
    CONSOLE_SEARCH_BYTES_MAX,
    CONSOLE_SEARCH_RECORDS_MAX,
)
from siltstone.model.errors import InvalidRequest
from siltstone.offline.context import MaintenanceContext
from siltstone.record_columns.arrow import require_arrow, table_of
from siltstone.record_columns.row_columns import HEADERS, KEY, OFFSET, PARTITION, TIMESTAMP, VALUE
from siltstone.scanning.arguments import Place, scan_request
from siltstone.scanning.request import ScanRequest
from siltstone.scanning.result import Scan
from siltstone.scanning.scan import ScanPlan, plan_scan

COLUMNS = (PARTITION, OFFSET, TIMESTAMP, KEY, VALUE, HEADERS)


class MessagesWanted(msgspec.Struct, frozen=True, kw_only=True):
    """``before`` and ``start``: partition → offset; with ``before`` the messages below it, the newest first, with
    ``start`` or ``from_ms`` those from there on, the oldest first. None of them: the newest ones.

    ``key`` is compared whole, ``text`` is looked for in keys and values, and ``condition`` is an expression of
    ``scanning.where``."""

    partitions: tuple[int, ...]
    count: int
    before: Mapping[int, int] | None = None
    start: Mapping[int, int] | None = None
    from_ms: int | None = None
    key: str = ""
    text: str = ""
    condition: str = ""
    value: str = ""
    registry: str = ""
    isolation: str = "committed"
    tail: str = "auto"
    search_records_max: int = CONSOLE_SEARCH_RECORDS_MAX
    decoded_bytes_max: int = CONSOLE_DECODED_BYTES_MAX

    @property
    def is_filtered(self) -> bool:
        return bool(self.key or self.text or self.condition)

    @property
    def is_forward(self) -> bool:
        return self.start is not None or self.from_ms is not None


class RecordsTooLarge(InvalidRequest):
    """Even one record of each partition is more than a page reads."""


class TopicMessage(msgspec.Struct, frozen=True, kw_only=True):
    """``value`` is None for a tombstone, ``key`` for a record without a key. ``more_headers`` are not shown."""

    partition: int
    offset: int
    timestamp_ms: int
    key: ShownBytes | None
    value: ShownBytes | None
    headers: tuple[tuple[str, ShownBytes | None], ...]
    more_headers: int


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """``looked_at`` counts the records that were read. ``older`` and ``newer`` are the places of the next pages, None
    where there is none. ``explained`` says what was read."""

    messages: tuple[TopicMessage, ...]
    looked_at: int
    older: Mapping[int, int] | None
    newer: Mapping[int, int] | None
    explained: str


def find_messages(source: MaintenanceContext, topic: TopicMetadata, wanted: MessagesWanted) -> Found:
    """Reads. Blocks. Raises WhereRefused, and what planning and reading a scan raise."""
    plan, table = found_table(source, topic, wanted)
    order = _order(table, wanted)
    passed = _passing(table, order, wanted)
    chosen = passed[: wanted.count]
    columns = {name: table.column(name) for name in COLUMNS}
    messages = tuple(_message(columns, row) for row in chosen)
    cuts = {each.of.partition: (each.start_offset, each.end_offset) for each in plan.cuts}
    is_cut_off = len(passed) > len(chosen)
    places = _places(messages, cuts, table, passed, wanted, is_cut_off=is_cut_off)
    starts = {number: _start_of(source.metadata.image, topic, number) for number in cuts}
    has_older = any(places[number] > starts[number] for number in places)
    return Found(
        messages=messages,
        looked_at=table.num_rows,
        older=places if not wanted.is_forward and has_older else None,
        newer=places if wanted.is_forward and (is_cut_off or messages) else None,
        explained=repr(Scan(plan)).splitlines()[0],
    )


def downloaded_table(source: MaintenanceContext, topic: TopicMetadata, wanted: MessagesWanted) -> Any:
    """Returns the records of a download, as a pyarrow.Table: those of the window that pass the filter, in the order in
    which they are stored. Raises what ``find_messages`` raises."""
    _, table = found_table(source, topic, wanted)
    if not wanted.is_filtered:
        return table
    passed = _passing(table, range(table.num_rows), wanted)
    return table.take(require_arrow().array(passed, "int64"))


def found_table(
    source: MaintenanceContext, topic: TopicMetadata, wanted: MessagesWanted
) -> tuple[ScanPlan, Any]:
    """Returns the plan and the records of the window, as a pyarrow.Table. Raises what a scan raises."""
    extents = _extents(source, topic, wanted)
    most = wanted.search_records_max // len(wanted.partitions)
    each_of = max(1, most if wanted.is_filtered else min(most, wanted.count))
    while True:
        windows = {number: _window(number, extent, wanted, each_of) for number, extent in extents.items()}
        starts = {number: start for number, (start, _) in windows.items()}
        ends = {number: end for number, (_, end) in windows.items()}
        plan = plan_scan(source, _request(topic, wanted, starts, ends))
        if plan.size_bytes <= CONSOLE_SEARCH_BYTES_MAX or each_of == 1:
            table = _read(Scan(plan), wanted.decoded_bytes_max)
            if table is not None:
                return plan, table
            if each_of == 1:
                raise RecordsTooLarge(
                    f"a record of each of {counted(len(windows), 'partition')} has more than "
                    f"{size_words(wanted.decoded_bytes_max)} together: choose one partition, or use siltstone tail"
                )
            each_of = max(1, each_of // 4)
        else:
            each_of = max(1, min(each_of // 2, each_of * CONSOLE_SEARCH_BYTES_MAX // plan.size_bytes))


def _read(scan: Scan, bytes_max: int) -> Any:
    """Returns the records as a pyarrow.Table; None if they have more bytes than ``bytes_max``."""
    read, left = [], bytes_max
    for batch in scan.batches():
        read.append(batch)
        left -= batch.nbytes + CONSOLE_HEADER_BYTES * len(batch.column(HEADERS).flatten())
        if left < 0:
            return None
    return table_of(read, scan.schema)


def _extents(
    source: MaintenanceContext, topic: TopicMetadata, wanted: MessagesWanted
) -> dict[int, tuple[int, int]]:
    """Returns the first offset that may be shown of each partition, and its end, by plans that read nothing: brokers
    say how far the records go that are in no object yet, and the metadata where a time is."""
    image = source.metadata.refresh()
    starts = {number: _start_of(image, topic, number) for number in wanted.partitions}
    nearly: dict[int, Place] = {
        number: max(starts[number], _end_of(image, topic, number) - 1) for number in wanted.partitions
    }
    ends = {
        each.of.partition: each.end_offset
        for each in plan_scan(source, _request(topic, wanted, nearly, "latest")).cuts
    }
    if wanted.from_ms is not None:
        time = datetime.fromtimestamp(wanted.from_ms / 1000, UTC)
        settled = plan_scan(source, _request(topic, wanted, time, time)).cuts
        starts = {each.of.partition: each.start_offset for each in settled}
    return {number: (starts[number], ends[number]) for number in wanted.partitions}


def _window(number: int, extent: tuple[int, int], wanted: MessagesWanted, each_of: int) -> tuple[int, int]:
    """Returns the offsets that the page reads of a partition: at most ``each_of`` of them."""
    first, last = extent
    if wanted.is_forward:
        start = min(last, max(first, (wanted.start or {}).get(number, first)))
        return start, min(last, start + each_of)
    end = last if wanted.before is None else min(last, max(first, wanted.before.get(number, last)))
    return max(first, end - each_of), end


def _request(
    topic: TopicMetadata,
    wanted: MessagesWanted,
    start: Place | Mapping[int, Place],
    end: Place | Mapping[int, Place],
) -> ScanRequest:
    return scan_request(
        topic.name, columns=COLUMNS, partitions=wanted.partitions, start=start, end=end,
        isolation=wanted.isolation, tail=wanted.tail, lease="0", value=wanted.value or None, registry=wanted.registry,
        bad_values="null" if wanted.value else "fail",
    )  # fmt: skip


def _order(table: Any, wanted: MessagesWanted) -> list[int]:
    """Returns the rows in the order of the page: by time, and within a partition by offset."""
    times = table.column(TIMESTAMP).cast("int64").to_pylist()
    partitions, offsets = table.column(PARTITION).to_pylist(), table.column(OFFSET).to_pylist()
    rows = range(table.num_rows)
    if wanted.is_forward:
        return sorted(rows, key=lambda row: (times[row], partitions[row], offsets[row]))
    return sorted(rows, key=lambda row: (-times[row], partitions[row], -offsets[row]))


def _passing(table: Any, order: Sequence[int], wanted: MessagesWanted) -> list[int]:
    passed = list(order)
    if wanted.key or wanted.text:
        keys, values = table.column(KEY).to_pylist(), table.column(VALUE).to_pylist()
        key, text = wanted.key.encode(), wanted.text
        passed = [
            row for row in passed
            if (not key or keys[row] == key)
            and (not text or text in _plain(keys[row]) or text in _plain(values[row]))
        ]  # fmt: skip
    if wanted.condition and passed:
        matching = confined_matches(
            wanted.condition,
            _as_records(table, passed),
            name="the condition",
            seconds_max=CONSOLE_ANSWER_SECONDS_MAX,
        )
        passed = [row for row, is_one in zip(passed, matching, strict=True) if is_one]
    return passed


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return msgspec.json.encode(value, enc_hook=str).decode()


def _as_records(table: Any, rows: Sequence[int]) -> list[FoundRecord]:
    """Returns the rows as records. A value that a format has decoded is its JSON."""
    keys, values = table.column(KEY).to_pylist(), table.column(VALUE).to_pylist()
    partitions, offsets = table.column(PARTITION).to_pylist(), table.column(OFFSET).to_pylist()
    times = table.column(TIMESTAMP).cast("int64").to_pylist()
    return [
        (
            TopicPartition("", partitions[row]),
            Record(
                offset=offsets[row], timestamp_ms=times[row] // 1000, key=keys[row],
                value=values[row] if values[row] is None else _raw(values[row]),
            ),
        )
        for row in rows
    ]  # fmt: skip


def _raw(value: Any) -> bytes:
    return value if isinstance(value, bytes) else msgspec.json.encode(value, enc_hook=str)


def _message(columns: Mapping[str, Any], row: int) -> TopicMessage:
    headers = columns[HEADERS][row].values  # None: without any
    header_count = 0 if headers is None else len(headers)
    key, value = columns[KEY][row].as_py(), columns[VALUE][row].as_py()
    return TopicMessage(
        partition=columns[PARTITION][row].as_py(),
        offset=columns[OFFSET][row].as_py(),
        timestamp_ms=columns[TIMESTAMP][row].cast("int64").as_py() // 1000,
        key=None if key is None else shown_bytes(key),
        value=None if value is None else shown_value(value),
        headers=tuple(
            (each["key"], None if each["value"] is None else shown_bytes(each["value"]))
            for each in (headers[:CONSOLE_HEADERS_MAX].to_pylist() if header_count else ())
        ),
        more_headers=max(0, header_count - CONSOLE_HEADERS_MAX),
    )


def _places(
    messages: Sequence[TopicMessage],
    cuts: Mapping[int, tuple[int, int]],
    table: Any,
    passed: Sequence[int],
    wanted: MessagesWanted,
    *,
    is_cut_off: bool,
) -> dict[int, int]:
    """Returns where the next page begins in each partition: after what was shown of it, or, when nothing of it is left
    to show, after what was read of it."""
    partitions = table.column(PARTITION)
    left_over = {partitions[row].as_py() for row in passed[wanted.count :]} if is_cut_off else set()
    places = {}
    for number, (start, end) in cuts.items():
        shown = [each.offset for each in messages if each.partition == number]
        if number not in left_over:
            places[number] = end if wanted.is_forward else start
        elif shown:
            places[number] = max(shown) + 1 if wanted.is_forward else min(shown)
        else:
            places[number] = start if wanted.is_forward else end
    return places


def _start_of(image: MetadataImage, topic: TopicMetadata, number: int) -> int:
    return image.streams[topic.partitions[number].data_stream_id].start_offset


def _end_of(image: MetadataImage, topic: TopicMetadata, number: int) -> int:
    return image.streams[topic.partitions[number].data_stream_id].end_offset
