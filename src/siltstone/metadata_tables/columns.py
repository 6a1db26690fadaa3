"""What a table of metadata is made of: columns, each with a type and a function from rows to values, and the record
batches that follow from them. Pure.

A row is a value that the image has anyway, such as an ObjectMetadata. A column is computed for ``ROWS_MAX`` rows at
once, and only if it is wanted, so a table takes the memory of one batch, however long it is.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import islice
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec
import numpy as np

from siltstone.metadata_tables.moment import Moment
from siltstone.model.errors import InvalidRequest, did_you_mean
from siltstone.record_columns.arrow import require_arrow

ROWS_MAX = 65_536
"""Rows of a batch: its twenty columns are 10 MiB. Larger batches are not faster."""

_MICROSECONDS = 1_000


class MetadataColumnUnknown(InvalidRequest):
    """The table has no column of that name."""


class RowsRefused(InvalidRequest):
    """The rows that are asked for cannot be counted from the first."""


class MetadataType(Enum):
    """What a column holds. The value is the name of the type in the documentation."""

    TEXT = "text"
    WHOLE = "int64"
    PARTITION = "int32"
    NUMBER = "float64"
    FLAG = "boolean"
    TIME = "timestamp, UTC"
    WHOLES = "list of int64"


class RowChunk:
    """The rows of one batch. Tables whose columns share work have a subclass that keeps its results."""

    def __init__(self, moment: Moment, rows: Sequence[Any]) -> None:
        self.moment = moment
        self.rows = rows

    def numbers(self, name: str) -> Any:
        """Returns a field of all rows, as a numpy array of int64."""
        return np.fromiter(map(attrgetter(name), self.rows), np.int64, len(self.rows))


def texts(labels: Sequence[str | None], codes: Any) -> Any:
    """Returns a pyarrow.Array of text: for each code the label of this number."""
    arrow = require_arrow()
    return arrow.array(labels, arrow.string()).take(arrow.array(codes))


Values: TypeAlias = Callable[[Any], Any]
"""RowChunk → the values of a column: a list, or a numpy array."""


class MetadataColumn(msgspec.Struct, frozen=True):
    """``values`` of type TIME are ms since 1970, and None, 0 or less where there is no time."""

    name: str
    type: MetadataType
    meaning: str
    values: Values


class MetadataTable(msgspec.Struct, frozen=True):
    """``rows`` returns the rows in the order of the table: of one topic, or for None all. A sequence is read from its
    middle without what is before."""

    name: str
    meaning: str
    columns: tuple[MetadataColumn, ...]
    rows: Callable[[Moment, str | None], Iterable[Any]]
    chunk: Callable[[Moment, Sequence[Any]], Any] = RowChunk
    rows_max: int = ROWS_MAX

    def chosen(self, names: Sequence[str] | None) -> tuple[MetadataColumn, ...]:
        """Returns the columns of these names, or all. Raises MetadataColumnUnknown."""
        if names is None:
            return self.columns
        known = {each.name: each for each in self.columns}
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known, f"its columns are {', '.join(known)}")
                raise MetadataColumnUnknown(f"the table {self.name} has no column {name}: {hint}")
        return tuple(known[name] for name in names)


def schema_of(table: MetadataTable, names: Sequence[str] | None = None) -> Any:
    """Returns the pyarrow.Schema. Raises MetadataColumnUnknown, ArrowMissing."""
    arrow = require_arrow()
    return arrow.schema([(each.name, arrow_type(each.type)) for each in table.chosen(names)])


def batches_of(
    table: MetadataTable,
    moment: Moment,
    *,
    columns: Sequence[str] | None = None,
    topic: str | None = None,
    limit: int | None = None,
    offset: int = 0,
    rows_max: int = ROWS_MAX,
) -> Iterator[Any]:
    """Yields the rows as pyarrow.RecordBatch, at most ``rows_max`` in each, and no more than the table allows. Raises
    MetadataColumnUnknown, RowsRefused, ArrowMissing."""
    if offset < 0 or (limit is not None and limit < 0):
        raise RowsRefused(f"limit={limit} and offset={offset}: neither may be below 0")
    arrow, schema, chosen = require_arrow(), schema_of(table, columns), table.chosen(columns)
    end = None if limit is None else offset + limit
    rows_max = min(rows_max, table.rows_max)
    for rows in _chunks(table.rows(moment, topic), offset, end, rows_max):
        chunk = table.chunk(moment, rows)
        arrays = [_array(each.values(chunk), each.type) for each in chosen]
        yield arrow.RecordBatch.from_arrays(arrays, schema=schema)


def _chunks(rows: Iterable[Any], start: int, end: int | None, rows_max: int) -> Iterator[Sequence[Any]]:
    if isinstance(rows, Sequence):
        end = len(rows) if end is None else min(end, len(rows))
        for first in range(start, end, rows_max):
            yield rows[first : min(first + rows_max, end)]
        return
    left = islice(rows, start, end)
    while chunk := list(islice(left, rows_max)):
        yield chunk


def arrow_type(kind: MetadataType) -> Any:
    arrow = require_arrow()
    return {
        MetadataType.TEXT: arrow.string(), MetadataType.WHOLE: arrow.int64(), MetadataType.PARTITION: arrow.int32(),
        MetadataType.NUMBER: arrow.float64(), MetadataType.FLAG: arrow.bool_(),
        MetadataType.TIME: arrow.timestamp("us", tz="UTC"), MetadataType.WHOLES: arrow.list_(arrow.int64()),
    }[kind]  # fmt: skip


def _array(values: Any, kind: MetadataType) -> Any:
    arrow = require_arrow()
    if kind is MetadataType.TIME:
        if not isinstance(values, np.ndarray):
            values = np.fromiter((each or 0 for each in values), np.int64, len(values))
        return arrow.array(values * _MICROSECONDS, mask=values <= 0).view(arrow_type(kind))
    if isinstance(values, arrow.Array):
        return values
    return arrow.array(values, arrow_type(kind))


# -- columns of usual kinds --------------------------------------------------------------------------------------


def field(name: str, kind: MetadataType, meaning: str, attribute: str = "") -> MetadataColumn:
    """Returns the column of an attribute of the rows, of its own name if no other is given."""
    get = attrgetter(attribute or name)
    return MetadataColumn(name, kind, meaning, lambda chunk: [*map(get, chunk.rows)])


def whole(name: str, meaning: str, attribute: str = "") -> MetadataColumn:
    """Returns the column of an attribute that is a number in every row."""
    return MetadataColumn(name, MetadataType.WHOLE, meaning, lambda chunk: chunk.numbers(attribute or name))


def time(name: str, meaning: str, attribute: str) -> MetadataColumn:
    """Returns the column of an attribute in ms since 1970, which is 0 where there is no time."""
    return MetadataColumn(name, MetadataType.TIME, meaning, lambda chunk: chunk.numbers(attribute))


def computed(
    name: str, kind: MetadataType, meaning: str, of_row: Callable[[Moment, Any], Any]
) -> MetadataColumn:
    """Returns the column of a function of the moment and the row."""
    return MetadataColumn(
        name, kind, meaning, lambda chunk: [of_row(chunk.moment, row) for row in chunk.rows]
    )


def labelled(name: str, meaning: str, attribute: str, labels: Sequence[str | None]) -> MetadataColumn:
    """Returns the column of an attribute that is the number of a label."""
    return MetadataColumn(
        name, MetadataType.TEXT, meaning, lambda chunk: texts(labels, chunk.numbers(attribute))
    )
