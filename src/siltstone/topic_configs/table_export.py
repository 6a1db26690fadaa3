"""Defines the configurations ``siltstone.table.*`` of a topic that is kept as a table: values, and the rules for them.
Pure.

A table has one of two layouts. *Records*: the columns of a Kafka record, with key and value as bytes or text. *Fields*:
each field of the values becomes a column, and one more column, the struct ``kafka``, has the partition, the offset, the
timestamp, the key and the headers of the record. ``siltstone.table.columns`` names the fields of JSON values; Avro and
Protobuf values have the fields of their schemas, which are known only when a round begins.

A table is divided by partition values (``siltstone.table.partition.by``): a data file holds records of one value of
each transform. Names of columns are resolved among the fields of JSON first, then among the columns of the record. With
a schema it is the other way round, because a later schema may have a field ``timestamp``, and the division of a table
never changes.
"""

import re

import msgspec

from siltstone.topic_configs.column_types import (
    NAME,
    PLAIN,
    ColumnType,
    TypeMalformed,
    canonical,
    parsed_type,
    types_in_words,
)
from siltstone.topic_configs.values import InvalidTopicConfig, Value, refused

FORMATS = ("parquet", "iceberg", "delta")
APPEND = "append"
UPSERT = "upsert"
MODES = (APPEND, UPSERT)
DEBEZIUM = "debezium"
CHANGES = ("", DEBEZIUM)
SCD2 = "scd2"
HISTORIES = ("", SCD2)
VALUES = ("raw", "string", "json", "avro", "protobuf")
WITH_SCHEMAS = ("avro", "protobuf")
KEYS = ("raw", "string", "json", "avro", "protobuf")
WITH_FIELDS = ("json", "avro", "protobuf")
ERRORS = ("dead-letter", "pause", "drop")

KAFKA = "kafka"
"""The struct column of the layout of fields."""

REGISTRY = "registry"
"""``siltstone.table.value.schema``: each value names its schema, in its first bytes or in a header."""

INFER = "infer"
"""``siltstone.table.columns``: the fields of JSON values are found from the records. Columns beside it in the list have
the type that is given there."""

VARIANT = "variant"
"""A type that Iceberg 3, Delta and Spark have, and that no column of a table can have yet."""

_NO_VARIANT = (
    "the packages that write tables have no VARIANT (pyiceberg 0.12 writes no tables of version 3, deltalake 1.6 does"
    " not know the type): write json, which is the text, or infer"
)

RESCUED = "_rescued_data"
"""The column with what no other column of a record could take, as JSON. Tables whose columns are found have it."""

LATEST = "latest"
"""No value has such a prefix, and all are read with the newest schema of the topic's subject."""

FILE = "file:"
"""No value has such a prefix, and all are read with this file in the folder of schemas."""

TIME_TRANSFORMS = ("year", "month", "day", "hour")
IDENTITY = "identity"
BUCKET = "bucket"
TRUNCATE = "truncate"
TRANSFORMS = (IDENTITY, *TIME_TRANSFORMS, BUCKET, TRUNCATE)
WITH_WIDTH = (BUCKET, TRUNCATE)
WIDTH_MAX = 1_000_000
BUCKETS_MAX = 10_000
"""A round has a task, and writes a file, for each bucket of an upsert table that has new records."""

COLUMNS_MAX = 1_000

_SCHEMA = re.compile(rf"{REGISTRY}|{LATEST}|{FILE}[A-Za-z0-9_.-]+")
_TABLE_NAME = re.compile(r"[A-Za-z0-9_]{1,100}\.[A-Za-z0-9_]{1,300}")
_TRANSFORM = re.compile(r"(\w+)\(\s*(\w+)\s*(?:,\s*(\d{1,7})\s*)?\)")
_OF_TIME = frozenset({"timestamp"})
_OF_IDENTITY = frozenset({"string", "int", "long", "boolean"})
_OF_BUCKET = frozenset({"string", "binary", "int", "long", "date", "timestamp"})
_OF_TRUNCATE = frozenset({"string", "int", "long"})
_OF_SEQUENCE = ("int", "long", "timestamp", "date")

SEQUENCE_COLUMN = "_sequence"
"""The column of a table with the sequence of each row: a whole number, of a time its microseconds since 1970."""

SEQUENCE_OF_RECORDS = "kafka.timestamp"
"""``siltstone.table.sequence``: the time of the record."""

_RECORD_TYPES = {"timestamp": "timestamp", "partition": "int"}
"""The columns of a record by which a table may be divided; its key, too, where no field of a schema can have that
name."""
KEY = "key"
_ALLOWED = {IDENTITY: _OF_IDENTITY, BUCKET: _OF_BUCKET, TRUNCATE: _OF_TRUNCATE}


