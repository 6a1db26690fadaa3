"""Finds the schemas of a topic's values for the driver of a round, and the columns of the table that follow from them.

A round begins with the newest schema of the topic's subject and with those of earlier rounds. A task that meets another
one reports it; the driver fetches the schema, the table gets its columns, and the task runs again. So no file is
written for a schema whose columns the table does not have yet.

A schema that the registry does not have, that cannot be parsed, or that conflicts with a column of the table, is
*refused*: every value that names it is a dead letter with that reason. If the registry does not answer, the round
fails, because the values may be right.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from siltstone.model.limits import MIB
from siltstone.tables.decoding.avro_changes import row_type
from siltstone.tables.failures import RegistryNotNamed, TooManySchemas
from siltstone.tables.fitting import columns_of_type, joined_columns
from siltstone.tables.layout import own_columns
from siltstone.tables.task_input import ValueSchemas
from siltstone.tables.versions import VERSION_COLUMNS
from siltstone.topic_configs.table_export import FILE, KAFKA, SEQUENCE_COLUMN, TableConfig
from siltstone.value_formats.column_arrays import plain_type
from siltstone.value_formats.decoding import reason_of
from siltstone.value_formats.failures import FormatRefused, SchemaMalformed, SchemaUnknown
from siltstone.value_formats.schemas.folder import read_schema_file
from siltstone.value_formats.schemas.opening import shared_registry
from siltstone.value_formats.schemas.port import Registry
from siltstone.value_formats.settling import settle_format
from siltstone.value_formats.value_format import FormatKind, Schema
from siltstone.value_formats.wire import NOT_FRAMED, SchemaName, in_order

SCHEMAS_MAX = 1_000
"""The most schemas of one round, refused ones included. A topic has a handful; but values that begin with the byte 0
and are not in the wire format seem to name any number of schemas."""

SCHEMAS_BYTES_MAX = 8 * MIB
"""The most bytes of all schemas of a round together, since each task gets them in its input."""


_TAKEN_BY = {
    **dict.fromkeys(VERSION_COLUMNS, "a column of versions"),
    SEQUENCE_COLUMN: "the column of sequences",
}


class RoundSchemas:
    """The schemas that a round knows, and the columns of a table for all of them."""

    def __init__(
        self,
        topic: str,
        config: TableConfig,
        place: str,
        *,
        may_widen: bool,
        of: str = "value",
        needed: Collection[str] | None = None,
        bytes_max: int = SCHEMAS_BYTES_MAX,
    ) -> None:
        """``place`` is the URL of the registry. ``of``: the subject of the topic, ``value`` or ``key``. Of keys
        only the fields that are ``needed`` count, and a schema without one of them is refused. ``bytes_max``: of all
        schemas together. Raises RegistryNotNamed, FormatRefused."""
        if not place:
            raise RegistryNotNamed(topic, config.value)
        self._topic = topic
        self._config = config
        self._place = place
        self._kind = FormatKind(config.value)
        self._may_widen = may_widen
        self._subject = f"{topic}-{of}"
        self._needed = needed
        self._registry: Registry = shared_registry(place)
        self._bytes_max = bytes_max
        self._found: dict[SchemaName, Schema] = {}
        self._columns: dict[SchemaName, dict[str, Any]] = {}
        self._refused: dict[SchemaName, str] = {}
        self._conflicts: dict[SchemaName, str] = {}

    @property
    def names(self) -> tuple[SchemaName, ...]:
        """The schemas that values may name and that the registry has."""
        return tuple(in_order(self._found.keys() - {NOT_FRAMED}))

    def begin(self, known: Iterable[SchemaName]) -> None:
        """Finds the schemas with which a round begins; ``known`` are those of earlier rounds. Raises
        RegistryNotReachable; and SchemaUnknown or SchemaMalformed if the values name no schemas and theirs is not
        there."""
        if not self._config.is_framed:
            schema = (
                self._named()
                if self._config.schema.startswith(FILE)
                else self._registry.latest(self._subject)[1]
            )
            self._add(NOT_FRAMED, schema)
            if reason := self._refused.get(NOT_FRAMED):
                raise SchemaMalformed(f"the schema of topic {self._topic} cannot be used: {reason}")
            return
        with suppress(SchemaUnknown):  # producers may name their subjects otherwise; values name ids
            self._add(*self._registry.latest(self._subject))
        self.fetch(known)

    def fetch(self, names: Iterable[SchemaName]) -> None:
        """Asks the registry for schemas. Raises RegistryNotReachable, TooManySchemas."""
        new = in_order(set(names) - self._found.keys() - self._refused.keys())
        if len(new) + len(self._found) + len(self._refused) > SCHEMAS_MAX:
            raise TooManySchemas(self._topic, SCHEMAS_MAX, self._bytes_max)
        for name in new:
            try:
                self._add(name, self._registry.schema(name))
            except (SchemaUnknown, SchemaMalformed) as cause:
                self._refused[name] = reason_of(cause)
        if sum(each.size_bytes for each in self._found.values()) > self._bytes_max:
            raise TooManySchemas(self._topic, SCHEMAS_MAX, self._bytes_max)

    def columns(self, table: Any | None) -> dict[str, Any]:
        """Returns the columns of the table and the columns that the schemas add; ``table`` is the table's
        pyarrow.Schema, or None. Schemas that conflict with it are refused from now on. The newest schema of the subject
        is added first."""
        of_config = own_columns(self._config)
        own = (KAFKA, *of_config)
        columns = {each.name: plain_type(each.type) for each in table or () if each.name not in own}
        self._conflicts = {}
        for name, found in self._columns.items():
            if taken := [each for each in found if each.lower() in of_config]:
                self._conflicts[name] = (
                    f"the name of its field {taken[0]} is taken by {_TAKEN_BY[taken[0].lower()]}"
                )
                continue
            joined = joined_columns(columns, found, may_widen=self._may_widen)
            if isinstance(joined, str):
                self._conflicts[name] = joined
            else:
                columns = joined
        return columns

    def given(self) -> ValueSchemas:
        """Returns the schemas for the tasks' inputs, with the conflicts that ``columns`` has found last."""
        refused = {**self._refused, **self._conflicts}
        by_name = {name: schema for name, schema in self._found.items() if name not in refused}
        return ValueSchemas(by_name, refused)

    def _named(self) -> Schema:
        """Returns the name of the file in the folder of schemas that the configurations name."""
        parts = urlsplit(self._place)
        if parts.scheme in ("http", "https"):
            raise FormatRefused(
                f"siltstone.table.value.schema of topic {self._topic} names a file, and tables.registry is"
                f" {self._place}: name a folder, file:///FOLDER"
            )
        folder = Path(unquote(parts.path) if parts.scheme == "file" else self._place)
        return read_schema_file(folder / self._config.schema.removeprefix(FILE))

    def _add(self, name: SchemaName, schema: Schema) -> None:
        try:
            settled = settle_format(self._kind, schema=schema, message=self._config.message)
        except (SchemaMalformed, FormatRefused) as cause:
            self._refused[name] = reason_of(cause)
            return
        has_times = self._config.table_format != "delta"
        is_exact = self._may_widen or self._needed is not None
        kind = settled.arrow_type
        if self._config.change and self._needed is None:
            kind = row_type(kind)
        columns = columns_of_type(kind, may_widen=is_exact, has_times=has_times)
        if self._needed is not None:
            if missing := [each for each in self._needed if each not in columns]:
                self._refused[name] = f"its schema has no field {missing[0]}"
                return
            columns = {each: columns[each] for each in self._needed}
        self._columns[name] = columns
        self._found[name] = schema
