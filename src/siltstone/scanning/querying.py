"""SQL over topics in this process, for a first look: what ``siltstone sql`` does. DuckDB runs the query.

Each topic that the text names is scanned again and loaded into a temporary table of DuckDB's, which moves to a
temporary folder what does not fit its memory limit. Loading comes first, because a query may read a table several
times, and a scan handed over as a stream would be empty the second time, without an error. DuckDB then reads no file
and loads no extension.

A topic's table has the fields of its values, if they are JSON objects or a format is given, and otherwise the column
``value``; and always one struct ``kafka`` with partition, offset, timestamp and key. Where columns are found
(``QueryChoice.columns``), it also has the column ``_rescued_data``, as scans have it.

The tables of the schema ``siltstone``, the metadata, are handed in by the caller (``SchemaTables``), and are loaded in
the same way. A topic of the name ``siltstone.objects`` is written in double quotes, and is another table.
"""

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Protocol

import msgspec

from siltstone.foundation.quantity_words import counted
from siltstone.model.errors import did_you_mean
from siltstone.offline.context import MaintenanceContext
from siltstone.record_columns.arrow import require_arrow
from siltstone.record_columns.row_columns import KEY, OFFSET, PARTITION, TIMESTAMP, VALUE
from siltstone.scanning.arguments import scan_request
from siltstone.scanning.duckdb_tables import (
    METADATA_SCHEMA,
    QueryRefused,
    connected,
    load_table,
    lock,
    reason_of,
    refuse_statements,
    require_duckdb,
)
from siltstone.scanning.result import Scan
from siltstone.scanning.scan import plan_scan
from siltstone.topic_configs.table_export import KAFKA, RESCUED, infers_columns
from siltstone.topic_configs.values import list_items
from siltstone.value_formats.settling import SAMPLE_VALUES

MEMORY_LIMIT = "1GiB"
_OF_RECORD = (PARTITION, OFFSET, TIMESTAMP, KEY)
_COLUMNS = (VALUE, *_OF_RECORD)
_NEXT_ROWS = 1_000
TOPICS_SAID_MAX = 5
"""An error for an unknown topic names at most so many others: it stays on a line or two."""
_MISSING_TABLE = re.compile(r"Table with name (.+?) does not exist!")
"""DuckDB's error for a missing table; a suggestion from its own tables follows. A missing schema has another text:
``Table with name "my.topic" does not exist because schema "my" does not exist``."""


_OF_SCHEMA = re.compile(rf"(?<![\w.\"])\"?{METADATA_SCHEMA}\"?\s*\.\s*\"?(\w+)", re.IGNORECASE)


class SchemaTables(Protocol):
    """The tables of the schema ``siltstone``."""

    @property
    def names(self) -> Sequence[str]: ...

    def table(self, name: str) -> Any:
        """Returns what has ``schema()`` and ``batches()``, a pyarrow.Schema and its record batches."""
        ...


class QueryRows(msgspec.Struct, frozen=True):
    """``notes`` say what of a topic could not be shown as it is."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]
    notes: tuple[str, ...]


class QueryChoice(msgspec.Struct, frozen=True):
    """How values are decoded: as in ``siltstone.scan``, or ``auto``, which looks at the first values. ``columns``:
    ``infer``, or ``infer, at timestamp``, as in a scan: the fields of JSON values are found in a sample of the records,
    and what no column can take is rescued."""

    value: str = "auto"
    registry: str = ""
    tail: str = "auto"
    isolation: str = "committed"
    columns: str = ""


class QueryTable(msgspec.Struct, frozen=True):
    """A table that a query names. ``batches``: a pyarrow.RecordBatchReader, which can be read once."""

    name: str
    batches: Any
    schema: str = ""


class PlannedQuery:
    """What a query reads. ``metadata`` are the tables of the schema ``siltstone``. A topic that ``reads`` refuses by
    its name is not there: it is not read, and no error names it. Raises QueryRefused."""

    def __init__(
        self,
        source: MaintenanceContext,
        text: str,
        words: QueryChoice,
        metadata: SchemaTables | None = None,
        reads: Callable[[str], bool] = lambda _: True,
    ) -> None:
        require_arrow()
        self.text = text
        self.notes: list[str] = []
        self._source = source
        self._words = words
        self._metadata = metadata
        self._there = [each for each in source.metadata.refresh().topics.values() if reads(each.name)]
        self._topics = _distinct(topics_named(text, [each.name for each in self._there]), text)

    def tables(self) -> Iterator[QueryTable]:
        """Yields each table when the one before was read. Raises what planning and reading a scan raise."""
        for topic in self._topics:
            read, batches = _scanned(self._source, topic, self._words)
            yield QueryTable(topic, batches)
            self.notes += read.notes()
        for name in metadata_named(self.text, () if self._metadata is None else self._metadata.names):
            assert self._metadata is not None
            table = self._metadata.table(name)
            batches = require_arrow().RecordBatchReader.from_batches(table.schema(), table.batches())
            yield QueryTable(name, batches, METADATA_SCHEMA)

    def refusal(self, reason: str) -> QueryRefused:
        """Says what is wrong: ``reason`` is DuckDB's, in one line."""
        names = () if self._metadata is None else self._metadata.names
        of_schema = [each for each in _OF_SCHEMA.findall(self.text) if names and each not in names]
        if of_schema:
            hint = did_you_mean(of_schema[0], names, f"the tables are {', '.join(names)}")
            return QueryRefused(f"there is no table {METADATA_SCHEMA}.{of_schema[0]}: {hint}")
        if missing_table := _MISSING_TABLE.search(reason):
            name = missing_table[1]
            known = [each.name for each in self._there if not each.is_internal]
            hint = did_you_mean(name, known, _listed(known), suggestions_max=1)
            return QueryRefused(f"there is no topic {name}: {hint}")
        return QueryRefused(f"{reason}; topics in the query: {', '.join(self._topics) or 'none'}")


