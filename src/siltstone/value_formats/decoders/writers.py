"""Avro and Protobuf have this in common: with a registry each value names the schema that it was written with, by the
id in its prefix. ``WriterSchemas`` finds these schemas and reads the values of a column one by one."""

from collections.abc import Callable
from typing import Any

from siltstone.value_formats.decoding import BadValue, reason_of
from siltstone.value_formats.failures import SchemaMalformed, SchemasNeeded, SchemaUnknown
from siltstone.value_formats.schemas.port import Registry
from siltstone.value_formats.value_format import FormatKind, Schema
from siltstone.value_formats.wire import NOT_FRAMED, schema_ids

ReadValue = Callable[[bytes, Any], tuple[Any, str | None]]
"""(a value, what ``prepare`` made of its writer's schema) → the row and None, or None and the reason. Without a
registry the second argument is None, and the value has no prefix."""


class WriterSchemas:
    """The writers' schemas that a decoder has met, each as ``prepare`` made it. ``prepare`` may raise SchemaMalformed;
    then no value that names the schema can be read."""

    def __init__(self, registry: Registry | None, kind: FormatKind, prepare: Callable[[Schema], Any]) -> None:
        self._registry = registry
        self._kind = kind
        self._prepare = prepare
        self._prepared: dict[int, Any] = {}

    def rows(self, values: Any, read: ReadValue) -> tuple[list[Any], list[BadValue], list[int]]:
        """Returns the row of each value of a pyarrow.BinaryArray, None for a null and for a bad value; the bad values;
        and the schema id of each value. Raises SchemasNeeded, RegistryNotReachable."""
        is_framed = self._registry is not None
        ids: list[int] = schema_ids(values).tolist() if is_framed else [NOT_FRAMED] * len(values)
        reasons = self._find(set(ids) - {NOT_FRAMED})
        rows: list[Any] = []
        bad: list[BadValue] = []
        for schema_id, value in zip(ids, values.to_pylist(), strict=True):
            row, reason = None, None
            if value is None:
                pass
            elif not is_framed:
                row, reason = read(value, None)
            elif schema_id == NOT_FRAMED:
                reason = "it does not begin with a schema id (the byte 0 and four more)"
            elif schema_id in reasons:
                reason = reasons[schema_id]
            else:
                row, reason = read(value, self._prepared[schema_id])
            if reason is not None:
                bad.append(BadValue(len(rows), reason, schema_id))
            rows.append(row)
        return rows, bad, ids

    def _find(self, ids: set[int]) -> dict[int, str]:
        """Finds the schemas of the ids. Returns the ids with which no value can be read, each with the reason. Raises
        one SchemasNeeded for all that are missing, and RegistryNotReachable."""
        reasons: dict[int, str] = {}
        needed: list[int] = []
        for schema_id in sorted(ids - self._prepared.keys()):
            assert self._registry is not None
            try:
                schema = self._registry.schema(schema_id)
                if schema.kind is not self._kind:
                    text = f"schema {schema_id} is of the kind {schema.kind.value}, not {self._kind.value}"
                    raise SchemaUnknown(text)
                self._prepared[schema_id] = self._prepare(schema)
            except SchemasNeeded as missing:
                needed.extend(missing.ids)
            except (SchemaUnknown, SchemaMalformed) as cause:
                reasons[schema_id] = reason_of(cause)
        if needed:
            raise SchemasNeeded(needed)
        return reasons
