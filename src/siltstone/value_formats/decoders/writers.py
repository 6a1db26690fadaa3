"""What Avro and Protobuf have in common: with a registry each value names the schema that it was written with, by the
id or the GUID in its prefix. ``WriterSchemas`` finds these schemas and reads the values of a column one by one."""

from collections.abc import Callable, Iterable
from typing import Any

from siltstone.value_formats.decoding import BadValue, reason_of
from siltstone.value_formats.failures import SchemaMalformed, SchemasNeeded, SchemaUnknown
from siltstone.value_formats.schemas.port import Registry
from siltstone.value_formats.value_format import FormatKind, Schema
from siltstone.value_formats.wire import NOT_FRAMED, SchemaName, in_order, schema_codes

NO_SCHEMA = "it names no schema, in a header or in its first bytes (0 and an id, or 1 and a GUID)"

ReadValue = Callable[[bytes, Any], tuple[Any, str | None]]
"""(a value, what ``prepare`` made of its writer's schema) → the row and None, or None and the reason. Without a
registry the second argument is None, and the value has no prefix."""


def _read(read: ReadValue, value: bytes, prepared: Any) -> tuple[Any, str | None]:
    try:
        return read(value, prepared)
    except MemoryError:
        raise
    except Exception as cause:  # damaged data make the libraries raise errors of many kinds
        return None, f"{type(cause).__name__}: {reason_of(cause)}"


class WriterSchemas:
    """The writers' schemas that a decoder has met, each as ``prepare`` made it. ``prepare`` may raise SchemaMalformed;
    then no value that names the schema can be read."""

    def __init__(self, registry: Registry | None, kind: FormatKind, prepare: Callable[[Schema], Any]) -> None:
        self._registry = registry
        self._kind = kind
        self._prepare = prepare
        self._prepared: dict[SchemaName, Any] = {}

    def rows(self, values: Any, read: ReadValue) -> tuple[list[Any], list[BadValue], list[SchemaName]]:
        """Returns the row of each value of a pyarrow.BinaryArray, None for a null and for a bad value; the bad values;
        and the name of each value's schema. Raises SchemasNeeded, RegistryNotReachable."""
        is_framed = self._registry is not None
        names: list[SchemaName] = [NOT_FRAMED] * len(values)
        reasons: dict[SchemaName, str] = {}
        if is_framed:
            codes, by_code = schema_codes(values)
            names = [by_code.get(code, NOT_FRAMED) for code in codes.tolist()]
            reasons = self._find(by_code.values())
        rows: list[Any] = []
        bad: list[BadValue] = []
        for name, value in zip(names, values.to_pylist(), strict=True):
            row, reason = None, None
            if value is None:
                pass
            elif not is_framed:
                row, reason = _read(read, value, None)
            elif name == NOT_FRAMED:
                reason = NO_SCHEMA
            elif name in reasons:
                reason = reasons[name]
            else:
                row, reason = _read(read, value, self._prepared[name])
            if reason is not None:
                bad.append(BadValue(len(rows), reason, name))
            rows.append(row)
        return rows, bad, names

    def _find(self, names: Iterable[SchemaName]) -> dict[SchemaName, str]:
        """Finds the schemas. Returns those with which no value can be read, each with the reason. Raises one
        SchemasNeeded for all that are missing, and RegistryNotReachable."""
        reasons: dict[SchemaName, str] = {}
        needed: list[SchemaName] = []
        for name in in_order(set(names) - self._prepared.keys()):
            assert self._registry is not None
            try:
                schema = self._registry.schema(name)
                if schema.kind is not self._kind:
                    text = f"schema {name} is of the kind {schema.kind.value}, not {self._kind.value}"
                    raise SchemaUnknown(text)
                self._prepared[name] = self._prepare(schema)
            except SchemasNeeded as missing:
                needed.extend(missing.names)
            except (SchemaUnknown, SchemaMalformed) as cause:
                reasons[name] = reason_of(cause)
        if needed:
            raise SchemasNeeded(needed)
        return reasons