@contextmanager
def run_query(
    source: MaintenanceContext,
    text: str,
    words: QueryChoice | None = None,
    metadata: SchemaTables | None = None,
) -> Iterator[QueryRows]:
    """Runs the query in this process, for the user of this program. The rows are read inside of the ``with``. Raises
    QueryRefused, ArrowMissing without DuckDB, and what planning and reading a scan raise."""
    duckdb = require_duckdb()
    refuse_statements(text)
    planned = PlannedQuery(source, text, words or QueryChoice(), metadata)
    with (
        tempfile.TemporaryDirectory(prefix="siltstone-sql-") as folder,
        closing(connected({"memory_limit": MEMORY_LIMIT, "temp_directory": folder})) as connection,
    ):
        for each in planned.tables():
            load_table(connection, each.schema, each.name, each.batches)
        lock(connection)
        try:
            found = connection.execute(text)
            columns = tuple(each[0] for each in found.description or ())
            yield QueryRows(columns, _rows(found), tuple(planned.notes))
        except duckdb.Error as cause:
            raise planned.refusal(reason_of(cause)) from cause


def _listed(topics: Sequence[str]) -> str:
    """Returns the end of an error's text: the topics of the store, which a user of a store without a broker cannot list
    by ``siltstone topics``."""
    if not topics:
        return "the store has no topics"
    more = f" and {len(topics) - TOPICS_SAID_MAX} more" if len(topics) > TOPICS_SAID_MAX else ""
    return f"the topics are {', '.join(sorted(topics)[:TOPICS_SAID_MAX])}{more}"


def topics_named(text: str, topics: Iterable[str]) -> list[str]:
    """Returns the topics whose names are words of the text: perhaps more than the query reads, never fewer."""
    lower = text.lower()
    near = [
        name for name in topics if name.lower() in lower
    ]  # a pattern for each of 10,000 topics takes half a second
    return sorted(
        name for name in near if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE)
    )


def _distinct(topics: Sequence[str], text: str) -> list[str]:
    """DuckDB takes no notice of upper and lower case, so it has one table for topics that differ in that alone: of
    these the one that the text spells. Raises QueryRefused if it spells several, or none of them."""
    alike: dict[str, list[str]] = {}
    for name in topics:
        alike.setdefault(name.lower(), []).append(name)
    found = []
    for names in alike.values():
        spelt = [name for name in names if name in text] if len(names) > 1 else names
        if len(spelt) != 1:
            raise QueryRefused(
                f"the topics {' and '.join(names)} differ in upper and lower case only, and are one table here: "
                "a query reads one of them, by its exact name"
            )
        found += spelt
    return found


def metadata_named(text: str, names: Iterable[str]) -> list[str]:
    """Returns the tables of the schema ``siltstone`` that the text names: perhaps more than the query reads."""
    named = {each.lower() for each in _OF_SCHEMA.findall(text)}
    return [name for name in names if name in named]


def _rows(found: Any) -> Iterator[tuple[Any, ...]]:
    while rows := found.fetchmany(_NEXT_ROWS):
        yield from rows


class _Read(msgspec.Struct):
    """A topic that is being read: ``notes`` are complete when the batches are read. ``rescued`` counts rows with values
    that no column could take."""

    topic: str
    scan: Scan
    rescued: int = 0

    def notes(self) -> list[str]:
        notes = [f"{self.topic}: {self.scan.bad_values}"] if self.scan.bad_values.count else []
        if self.rescued:
            notes.append(
                f"{self.topic}: {counted(self.rescued, 'row')} with values in {RESCUED}, where no column fits"
            )
        return notes


def _scanned(source: MaintenanceContext, topic: str, words: QueryChoice) -> tuple[_Read, Any]:
    """Returns the scan of a topic, and its rows as a pyarrow.RecordBatchReader."""
    if words.columns:
        return _scanned_found(source, topic, words)
    wish: dict[str, Any] = {"value": words.value, "registry": words.registry}
    if words.value == "auto":
        wish = {"value": _kind_of(source, topic, words)}
    elif words.value == "raw":
        wish = {}
    request = scan_request(
        topic, columns=_COLUMNS, tail=words.tail, isolation=words.isolation, bad_values="null", **wish
    )
    scan = Scan(plan_scan(source, request))
    schema = _flattened_schema(scan.schema)
    read = _Read(topic, scan)
    batches = (_flattened(each, schema) for each in scan.batches())
    return read, require_arrow().RecordBatchReader.from_batches(schema, batches)