class TableColumn(msgspec.Struct, frozen=True, array_like=True):
    """A field of the values that becomes a column. ``kind`` is the canonical text of its type, which ``column_types``
    parses."""

    name: str
    kind: str

    @property
    def type(self) -> ColumnType:
        """The type of the column."""
        return parsed_type(self.kind)


class PartitionTransform(msgspec.Struct, frozen=True, array_like=True):
    """A transform of a column that gives the partition value: ``identity``, a unit of time, ``bucket[16]`` or
    ``truncate[4]`` [as Iceberg names them]."""

    transform: str
    column: str

    @property
    def kind(self) -> str:
        """The transform without its number."""
        return self.transform.partition("[")[0]

    @property
    def width(self) -> int:
        """The number of a transform: how many buckets, or the width to which texts or numbers are truncated; 0 for
        none."""
        return int(self.transform.partition("[")[2].rstrip("]") or 0)

    @property
    def name(self) -> str:
        """The name of the partition value, as Iceberg's own tools write it: ``timestamp_day``."""
        column = self.column.replace(".", "_")
        return column if self.transform == IDENTITY else f"{column}_{self.kind}"

    @property
    def text(self) -> str:
        """The transform as it is configured, such as ``bucket(key,16)``."""
        number = f",{self.width}" if self.width else ""
        return f"{self.kind}({self.column}{number})"


class TableConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configurations of one topic's table. ``table_format`` "" means that the topic has none, ``name`` "" that the
    table is named after the topic. ``infers``: the columns that are not listed are found from the records.
    ``change`` says in which form values are changes of rows; "": they are rows. ``history`` says how versions of rows
    are kept; "": the newest alone. ``sequence`` is the path of the field that orders the changes of a key; "": offsets
    do. ``is_compacted`` is the topic's cleanup policy."""

    table_format: str = ""
    name: str = ""
    value: str = "raw"
    schema: str = REGISTRY
    message: str = ""
    key: str = "raw"
    key_columns: tuple[TableColumn, ...] = ()
    columns: tuple[TableColumn, ...] = ()
    infers: bool = False
    partition_by: tuple[PartitionTransform, ...] = (PartitionTransform("day", "timestamp"),)
    interval_ms: int = 0
    bytes_min: int = 1
    errors: str = "dead-letter"
    holds_retention: bool = False
    mode: str = APPEND
    change: str = ""
    history: str = ""
    sequence: str = ""
    is_compacted: bool = False

    @property
    def is_upsert(self) -> bool:
        """Whether the table has the newest record of each key alone."""
        return self.mode == UPSERT

    @property
    def has_history(self) -> bool:
        """Whether the table keeps all versions of its rows."""
        return bool(self.history)

    @property
    def has_fields(self) -> bool:
        """Whether the table has the layout of fields."""
        return bool(self.columns) or self.infers or self.has_schemas

    @property
    def has_schemas(self) -> bool:
        """Whether the fields are the fields of the values' schemas."""
        return self.value in WITH_SCHEMAS

    @property
    def has_key_schemas(self) -> bool:
        """Whether the fields of keys are read with the keys' schemas."""
        return self.key in WITH_SCHEMAS

    @property
    def is_framed(self) -> bool:
        """Whether each value names its schema."""
        return self.has_schemas and self.schema == REGISTRY

    def name_for(self, topic: str) -> str:
        return self.name or f"kafka.{re.sub(r'[.-]', '_', topic)}"

    def kind_of(self, column: str) -> str | None:
        """Returns the type of a column by which the table may be divided; None if there is none of that name."""
        types = {**_RECORD_TYPES, KEY: "binary" if self.key == "raw" else "string"}
        if self.key_columns:
            del types[KEY]
        if self.is_upsert:
            types |= {f"{KEY}.{each.name}": each.kind for each in self.key_columns}
            return types.get(column)
        return next((each.kind for each in self.columns if each.name == column), None) or types.get(column)

    def is_field(self, column: str) -> bool:
        if self.is_upsert:
            return False
        if self.has_schemas:
            return column not in _RECORD_TYPES
        return any(each.name == column for each in self.columns)

    def source_of(self, column: str) -> str:
        """Returns the column by which the table is divided, as a path in its schema."""
        return f"{KAFKA}.{column}" if self.has_fields and not self.is_field(column) else column

    @property
    def division(self) -> tuple[PartitionTransform, ...]:
        """The transforms of the table, with columns as paths in its schema."""
        return tuple(
            msgspec.structs.replace(each, column=self.source_of(each.column)) for each in self.partition_by
        )

    @property
    def conflict(self) -> str:
        """Says why the configurations contradict each other; empty when they do not."""
        if (self.columns or self.infers) and self.value != "json":
            return f"siltstone.table.columns names fields of JSON values, but siltstone.table.value is {self.value}"
        if self.message and self.value != "protobuf":
            return f"siltstone.table.value.message names a Protobuf message, but siltstone.table.value is {self.value}"
        if reason := self._change_conflict or self._key_conflict:
            return reason
        if self.is_upsert and not (self.is_compacted or self.change or self.sequence):
            return "siltstone.table.mode=upsert keeps the newest record of each key: it needs cleanup.policy=compact"
        if self.is_upsert and self.table_format == "parquet":
            return (
                "siltstone.table.mode=upsert needs siltstone.table.format=iceberg or delta: it replaces files"
            )
        return next(filter(None, map(self._misdivided, self.partition_by)), "")

    @property
    def _change_conflict(self) -> str:
        if self.has_history and not self.is_upsert:
            return f"siltstone.table.history={self.history} keeps versions by key: it needs siltstone.table.mode=upsert"
        if self.sequence and (reason := self._sequence_conflict):
            return f"siltstone.table.sequence={self.sequence}: {reason}"
        name = f"siltstone.table.change={self.change}"
        if self.change and not self.is_upsert:
            return f"{name} applies changes to rows: it needs siltstone.table.mode=upsert"
        if self.change and self.value != "avro" and not (self.columns or self.infers):
            return (
                f"{name} reads Avro, or JSON: it needs siltstone.table.value=avro, or siltstone.table.value=json and"
                " siltstone.table.columns, such as infer"
            )
        return ""

    @property
    def _sequence_conflict(self) -> str:
        """Says why the field cannot order changes; empty if it can, as far as the columns are known."""
        if not self.is_upsert:
            return "it orders the changes of a key, so it needs siltstone.table.mode=upsert"
        if self.is_compacted and not self.holds_retention:
            return (
                "key compaction keeps the record with the highest offset, which may be a late one: set"
                " siltstone.table.retention=true, so that it waits for the table"
            )
        if taken := [each.name for each in self.columns if each.name.lower() == SEQUENCE_COLUMN]:
            return f"the name of the column {taken[0]} is that of the sequence in the table"
        if self.has_history:
            return "versions (siltstone.table.history) come in the order of the offsets"
        return "" if self.sequence == SEQUENCE_OF_RECORDS else self._sequence_field_conflict

    @property
    def _sequence_field_conflict(self) -> str:
        place, _, field = self.sequence.rpartition(".")
        if place or not field:
            is_of_event = self.change and place == "source" and field
            return "" if is_of_event else f"a path is {SEQUENCE_OF_RECORDS}, or of change events source.NAME"
        if not self.has_fields:
            return f"values have no fields here: name {SEQUENCE_OF_RECORDS}, or list siltstone.table.columns"
        if self.infers or self.has_schemas or self.change:
            return ""
        kind = next((each.kind for each in self.columns if each.name == field), None)
        if kind is None:
            return f"there is no column {field} in siltstone.table.columns"
        return "" if kind in _OF_SEQUENCE else f"its type is {kind}, and it is {' or '.join(_OF_SEQUENCE)}"

    @property
    def _key_conflict(self) -> str:
        if self.key_columns and self.key not in WITH_FIELDS:
            return f"siltstone.table.key.columns names fields of keys, but siltstone.table.key is {self.key}"
        if self.has_key_schemas and not self.key_columns:
            return f"siltstone.table.key={self.key} needs siltstone.table.key.columns, the fields of keys and types"
        first = next(iter(self.key_columns), None)
        if self.is_upsert and first is not None and first.kind not in _OF_BUCKET:
            fit = " or ".join(sorted(_OF_BUCKET - {"binary"}))
            return (
                "siltstone.table.key.columns: an upsert table is divided by the first field of its keys, and"
                f" {first.name} is of type {first.kind}: put one of type {fit} first"
            )
        return ""

    def _misdivided(self, by: PartitionTransform) -> str:
        """Says why the table cannot be divided so; empty when it can. Fields of a schema are checked by the round,
        which knows them."""
        where = "siltstone.table.partition.by:"
        kind = self.kind_of(by.column)
        if kind is None:
            return (
                "" if self.has_schemas else f"{where} there is no column {by.column} to divide the table by"
            )
        if (
            by.transform != IDENTITY
            and not self.has_schemas
            and any(by.name == each.name for each in self.columns)
        ):
            return f"{where} {by.text} would have the name of the column {by.name}"
        allowed = _ALLOWED.get(by.kind, _OF_TIME)
        if kind not in allowed:
            return (
                f"{where} {by.text} needs a column of type {' or '.join(sorted(allowed))}, and"
                f" {by.column} is of type {kind}"
            )
        return ""


# -- rules, and values of texts --------------------------------------------------------------------------------


def table_name(name: str, value: Value) -> None:
    """Checks the rule that the name is empty, or ``namespace.table``."""
    if value and not _TABLE_NAME.fullmatch(str(value)):
        raise refused(name, value, "write namespace.table, of letters, digits and _")


