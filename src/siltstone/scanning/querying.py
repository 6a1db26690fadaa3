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
from threading import Timer
from typing import Any, Protocol

import msgspec

from siltstone.foundation.quantity_words import counted
from siltstone.model.errors import InvalidRequest, did_you_mean
from siltstone.offline.context import MaintenanceContext
from siltstone.record_columns.arrow import ArrowMissing, require_arrow
from siltstone.record_columns.row_columns import KEY, OFFSET, PARTITION, TIMESTAMP, VALUE
from siltstone.scanning.arguments import scan_request
from siltstone.scanning.result import Scan
from siltstone.scanning.scan import plan_scan
from siltstone.topic_configs.table_export import KAFKA, RESCUED, infers_columns
from siltstone.topic_configs.values import list_items
from siltstone.value_formats.settling import SAMPLE_VALUES

MEMORY_LIMIT = "1GiB"
_SETTINGS = {
    "memory_limit": MEMORY_LIMIT, "autoload_known_extensions": "false", "autoinstall_known_extensions": "false",
}  # fmt: skip
_OF_RECORD = (PARTITION, OFFSET, TIMESTAMP, KEY)
_COLUMNS = (VALUE, *_OF_RECORD)
_NEXT_ROWS = 1_000
TOPICS_SAID_MAX = 5
"""An error for an unknown topic names at most so many others: it stays on a line or two."""
_CHANGES = frozenset({"ALTER", "DELETE", "DROP", "INSERT", "MERGE_INTO", "UPDATE"})
"""Statements that would change the temporary tables only, and would be taken for a change of the topics."""
_MISSING_TABLE = re.compile(r"Table with name (.+?) does not exist!")
"""DuckDB's error for a missing table; a suggestion from its own tables follows. A missing schema has another text:
``Table with name "my.topic" does not exist because schema "my" does not exist``."""


METADATA_SCHEMA = "siltstone"
_OF_SCHEMA = re.compile(rf"(?<![\w.\"])\"?{METADATA_SCHEMA}\"?\s*\.\s*\"?(\w+)", re.IGNORECASE)


class SchemaTables(Protocol):
    """The tables of the schema ``siltstone``."""

    @property
    def names(self) -> Sequence[str]: ...

    def table(self, name: str) -> Any:
        """Returns what has ``schema()`` and ``batches()``, a pyarrow.Schema and its record batches."""
        ...


class QueryRefused(InvalidRequest):
    """DuckDB cannot run the query."""


class QueryRows(msgspec.Struct, frozen=True):
    """``notes`` say what of a topic could not be shown as it is."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]
    notes: tuple[str, ...]


class QueryChoice(msgspec.Struct, frozen=True):
    """How values are decoded: as in ``siltstone.scan``, or ``auto``, which looks at the first values. ``columns``:
    ``infer``, or ``infer, at timestamp``, as in a scan: the fields of JSON values are found in a sample of the records,
    and what no column can take is rescued. ``seconds_max``: how long DuckDB may take for the query itself; 0 means
    without an end."""

    value: str = "auto"
    registry: str = ""
    tail: str = "auto"
    isolation: str = "committed"
    seconds_max: float = 0
    columns: str = ""


@contextmanager
def run_query(
    source: MaintenanceContext,
    text: str,
    words: QueryChoice | None = None,
    metadata: SchemaTables | None = None,
    reads: Callable[[str], bool] = lambda _: True,
) -> Iterator[QueryRows]:
    """The rows are read inside of the ``with``. ``metadata`` are the tables of the schema ``siltstone``. A topic that
    ``reads`` refuses by its name is not there: it is not read, and no error names it. Raises
    QueryRefused, ArrowMissing without DuckDB, and what planning and reading a scan raise."""
    try:
        import duckdb  # noqa: PLC0415  an extra
    except ModuleNotFoundError as missing:
        raise ArrowMissing("SQL needs DuckDB; install it: pip install 'siltstone[sql]'") from missing
    require_arrow()
    try:
        kinds = [each.type.name for each in duckdb.extract_statements(text)]
    except duckdb.Error:  # the query raises it again, and its error names the topics
        kinds = ["INVALID"]
    _check(kinds)
    there = [each for each in source.metadata.refresh().topics.values() if reads(each.name)]
    topics = _distinct(topics_named(text, [each.name for each in there]), text)
    with (
        tempfile.TemporaryDirectory(prefix="siltstone-sql-") as folder,
        closing(duckdb.connect(":memory:", config={**_SETTINGS, "temp_directory": folder})) as connection,
    ):
        notes: list[str] = []
        for topic in topics:
            notes += _load(connection, source, topic, words or QueryChoice())
        for name in metadata_named(text, () if metadata is None else metadata.names):
            assert metadata is not None
            _load_metadata(connection, name, metadata.table(name))
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        late = Timer(words.seconds_max if words else 0, connection.interrupt)
        try:
            if words is not None and words.seconds_max:
                late.start()
            found = connection.execute(text)
            yield QueryRows(tuple(each[0] for each in found.description or ()), _rows(found), tuple(notes))
        except duckdb.Error as cause:
            reason = " ".join(str(cause).split("\n\n")[0].split())
            of_schema = [each for each in _OF_SCHEMA.findall(text) if metadata and each not in metadata.names]
            if metadata and of_schema:
                hint = did_you_mean(
                    of_schema[0], metadata.names, f"the tables are {', '.join(metadata.names)}"
                )
                raise QueryRefused(f"there is no table {METADATA_SCHEMA}.{of_schema[0]}: {hint}") from cause
            if missing_table := _MISSING_TABLE.search(reason):
                name = missing_table[1]
                known = [each.name for each in there if not each.is_internal]
                hint = did_you_mean(name, known, _listed(known), suggestions_max=1)
                raise QueryRefused(f"there is no topic {name}: {hint}") from cause
            raise QueryRefused(f"{reason}; topics in the query: {', '.join(topics) or 'none'}") from cause
        finally:
            late.cancel()


def _listed(topics: Sequence[str]) -> str:
    """Returns the end of an error's text: the topics of the store, which a user of a store without a broker cannot list
    by ``siltstone topics``."""
    if not topics:
        return "the store has no topics"
    more = f" and {len(topics) - TOPICS_SAID_MAX} more" if len(topics) > TOPICS_SAID_MAX else ""
    return f"the topics are {', '.join(sorted(topics)[:TOPICS_SAID_MAX])}{more}"


def _check(kinds: Sequence[str]) -> None:
    """``kinds``: those of the statements, in DuckDB's words. Raises QueryRefused."""
    if not kinds:
        raise QueryRefused("the query is empty: write one, such as 'select * from TOPIC limit 10'")
    for kind in kinds:
        if kind in _CHANGES:
            raise QueryRefused(f"{kind.split('_')[0]} is not allowed: a query reads topics and changes none")


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


