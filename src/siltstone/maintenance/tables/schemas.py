"""Finds the schemas of a topic's values for the driver of a round, and the columns of the table that follow from them.

A round begins with the newest schema of the topic's subject and with those of earlier rounds. A task that meets another
id reports it; the driver fetches the schema, the table gets its columns, and the task runs again. So no file is written
for a schema whose columns the table does not have yet.

A schema that the registry does not have, that cannot be parsed, or that conflicts with a column of the table, is
*refused*: every value that names it is a dead letter with that reason. If the registry does not answer, the round
fails, because the values may be right.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from siltstone.maintenance.tables.failures import RegistryNotNamed, TooManySchemas
from siltstone.maintenance.tables.fitting import columns_of_type, joined_columns, plain_type
from siltstone.maintenance.tables.task_input import ValueSchemas
from siltstone.model.limits import MIB
from siltstone.topic_configs.table_export import FILE, KAFKA, TableConfig
from siltstone.value_formats.decoding import reason_of
from siltstone.value_formats.failures import FormatRefused, SchemaMalformed, SchemaUnknown
from siltstone.value_formats.schemas.folder import read_schema_file
from siltstone.value_formats.schemas.opening import shared_registry
from siltstone.value_formats.schemas.port import Registry
from siltstone.value_formats.settling import settle_format
from siltstone.value_formats.value_format import FormatKind, Schema
from siltstone.value_formats.wire import NOT_FRAMED

SCHEMAS_MAX = 1_000
"""The most schemas of one round, refused ones included. A topic has a handful; but values that begin with the byte 0
and are not in the wire format seem to name any number of schemas."""

SCHEMAS_BYTES_MAX = 8 * MIB
"""The most bytes of all schemas of a round together, since each task gets them in its input."""


class RoundSchemas:
    """The schemas that a round knows, and the columns of a table for all of them."""

    def __init__(self, topic: str, config: TableConfig, place: str, *, may_widen: bool) -> None:
        """``place`` is the URL of the registry. Raises RegistryNotNamed, FormatRefused."""
        if not place:
            raise RegistryNotNamed(topic, config.value)
        self._topic = topic
        self._config = config
        self._place = place
        self._kind = FormatKind(config.value)
        self._may_widen = may_widen
        self._registry: Registry = shared_registry(place)
        self._found: dict[int, Schema] = {}
        self._columns: dict[int, dict[str, Any]] = {}
        self._refused: dict[int, str] = {}
        self._conflicts: dict[int, str] = {}

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of schemas that values may name and that the registry has."""
        return tuple(sorted(self._found.keys() - {NOT_FRAMED}))

    def begin(self, known: Iterable[int]) -> None:
        """Finds the schemas with which a round begins; ``known`` are the ids of earlier rounds. Raises
        RegistryNotReachable; and SchemaUnknown or SchemaMalformed if the values name no schemas and their schema cannot
        be had."""
        subject = f"{self._topic}-value"
        if not self._config.is_framed:
            schema = (
                self._named() if self._config.schema.startswith(FILE) else self._registry.latest(subject)[1]
            )
            self._add(NOT_FRAMED, schema)
            if reason := self._refused.get(NOT_FRAMED):
                raise SchemaMalformed(f"the schema of topic {self._topic} cannot be used: {reason}")
            return
        with suppress(SchemaUnknown):  # producers may use other subjects; values name ids
            self._add(*self._registry.latest(subject))
        self.fetch(known)

    def fetch(self, ids: Iterable[int]) -> None:
        """Asks the registry for schemas. Raises RegistryNotReachable, TooManySchemas."""
        new = sorted(set(ids) - self._found.keys() - self._refused.keys())
        if len(new) + len(self._found) + len(self._refused) > SCHEMAS_MAX:
            raise TooManySchemas(self._topic, SCHEMAS_MAX, SCHEMAS_BYTES_MAX)
        for schema_id in new:
            try:
                self._add(schema_id, self._registry.schema(schema_id))
            except (SchemaUnknown, SchemaMalformed) as cause:
                self._refused[schema_id] = reason_of(cause)
        if sum(each.size_bytes for each in self._found.values()) > SCHEMAS_BYTES_MAX:
            raise TooManySchemas(self._topic, SCHEMAS_MAX, SCHEMAS_BYTES_MAX)

    def columns(self, table: Any | None) -> dict[str, Any]:
        """Returns the columns of the table and those that the schemas add; ``table`` is the table's pyarrow.Schema, or
        None. Schemas that conflict with it are refused from now on. The newest schema of the subject is added first."""
        columns = {each.name: plain_type(each.type) for each in table or () if each.name != KAFKA}
        self._conflicts = {}
        for schema_id, found in self._columns.items():
            joined = joined_columns(columns, found, may_widen=self._may_widen)
            if isinstance(joined, str):
                self._conflicts[schema_id] = joined
            else:
                columns = joined
        return columns

    def given(self) -> ValueSchemas:
        """Returns the schemas for the tasks' inputs, with the conflicts that ``columns`` has found last."""
        refused = {**self._refused, **self._conflicts}
        by_id = {schema_id: schema for schema_id, schema in self._found.items() if schema_id not in refused}
        return ValueSchemas(by_id, refused)

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

    def _add(self, schema_id: int, schema: Schema) -> None:
        try:
            settled = settle_format(self._kind, schema=schema, message=self._config.message)
        except (SchemaMalformed, FormatRefused) as cause:
            self._refused[schema_id] = reason_of(cause)
            return
        has_times = self._config.table_format != "delta"
        self._columns[schema_id] = columns_of_type(
            settled.arrow_type, may_widen=self._may_widen, has_times=has_times
        )
        self._found[schema_id] = schema
