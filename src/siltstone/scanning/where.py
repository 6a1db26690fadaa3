"""Expressions that choose records, such as ``--where`` of ``siltstone tail``: DuckDB evaluates them.

The expression is a user's own text, so it runs where nothing can be reached: in memory, without files and extensions.

======================  ==========================================================================================
name in the expression  what it is
======================  ==========================================================================================
``field``               the field of a value that is a JSON object, as in ``siltstone sql``
``value.field``         the same, also for a field that has one of the names below
``value``               the value as text
``key``                 the key as text
``kafka``               a struct of partition, offset, timestamp and key, as in ``siltstone sql``
======================  ==========================================================================================

The fields that the expression names are the columns of a table, ``value``, and what every record has those of a second
one beside it. Records are evaluated together. If that fails, as when a field is a number in one record and text in the
next, each is evaluated alone, and a record for which the expression fails does not match. Nor does a value that is no
JSON object, if the expression names a field. A key or value that is no UTF-8 is null.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any

import msgspec

from siltstone.model.buffers import Buffer
from siltstone.model.errors import InvalidRequest
from siltstone.record_columns.arrow import ArrowMissing, require_arrow

if TYPE_CHECKING:
    from siltstone.kafka_client.following import Found

_SETTINGS = {"autoload_known_extensions": "false", "autoinstall_known_extensions": "false"}
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_RECORD_NAMES = frozenset({"key", "value", "kafka"})
_TYPES_TRIED = ("null", "string", "float64", "int64", "bool_")
"""What fields may turn out to be; the expression has to make sense for one of these."""

Path = tuple[str, ...]


class WhereRefused(InvalidRequest):
    """DuckDB cannot understand the expression, or it takes too long."""


class Where:
    """``name`` is what errors call the expression. ``seconds_max`` is how long DuckDB may take for the records of one
    call, and ``memory_limit`` how much memory in its words; without them there is no limit.

    Raises WhereRefused for a wrong expression when it is made, and ArrowMissing without DuckDB."""

    def __init__(
        self, expression: str, *, name: str = "--where", seconds_max: float = 0, memory_limit: str = ""
    ) -> None:
        try:
            import duckdb  # noqa: PLC0415  an extra
        except ModuleNotFoundError as missing:
            raise ArrowMissing(f"{name} needs DuckDB; install it: pip install 'siltstone[sql]'") from missing
        self._name = name
        self._seconds_max = seconds_max
        self._interrupted = duckdb.InterruptException
        self._arrow = require_arrow()
        self._failures = (duckdb.Error, self._arrow.ArrowException, OverflowError, TypeError)
        bounds = {"memory_limit": memory_limit, "threads": "1"} if memory_limit else {}
        self._connection = duckdb.connect(":memory:", config={**_SETTINGS, **bounds})
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")
        self._query = (
            'SELECT _row FROM _fields AS "value" POSITIONAL JOIN _records AS "_record"'  # noqa: S608  a user's own
            f" WHERE (\n{expression}\n)"
        )
        self._expression = expression
        self._fields = _field_paths(self._names())
        with self._in_time():
            self._check()

    def matches(self, found: "Sequence[Found]") -> list[bool]:
        """Returns for each record whether it matches. Raises WhereRefused when it takes too long."""
        with self._in_time():
            return self._matching(found)

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Interrupts DuckDB when the time is over. Raises WhereRefused then."""
        late = Timer(self._seconds_max, self._connection.interrupt)
        try:
            if self._seconds_max:
                late.start()
            yield
        except self._interrupted as interrupted:
            raise self._refused(f"it takes more than {self._seconds_max:g} s") from interrupted
        finally:
            late.cancel()

    def _matching(self, found: "Sequence[Found]") -> list[bool]:
        documents = [_document(record.value) for _, record in found] if self._fields else [None] * len(found)
        try:
            matching = self._evaluated(found, documents)
        except self._interrupted:
            raise
        except self._failures:
            matching = [self._alone(*each) for each in zip(found, documents, strict=True)]
        if not self._fields:
            return matching
        return [is_one and each is not None for is_one, each in zip(matching, documents, strict=True)]

    def _alone(self, found: "Found", document: Mapping[str, Any] | None) -> bool:
        try:
            return self._evaluated([found], [document])[0]
        except self._interrupted:
            raise
        except self._failures:
            return False

    def _evaluated(
        self, found: "Sequence[Found]", documents: Sequence[Mapping[str, Any] | None]
    ) -> list[bool]:
        arrow = self._arrow
        rows = [_taken(document, self._fields) for document in documents]
        columns = {name: arrow.array([row[name] for row in rows]) for name in self._fields}
        return self._asked(columns, found)

    def _asked(self, columns: Mapping[str, Any], found: "Sequence[Found]") -> list[bool]:
        arrow = self._arrow
        # DuckDB has no table without a column.
        fields = arrow.table({**columns} or {"_": arrow.nulls(len(found))})
        self._connection.register("_fields", fields)
        self._connection.register("_records", self._records(found))
        matched = {row for (row,) in self._connection.execute(self._query).fetchall()}
        return [row in matched for row in range(len(found))]

    def _records(self, found: "Sequence[Found]") -> Any:
        arrow = self._arrow
        keys = arrow.array([_text(record.key) for _, record in found], arrow.string())
        times = [record.timestamp_ms * 1000 for _, record in found]
        kafka = {
            "partition": arrow.array([where.partition for where, _ in found], arrow.int32()),
            "offset": arrow.array([record.offset for _, record in found], arrow.int64()),
            "timestamp": arrow.array(times, arrow.int64()).cast(arrow.timestamp("us", tz="UTC")),
            "key": keys,
        }
        return arrow.table({
            "_row": arrow.array(range(len(found)), arrow.int64()),
            "key": keys,
            "value": arrow.array([_text(record.value) for _, record in found], arrow.string()),
            "kafka": arrow.StructArray.from_arrays(list(kafka.values()), names=list(kafka)),
        })  # fmt: skip

    # -- the expression

    def _names(self) -> list[Path]:
        """Returns the names in the expression, split at dots. Raises WhereRefused."""
        rows = self._connection.execute("SELECT json_serialize_sql(?)", [self._query]).fetchall()
        parsed = msgspec.json.decode(rows[0][0])
        if parsed["error"]:
            raise self._refused(parsed["error_message"])
        if len(parsed["statements"]) != 1 or not self._expression.strip():
            raise self._refused("write one expression, such as \"carrier = 'UA'\"")
        return list(_references(parsed["statements"][0]["node"]["where_clause"]))

    def _check(self) -> None:
        """Raises WhereRefused if the expression makes no sense whatever the fields are."""
        refused: list[WhereRefused] = []
        for name in _TYPES_TRIED:
            kind = self._arrow.null() if name == "null" else getattr(self._arrow, name)()
            columns = {
                field: self._arrow.array([], _nested(self._arrow, paths, kind))
                for field, paths in self._fields.items()
            }
            try:
                self._asked(columns, [])
                return
            except self._interrupted:
                raise
            except self._failures as cause:
                refused.append(self._refused(str(cause).split("\n\nLINE ")[0]))
        raise refused[0]

    def _refused(self, reason: str) -> WhereRefused:
        return WhereRefused(f"{self._name} {self._expression}: {' '.join(reason.split())}")


