"""``run_export`` is the task of an export. It reads a scan unit, decodes its records, and writes data files.

What it writes, and where, follows from its input alone, so it may run twice, or at the same time as another call with
the same input. Nothing that it writes is in a table before the driver's commit.

One record never stops it. A record is bad if its value or key cannot be decoded, if microseconds cannot hold its time,
or if the division of the table has no part for it. Whatever else goes wrong while records become rows is narrowed down,
by halves, to the records that cause it, and they are bad, too.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.model.errors import SiltstoneError
from siltstone.object_store.port import ObjectStore
from siltstone.offline.tasks.runner import TaskFailure, failure_in_one_line, peak_memory_bytes
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.record_columns.row_columns import HEADERS, KEY, OFFSET, PARTITION, TIMESTAMP, VALUE
from siltstone.scanning.failures import ScanDamaged, ScanOutdated
from siltstone.scanning.rows import unit_rows
from siltstone.scanning.unit import decode_unit
from siltstone.tables.decoding.choosing import value_decoder
from siltstone.tables.decoding.keys import key_decoder
from siltstone.tables.decoding.port import DecodedColumns
from siltstone.tables.dividing import divided, without_place
from siltstone.tables.formats.derived import with_division
from siltstone.tables.layout import REASON, Shaping
from siltstone.tables.replaying import Replaying
from siltstone.tables.sequences import whole_numbers
from siltstone.tables.task_input import CODEC, NEEDED_MAX, TRUNCATES_MAX, ExportInput, ExportResult, Truncate
from siltstone.tables.writing import TOMBSTONE, FileWriting, staged_schema
from siltstone.topic_configs.column_types import ColumnType
from siltstone.topic_configs.table_export import (
    KAFKA,
    RESCUED,
    SEQUENCE_COLUMN,
    SEQUENCE_OF_RECORDS,
    PartitionTransform,
)
from siltstone.value_formats.decoding import reason_of
from siltstone.value_formats.found_columns import extended, joined_fields
from siltstone.value_formats.headers import KEY_SCHEMA, VALUE_SCHEMA, framed
from siltstone.value_formats.value_format import FormatKind
from siltstone.value_formats.wire import SchemaName, in_order

EXAMPLE_CHARACTERS_MAX = 100

BAD_DATA = (ScanDamaged, ScanOutdated)
"""Errors that become the result's ``failure``: other topics are not affected."""


def run_export(data: bytes) -> bytes:
    """Runs the task. Raises what the stores raise."""
    given = CODEC.decode_input(data)
    return CODEC.encode_result(export_unit(given, store_at(given.location, create=True)))


def export_unit(given: ExportInput, store: ObjectStore) -> ExportResult:
    try:
        return _Exporting(given, store).export()
    except BAD_DATA as failure:
        return ExportResult(failure=TaskFailure(failure_in_one_line(failure)))


class _Shaped(msgspec.Struct, frozen=True):
    """The columns of the records of a batch, what was decoded of them, and their rows in the table; at the rows of bad
    records the content does not matter."""

    record: dict[str, Any]
    decoded: DecodedColumns
    rows: Any