def table_schema_source(name: str, value: Value) -> None:
    """Checks the rule for the source of the values' schemas."""
    if not _SCHEMA.fullmatch(str(value)):
        raise refused(name, value, f"write {REGISTRY}, {LATEST} or {FILE}NAME")


def table_columns(name: str, value: Value) -> None:
    """Checks the rule that each item of a list is a name and a type, or ``infer``."""
    assert isinstance(value, tuple)
    listed = _listed(value)
    found = _parsed_columns(name, listed)
    if len(listed) < len(value) and (taken := [each for each in found if each.name.lower() == RESCUED]):
        raise refused(name, value, f"{taken[0].name} is the column of what no other column could take")


def _listed(items: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each for each in items if each != INFER)


def table_key_columns(name: str, value: Value) -> None:
    """Checks the rule that each item of a list is a name and a plain type: rows are found again by these fields."""
    _parsed_columns(name, value, are_plain=True)


def table_partitions(name: str, value: Value) -> None:
    """Checks the rule that each item of a list is a transform of a column."""
    _parsed_partitions(name, value)


def key_columns_of(items: tuple[str, ...]) -> tuple[TableColumn, ...]:
    """Returns the fields of keys, of a value that has passed ``table_key_columns``."""
    return _parsed_columns("siltstone.table.key.columns", items, are_plain=True)


def columns_of(items: tuple[str, ...]) -> tuple[TableColumn, ...]:
    """Returns the columns of a value that has passed ``table_columns``."""
    return _parsed_columns("siltstone.table.columns", _listed(items))


def infers_columns(items: tuple[str, ...]) -> bool:
    """Returns whether a value that has passed ``table_columns`` wants columns to be found from the records."""
    return INFER in items


def partitions_of(items: tuple[str, ...]) -> tuple[PartitionTransform, ...]:
    """Returns the transforms of a value that has passed ``table_partitions``."""
    return _parsed_partitions("siltstone.table.partition.by", items)


def _parsed_columns(name: str, value: Value, *, are_plain: bool = False) -> tuple[TableColumn, ...]:
    assert isinstance(value, tuple)
    columns: dict[str, TableColumn] = {}
    fields = 0
    for item in value:
        column, *written = item.split(None, 1) or [""]
        if VARIANT in (item, *(word.strip() for word in written)):
            raise refused(name, item, _NO_VARIANT)
        of = (
            _parsed_type(name, item, "".join(written), are_plain=are_plain)
            if NAME.fullmatch(column)
            else None
        )
        if of is None:
            raise refused(name, item, _how_written(are_plain=are_plain))
        if column.lower() in columns or column.lower() == KAFKA:
            raise refused(name, item, "a column of that name is there already, and kafka is taken")
        columns[column.lower()] = TableColumn(column, canonical(of))
        fields += sum(1 for _ in of.fields())
    if len(columns) + fields > COLUMNS_MAX:
        what = "columns and fields" if fields else "columns"
        raise InvalidTopicConfig(
            f"{name} has {len(columns) + fields} {what}; at most {COLUMNS_MAX} are allowed"
        )
    return tuple(columns.values())


def _parsed_type(name: str, item: str, text: str, *, are_plain: bool) -> ColumnType | None:
    """Returns the type that a text says; None if it is none. A text that begins a nested type is refused with what is
    wrong in it."""
    if are_plain or "<" not in text:
        word = text.strip()
        return ColumnType(word) if word in PLAIN else None
    try:
        return parsed_type(text)
    except TypeMalformed as why:
        raise refused(name, item, str(why)) from None


def _how_written(*, are_plain: bool) -> str:
    return f"write NAME TYPE; the types are {', '.join(PLAIN) if are_plain else types_in_words()}"


def _parsed_partitions(name: str, value: Value) -> tuple[PartitionTransform, ...]:
    assert isinstance(value, tuple)
    found: list[PartitionTransform] = []
    for item in value:
        match = _TRANSFORM.fullmatch(item)
        if match is None or match[1] not in TRANSFORMS or (match[1] in WITH_WIDTH) != bool(match[3]):
            known = ", ".join((IDENTITY, *TIME_TRANSFORMS))
            raise refused(
                name,
                item,
                f"write TRANSFORM(COLUMN), bucket(COLUMN,N) or truncate(COLUMN,N); transforms are {known}",
            )
        if match[3] and not 1 <= int(match[3]) <= WIDTH_MAX:
            raise refused(name, item, f"the number of {match[1]} is between 1 and {WIDTH_MAX}")
        width = f"[{int(match[3])}]" if match[3] else ""
        found.append(PartitionTransform(f"{match[1]}{width}", match[2]))
    if len({each.name for each in found}) < len(found):
        raise refused(name, value, "each partition value may be named once")
    return tuple(found)