def _scanned_found(source: MaintenanceContext, topic: str, words: QueryChoice) -> tuple[_Read, Any]:
    """Returns a topic whose columns are found. Raises QueryRefused for columns without ``infer``: a query names the
    columns that it wants by itself."""
    if not infers_columns(tuple(list_items(words.columns))):
        raise QueryRefused(
            f"columns {words.columns!r} do not have the word infer: write infer, or infer and the columns whose types"
            " you know, as in 'infer, at timestamp'"
        )
    request = scan_request(
        topic, columns=words.columns, tail=words.tail, isolation=words.isolation, registry=words.registry,
        value="json" if words.value == "auto" else words.value,
    )  # fmt: skip
    scan = Scan(plan_scan(source, request))
    read, schema = _Read(topic, scan), _found_schema(scan.schema)

    def rows() -> Iterator[Any]:
        for each in scan.batches():
            found = _found_rows(each, schema)
            read.rescued += found.num_rows - found.column(RESCUED).null_count
            yield found

    return read, require_arrow().RecordBatchReader.from_batches(schema, rows())


def _kind_of(source: MaintenanceContext, topic: str, words: QueryChoice) -> str | None:
    """``json`` if the first values are JSON objects, ``string`` if they are text, else None."""
    request = scan_request(topic, columns=VALUE, tail=words.tail, isolation=words.isolation, lease="0")
    left = SAMPLE_VALUES
    kinds: set[str | None] = set()
    for batch in Scan(plan_scan(source, request)).batches():
        kinds |= {_kind(value) for value in batch.column(0)[:left].to_pylist() if value is not None}
        left -= batch.num_rows
        if left <= 0:
            break
    if kinds == {"json"}:
        return "json"
    return None if None in kinds else "string"


def _kind(value: bytes) -> str | None:
    try:
        msgspec.json.decode(value, type=dict[str, msgspec.Raw])
        return "json"
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        value.decode()
        return "string"
    except UnicodeDecodeError:
        return None


# -- columns ---------------------------------------------------------------------------------------------------


def _flattened_schema(schema: Any) -> Any:
    arrow = require_arrow()
    value = schema.field(VALUE).type
    fields = list(value) if arrow.types.is_struct(value) else [arrow.field(VALUE, value)]
    name = KAFKA
    while any(each.name.lower() == name for each in fields):
        name = f"_{name}"
    inside = [schema.field(each) for each in (PARTITION, OFFSET, TIMESTAMP)]
    kafka = arrow.struct([*inside, arrow.field(KEY, arrow.string())])
    return arrow.schema([*fields, arrow.field(name, kafka)])


def _flattened(batch: Any, schema: Any) -> Any:
    """Returns the fields of the values side by side."""
    arrow = require_arrow()
    value = batch.column(0)
    columns = value.flatten() if arrow.types.is_struct(value.type) else [value]
    parts = [batch.column(1), batch.column(2), batch.column(3), _shown_keys(batch.column(4))]
    kafka = arrow.StructArray.from_arrays(parts, fields=list(schema.field(len(columns)).type))
    return arrow.RecordBatch.from_arrays([*columns, kafka], schema=schema)


def _found_schema(schema: Any) -> Any:
    """Returns the schema of found columns with the struct ``kafka`` of other tables here."""
    arrow = require_arrow()
    at = schema.get_field_index(KAFKA)
    inside = [each.with_type(arrow.string()) if each.name == KEY else each for each in schema.field(at).type]
    kafka = arrow.struct([each for each in inside if each.name in _OF_RECORD])
    return schema.set(at, arrow.field(KAFKA, kafka))


def _found_rows(batch: Any, schema: Any) -> Any:
    arrow = require_arrow()
    at = schema.get_field_index(KAFKA)
    record = dict(zip((each.name for each in batch.column(at).type), batch.column(at).flatten(), strict=True))
    record[KEY] = _shown_keys(record[KEY])
    fields = list(schema.field(at).type)
    kafka = arrow.StructArray.from_arrays([record[each.name] for each in fields], fields=fields)
    columns = [kafka if number == at else column for number, column in enumerate(batch.columns)]
    return arrow.RecordBatch.from_arrays(columns, schema=schema)


def _shown_keys(keys: Any) -> Any:
    """Returns keys as text. A key that is no UTF-8 is shown in hexadecimal digits."""
    arrow = require_arrow()
    try:
        return keys.cast(arrow.string())
    except arrow.ArrowInvalid:
        return arrow.array([_text(key) for key in keys.to_pylist()], arrow.string())


def _text(key: bytes | None) -> str | None:
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return key.hex() if key is not None else None