def _references(node: Any) -> Iterator[Path]:
    if isinstance(node, dict):
        if node.get("class") == "COLUMN_REF":
            yield tuple(node["column_names"])
        for each in node.values():
            yield from _references(each)
    elif isinstance(node, list):
        for each in node:
            yield from _references(each)


def _field_paths(names: Sequence[Path]) -> dict[str, list[Path]]:
    """Returns the fields of values that the names mean, and for each what lies inside of it; an empty path is the
    field itself."""
    fields: dict[str, list[Path]] = {}
    spelt: dict[str, str] = {}
    for name in names:
        if name[0].lower() in _RECORD_NAMES and (name[0].lower() != "value" or len(name) == 1):
            continue
        first, *rest = name[1:] if name[0].lower() == "value" else name
        known = spelt.setdefault(first.lower(), first)  # DuckDB's names have no case
        fields.setdefault(known, []).append(tuple(rest))
    return fields


def _nested(arrow: Any, paths: Sequence[Path], kind: Any) -> Any:
    """Returns the type of a field that has these paths inside of it, with ``kind`` at their ends."""
    inner: dict[str, list[Path]] = {}
    for path in paths:
        if path:
            inner.setdefault(path[0], []).append(path[1:])
    if not inner:
        return kind
    return arrow.struct([arrow.field(name, _nested(arrow, rest, kind)) for name, rest in inner.items()])


def _taken(document: Mapping[str, Any] | None, fields: Mapping[str, Sequence[Path]]) -> dict[str, Any]:
    """Returns the fields of a document. What is missing is null, so that the columns are the same for every record."""
    return {name: _pruned(_member(document, name), paths) for name, paths in fields.items()}


def _pruned(value: Any, paths: Sequence[Path]) -> Any:
    inner: dict[str, list[Path]] = {}
    for path in paths:
        if not path:
            return value
        inner.setdefault(path[0], []).append(path[1:])
    return {name: _pruned(_member(value, name), rest) for name, rest in inner.items()}


def _member(value: Any, name: str) -> Any:
    if not isinstance(value, Mapping):
        return None
    if name in value:
        return value[name]
    return next((value[each] for each in value if each.lower() == name.lower()), None)


def _document(value: Buffer | None) -> Mapping[str, Any] | None:
    try:
        return None if value is None else msgspec.json.decode(value, type=dict[str, Any])
    except (*_NOT_JSON, msgspec.ValidationError):
        return None


def _text(data: Buffer | None) -> str | None:
    try:
        return None if data is None else str(data, "utf-8")
    except UnicodeDecodeError:
        return None
