"""Decoded values in a scan: settles how they are decoded, and makes the column ``value`` of each record batch.

A value that cannot be decoded fails the scan, naming the record; or it is null and counted, if the caller chose so.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from siltstone.foundation.quantity_words import counted
from siltstone.record_columns.arrow import arrow_schema, require_arrow
from siltstone.record_columns.row_columns import HEADERS, OFFSET, VALUE
from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.request import ValueWish
from siltstone.topic_configs.table_export import KAFKA, RESCUED, TableColumn
from siltstone.value_formats.column_arrays import field_type
from siltstone.value_formats.decoding import BadValue
from siltstone.value_formats.failures import BadValueFound
from siltstone.value_formats.headers import VALUE_SCHEMA, framed
from siltstone.value_formats.opening import open_decoder
from siltstone.value_formats.schemas.opening import open_registry
from siltstone.value_formats.settling import settle_format
from siltstone.value_formats.value_format import BadValues, ValueFormat


class BadValueCount:
    """How many values, and times, were read as null because they cannot be decoded, and the reason for the first."""

    def __init__(self) -> None:
        self.count = 0
        self.first = ""

    def add(self, count: int, first: str) -> None:
        self.first = self.first or first
        self.count += count

    def add_far_time(self, partition: int, offset: int, time_ms: int) -> None:
        """Counts a time that is null because microseconds cannot hold it."""
        self.add(
            1, f"offset {offset} of partition {partition}: its time, {time_ms} ms, is beyond microseconds"
        )

    def __str__(self) -> str:
        if not self.count:
            return "every value was decoded"
        return (
            f"null instead of {counted(self.count, 'value')} that cannot be decoded; the first: {self.first}"
        )


def settled(
    wish: ValueWish, topics: Iterable[str], sample: Callable[[], Iterable[bytes | None]]
) -> ValueFormat:
    """Returns the value format of a scan of these topics. Raises ScanRefused, and what ``settle_format`` raises."""
    names = sorted(set(topics))
    subject = wish.subject
    if not subject and len(names) == 1:
        subject = f"{names[0]}-value"
    if not subject and wish.registry and wish.reader is None and not wish.type_ipc:
        raise ScanRefused(f"{counted(len(names), 'topic')} have several subjects: name one, or give a schema")
    return settle_format(
        wish.kind,
        subject,
        schema=wish.reader or wish.type_ipc or None,
        registry=open_registry(wish.registry) if wish.registry else None,
        message=wish.message,
        sample=sample,
        on_bad=wish.on_bad,
    )


def rows_schema(columns: Sequence[str], value_format: ValueFormat | None) -> Any:
    """Returns the pyarrow.Schema of a scan's rows. Raises ArrowMissing."""
    if value_format is not None and value_format.found is not None:
        return _found_schema(columns, value_format.found)
    schema = arrow_schema(columns)
    if value_format is None or VALUE not in columns:
        return schema
    number = columns.index(VALUE)
    return schema.set(number, require_arrow().field(VALUE, value_format.arrow_type))


def _found_schema(columns: Sequence[str], found: Sequence[TableColumn]) -> Any:
    """Returns the schema of a scan that finds its columns: a field for each found column, ``_rescued_data``, and the
    record columns that are read, in one struct."""
    arrow = require_arrow()
    fields = [arrow.field(each.name, field_type(each.type)) for each in found]
    record = arrow.struct(list(arrow_schema([each for each in columns if each != VALUE])))
    return arrow.schema([*fields, arrow.field(RESCUED, arrow.string()), arrow.field(KAFKA, record)])


class ValueColumn:
    """Replaces the bytes of the column ``value`` by the decoded values, in the record batches of one unit."""

    def __init__(self, columns: tuple[str, ...], value_format: ValueFormat, tally: BadValueCount) -> None:
        """Raises FormatExtraMissing, SchemaMalformed."""
        self._schema = rows_schema(columns, value_format)
        self._number = columns.index(VALUE)
        self._decoder = open_decoder(value_format)
        self._kind = value_format.kind
        self._may_have_headers = bool(value_format.registry)
        self._fails = value_format.on_bad is BadValues.FAIL
        self._tally = tally
        needed = (OFFSET, HEADERS) if self._may_have_headers else (OFFSET,)
        self.read_columns = (*columns, *(each for each in needed if each not in columns))
        """The columns to read. ``offset`` is always among them, because an error names a bad value by its offset; and
        ``headers`` if a value's schema may be named there."""

    def decoded(self, batch: Any, partition: str) -> Any:
        """Returns the record batch with decoded values. Raises BadValueFound, RegistryNotReachable."""
        values = batch.column(self._number)
        if self._may_have_headers:
            headers = batch.column(self.read_columns.index(HEADERS))
            values = framed(values, headers, VALUE_SCHEMA, self._kind)
        found = self._decoder.decode(values)
        if found.bad:
            offsets = batch.column(self.read_columns.index(OFFSET))
            judge_bad_values(found.bad, offsets, partition, None if self._fails else self._tally)
        columns = [batch.column(number) for number in range(len(self._schema))]
        columns[self._number] = found.column
        return require_arrow().RecordBatch.from_arrays(columns, schema=self._schema)


def judge_bad_values(
    bad: Sequence[BadValue], offsets: Any, partition: str, tally: BadValueCount | None
) -> None:
    """Counts bad values of a batch, whose ``offsets`` are an array. Without a tally, raises BadValueFound for the
    first."""
    first = bad[0]
    place = f"offset {offsets[first.row].as_py()} of {partition}"
    if tally is None:
        raise BadValueFound(place, first.reason)
    tally.add(len(bad), f"{place}: {first.reason}")