class _Exporting:
    def __init__(self, given: ExportInput, store: ObjectStore) -> None:
        self._given = given
        schema, dead = (
            pa.ipc.read_schema(pa.py_buffer(each)) for each in (given.schema, given.dead_letter_schema)
        )
        self._division: tuple[PartitionTransform, ...] = ()
        if given.config.table_format == "delta":
            self._division = given.config.division
        self._values = value_decoder(
            given.config, given.schemas, schema, given.found, may_truncate=given.may_truncate
        )
        if given.config.is_upsert:
            schema = staged_schema(schema)
        self._keys = key_decoder(given.config, given.key_schemas)
        stem = f"{given.token}-{given.number:05}"
        self._replaying: Replaying | None = None
        if given.replays:
            self._replaying = Replaying(given.unit, store, given.dead_letter_folder)
        self._shaping, self._dead_shaping = Shaping(schema), Shaping(dead)
        self._files = FileWriting(store, given.folder, stem, schema, given.limits)
        self._dead_files = FileWriting(store, given.dead_letter_folder, stem, dead, given.limits)
        self._records = self._bad = 0
        self._example = ""
        self._unexpected: tuple[int, int] | None = None
        self._needed: set[SchemaName] = set()
        self._needed_keys: set[SchemaName] = set()
        self._found: dict[str, ColumnType] = {}
        self._truncates: list[Truncate] = []
        self._rows_after_truncate = 0
        self._rescued = 0
        self._rescued_example = ""
        self._far_times_ms: dict[tuple[int, int], int] = {}

    def export(self) -> ExportResult:
        for batch in self._batches():
            for part in self._shaped(batch):
                self._add(part)
        if self._must_run_again:
            return ExportResult(
                needed=tuple(in_order(self._needed)),
                needed_keys=tuple(in_order(self._needed_keys)),
                found=self._found,
            )
        files, dead_files = self._files.close(), self._dead_files.close()
        return ExportResult(
            records=self._records,
            bad=self._bad,
            example=self._example,
            files=files,
            dead_letter_files=dead_files,
            unexpected=self._unexpected,
            replayed=self._replaying.counts if self._replaying else {},
            rescued=self._rescued,
            rescued_example=self._rescued_example,
            truncates=tuple(self._truncates),
            bytes_written=sum(each.size_bytes for each in (*files, *dead_files)),
            peak_memory_bytes=peak_memory_bytes(),
        )

    def _batches(self) -> Iterator[Any]:
        """Yields the records of the unit, of each batch one partition; dead letters as their table has them."""
        if self._replaying is None:
            yield from unit_rows(decode_unit(self._given.unit), on_far_time=self._note_far_time)
            return
        for batch, keep in self._replaying.batches():
            if keep.num_rows:
                self._records += keep.num_rows
                self._bad += keep.num_rows
                self._dead_files.add(self._dead_shaping.rows(_columns(keep), keep.num_rows))
            if batch.num_rows:
                yield batch

    @property
    def _must_run_again(self) -> bool:
        """Whether schemas were needed, or fields found, that the task was not given."""
        return bool(self._needed or self._needed_keys or self._found)

    def _note_far_time(self, partition: int, offset: int, time_ms: int) -> None:
        self._far_times_ms[partition, offset] = time_ms

    def _shaped(self, batch: Any) -> Iterator[_Shaped]:
        """Makes rows of the table of a batch, or of its halves if it cannot be done for the whole. Yields nothing if a
        schema is needed."""
        try:
            shaped = self._shape(batch)
        except (SiltstoneError, MemoryError, OSError):
            raise
        except Exception as cause:  # of any decoder and of Arrow, for a value that nobody has thought of
            if batch.num_rows > 1:
                for first, end in ((0, batch.num_rows // 2), (batch.num_rows // 2, batch.num_rows)):
                    yield from self._shaped(batch.take(pa.array(range(first, end))))
                return
            reason = f"it cannot be made a row: {type(cause).__name__}: {reason_of(cause)}"
            shaped = _Shaped(_columns(batch), DecodedColumns({}, {0: reason}), self._shaping.rows({}, 1))
        if shaped is not None:
            yield shaped

    def _shape(self, batch: Any) -> _Shaped | None:
        given, record = self._given, _columns(batch)
        decoded = self._decoded(record)
        if decoded is None:
            return None
        columns = self._table_columns(record, decoded)
        if given.config.is_upsert:
            columns[TOMBSTONE] = record[VALUE].is_null() if decoded.deletes is None else decoded.deletes
        lacking: dict[int, str] = {}
        if given.config.sequence:
            columns[SEQUENCE_COLUMN] = sequences = self._sequences(record, decoded)
            lacks = pc.and_(sequences.is_null(), pc.invert(columns[TOMBSTONE])).to_numpy(zero_copy_only=False)
            reason = (
                f"it has no sequence: {given.config.sequence} is missing, or no whole number, time or date"
            )
            lacking = {row: reason for row in lacks.nonzero()[0].tolist() if row not in decoded.skipped}
        rows = self._shaping.rows(columns, batch.num_rows)
        lacking |= self._with_key(record, decoded) | self._too_many_truncates(decoded)
        bad = (
            lacking | without_place(rows, given.partition_by, given.config) | self._far(record) | decoded.bad
        )
        return _Shaped(record, msgspec.structs.replace(decoded, bad=bad), rows)

    def _sequences(self, record: Mapping[str, Any], decoded: DecodedColumns) -> Any:
        """Returns the sequences of the records as a pyarrow.Int64Array, null for a record that has none."""
        if self._given.config.sequence == SEQUENCE_OF_RECORDS:
            return whole_numbers(record[TIMESTAMP])
        if decoded.sequences is not None:
            return decoded.sequences
        column = decoded.columns.get(self._given.config.sequence)
        numbers = None if column is None else whole_numbers(column)
        return pa.nulls(len(record[OFFSET]), pa.int64()) if numbers is None else numbers

    def _far(self, record: Mapping[str, Any]) -> dict[int, str]:
        """Returns the rows of the batch with times that microseconds cannot hold."""
        if not record[TIMESTAMP].null_count:
            return {}
        found = {}
        for row in record[TIMESTAMP].is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
            time_ms = self._far_times_ms[_place(record, row)]
            found[row] = f"its time is {time_ms} ms since 1970, which microseconds of 64 bits cannot hold"
        return found

    def _add(self, shaped: _Shaped) -> None:
        given, record, decoded, rows = self._given, shaped.record, shaped.decoded, shaped.rows
        self._records += rows.num_rows
        if self._replaying is not None:
            self._replaying.count(record, decoded.bad)
            if self._replaying.is_dry:
                return
        self._count(record, decoded)
        if given.verdict is None:
            are_good = decoded.are_good(rows.num_rows)
            if given.config.errors == "dead-letter" or self._replaying is not None:
                self._add_dead_letters(record, decoded)
        else:
            are_good = ~_among(record, given.verdict)
            self._unexpected = self._unexpected or _first_bad(record, decoded, are_good)
            are_good &= decoded.are_good(rows.num_rows)
        truncates = [row for row in sorted(decoded.truncates) if are_good[row]]
        are_good[list(decoded.skipped)] = False
        if given.config.is_upsert:
            are_good &= record[KEY].is_valid().to_numpy(zero_copy_only=False)
        self._count_rescued(decoded, are_good)
        self._note_truncates(record, truncates, are_good)
        if not are_good.all():
            rows = rows.filter(pa.array(are_good))
        for values, part in divided(rows, given.partition_by, given.config):
            if part.num_rows:
                self._files.add(with_division(part, self._division, values), values)

    def _with_key(self, record: Mapping[str, Any], decoded: DecodedColumns) -> dict[int, str]:
        """Returns the truncates with a key: a replay of dead letters looks for records without one (``replay_order``),
        and Debezium's truncates have none."""
        reason = "it truncates the table, and has a key"
        return {row: reason for row in decoded.truncates if record[KEY][row].is_valid}

    def _too_many_truncates(self, decoded: DecodedColumns) -> dict[int, str]:
        if not self._given.config.has_history or self._given.verdict is not None:
            return {}  # a round that is repeated may have other units, and takes what it took
        reason = f"it truncates the table, and more than {TRUNCATES_MAX} such events were exported with it"
        return dict.fromkeys(
            sorted(decoded.truncates)[max(0, TRUNCATES_MAX - len(self._truncates)) :], reason
        )

    def _note_truncates(self, record: Mapping[str, Any], rows: list[int], are_good: Any) -> None:
        """Notes truncates with records before them. Where only the newest rows are kept, the last one counts alone."""
        first = 0
        for row in rows:
            if self._truncates and not self._rows_after_truncate + int(are_good[first:row].sum()):
                continue
            if not self._given.config.has_history:
                self._truncates.clear()
            time_us = record[TIMESTAMP][row].cast(pa.int64()).as_py()
            self._truncates.append(Truncate(record[OFFSET][row].as_py(), time_us))
            self._rows_after_truncate, first = 0, row
        self._rows_after_truncate += int(are_good[first:].sum())

    def _decoded(self, record: Mapping[str, Any]) -> DecodedColumns | None:
        """Returns the decoded values and keys; None if the task has to run again."""
        values, config = record[VALUE], self._given.config
        failed: dict[int, str] = {}
        if self._replaying is not None:
            values, failed = self._replaying.mended(record)
        if config.is_framed:
            values = framed(values, record[HEADERS], VALUE_SCHEMA, FormatKind(config.value))
        decoded, keys = self._values.decode(values), DecodedColumns({})
        if failed:
            decoded = msgspec.structs.replace(decoded, bad={**decoded.bad, **failed})
        if self._keys is not None:
            of_record = record[KEY]
            if config.has_key_schemas:
                of_record = framed(of_record, record[HEADERS], KEY_SCHEMA, FormatKind(config.key))
            keys = self._keys.decode(of_record)
        for needed, found in ((self._needed, decoded.needed), (self._needed_keys, keys.needed)):
            needed.update(found[: NEEDED_MAX - len(needed)])
        self._note_fields(decoded.found)
        if self._must_run_again:
            return None
        if self._keys is None:
            return decoded
        bad = {row: f"key: {reason}" for row, reason in keys.bad.items()}
        inner = f"{KAFKA}.{KEY}" if self._given.config.has_fields else KEY
        columns = {**decoded.columns, inner: keys.columns[KEY]}
        return msgspec.structs.replace(decoded, columns=columns, bad={**bad, **decoded.bad})

    def _note_fields(self, fields: dict[str, ColumnType]) -> None:
        """Notes the fields that would be columns, or parts of columns, if the driver had known them."""
        given = self._given.found
        if given.are_final or not fields:
            return
        if given.columns != extended(given.columns, fields, nests=given.nests, reserved=given.reserved):
            self._found = joined_fields(self._found, fields)

    def _table_columns(self, record: Mapping[str, Any], decoded: DecodedColumns) -> dict[str, Any]:
        if self._given.config.has_fields:
            return {**{f"{KAFKA}.{name}": each for name, each in record.items()}, **decoded.columns}
        return {**record, **decoded.columns}

    def _count(self, record: Mapping[str, Any], decoded: DecodedColumns) -> None:
        self._bad += len(decoded.bad)
        if decoded.bad and not self._example:
            row = min(decoded.bad)
            partition, offset = _place(record, row)
            self._example = f"partition {partition} offset {offset}: {decoded.bad[row]}"

    def _count_rescued(self, decoded: DecodedColumns, are_good: Any) -> None:
        column = decoded.columns.get(RESCUED)
        if column is None or column.null_count == len(column):
            return
        texts = column.filter(pa.array(are_good)).drop_null()
        self._rescued += len(texts)
        if len(texts) and not self._rescued_example:
            self._rescued_example = texts[0].as_py()[:EXAMPLE_CHARACTERS_MAX]

    def _add_dead_letters(self, record: Mapping[str, Any], decoded: DecodedColumns) -> None:
        if not decoded.bad:
            return
        at = sorted(decoded.bad)
        columns = {name: each.take(pa.array(at)) for name, each in record.items()}
        columns[REASON] = pa.array([decoded.bad[row] for row in at], pa.string())
        self._dead_files.add(self._dead_shaping.rows(columns, len(at)))


def _columns(batch: Any) -> dict[str, Any]:
    return {name: batch.column(name) for name in batch.schema.names}


def _place(record: Mapping[str, Any], row: int) -> tuple[int, int]:
    return record[PARTITION][row].as_py(), record[OFFSET][row].as_py()


def _among(record: Mapping[str, Any], verdict: Mapping[int, list[int]]) -> Any:
    """Says which rows the verdict names. A batch has the records of one partition."""
    count = len(record[OFFSET])
    named = verdict.get(record[PARTITION][0].as_py(), []) if count else []
    return np.isin(record[OFFSET].to_numpy(), np.array(named, dtype=np.int64))


def _first_bad(record: Mapping[str, Any], decoded: DecodedColumns, are_wanted: Any) -> tuple[int, int] | None:
    rows: Iterator[int] = (row for row in sorted(decoded.bad) if are_wanted[row])
    row = next(rows, None)
    return None if row is None else _place(record, row)