def _load_metadata(connection: Any, name: str, table: Any) -> None:
    """Loads a table of the metadata into the schema ``siltstone``."""
    batches = require_arrow().RecordBatchReader.from_batches(table.schema(), table.batches())
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {METADATA_SCHEMA}")
    connection.register("incoming", batches)
    connection.execute(f"CREATE TABLE {METADATA_SCHEMA}.{name} AS SELECT * FROM incoming")  # noqa: S608  of a list
    connection.unregister("incoming")


def _rows(found: Any) -> Iterator[tuple[Any, ...]]:
    while rows := found.fetchmany(_NEXT_ROWS):
        yield from rows


def _load(connection: Any, source: MaintenanceContext, topic: str, words: QueryChoice) -> list[str]:
    """Loads a topic into a table of its name; returns notes."""
    if words.columns:
        return _load_found(connection, source, topic, words)
    wish: dict[str, Any] = {"value": words.value, "registry": words.registry}
    if words.value == "auto":
        wish = {"value": _kind_of(source, topic, words)}
    elif words.value == "raw":
        wish = {}
    request = scan_request(
        topic, columns=_COLUMNS, tail=words.tail, isolation=words.isolation, bad_values="null", **wish
    )
    scan = Scan(plan_scan(source, request))
    arrow = require_arrow()
    schema = _flattened_schema(scan.schema)
    batches = arrow.RecordBatchReader.from_batches(
        schema, (_flattened(each, schema) for each in scan.batches())
    )
    _fill(connection, topic, batches)
    return [f"{topic}: {scan.bad_values}"] if scan.bad_values.count else []


def _load_found(connection: Any, source: MaintenanceContext, topic: str, words: QueryChoice) -> list[str]:
    """Loads a topic whose columns are found; returns a note if something was rescued. Raises QueryRefused for columns
    without ``infer``: a query names the columns that it wants by itself."""
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
    arrow = require_arrow()
    schema = _found_schema(scan.schema)
    _fill(
        connection,
        topic,
        arrow.RecordBatchReader.from_batches(schema, (_found_rows(each, schema) for each in scan.batches())),
    )
    (rescued,) = connection.execute(f"SELECT count({RESCUED}) FROM {_quoted(topic)}").fetchone()  # noqa: S608
    return (
        [f"{topic}: {counted(rescued, 'row')} with values in {RESCUED}, where no column fits"]
        if rescued
        else []
    )


def _fill(connection: Any, topic: str, batches: Any) -> None:
    connection.register("incoming", batches)
    connection.execute(f"CREATE TEMP TABLE {_quoted(topic)} AS SELECT * FROM incoming")  # noqa: S608  quoted
    connection.unregister("incoming")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


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
