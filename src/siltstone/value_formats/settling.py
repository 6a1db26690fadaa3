"""When a scan or a table is planned, a user's options become a ``ValueFormat``, which every task receives.

The reader schema is, in this order: the one that the caller gives; the newest of the subject in the registry; for JSON,
the one inferred from a sample of the values.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from siltstone.record_columns.arrow import require_arrow
from siltstone.value_formats.decoders import avro, json, protobuf
from siltstone.value_formats.failures import FormatRefused
from siltstone.value_formats.schemas.folder import read_schema_file
from siltstone.value_formats.schemas.port import Registry
from siltstone.value_formats.value_format import (
    BadValues,
    FormatKind,
    Schema,
    ValueFormat,
    decode_type,
    encode_type,
)

SAMPLE_VALUES = 1_000
"""JSON values that inference looks at; a field that first occurs later is not a column."""


def settle_format(
    kind: FormatKind,
    subject: str = "",
    *,
    schema: Any = None,
    registry: Registry | None = None,
    message: str = "",
    sample: Callable[[], Iterable[bytes | None]] | None = None,
    on_bad: BadValues = BadValues.FAIL,
) -> ValueFormat:
    """``schema`` is a Schema, the text of one, the path of a file (.avsc, .json, .desc), a pyarrow.DataType or
    pyarrow.Schema (JSON only), or such a type in bytes (``encode_type``). ``sample`` is called if the fields are not
    known otherwise. Raises FormatRefused, SchemaUnknown, SchemaMalformed, RegistryNotReachable, FormatExtraMissing."""
    reader, arrow_type = given_schema(kind, schema)
    if reader is None and arrow_type is None and kind is not FormatKind.STRING and registry is not None:
        _, reader = registry.latest(subject)
    if reader is not None and reader.kind is not kind:
        raise FormatRefused(
            f"the schema is of the kind {reader.kind.value}, and the values are to be {kind.value}"
        )
    if arrow_type is None:
        arrow_type = _type_of(kind, reader, message, sample)
    # JSON needs no writer's schema: a task that does not ask the registry cannot fail for it.
    asks = registry is not None and kind in (FormatKind.AVRO, FormatKind.PROTOBUF)
    return ValueFormat(
        kind, encode_type(arrow_type), reader, registry.url if asks and registry else "", message, on_bad
    )


def _type_of(
    kind: FormatKind,
    reader: Schema | None,
    message: str,
    sample: Callable[[], Iterable[bytes | None]] | None,
) -> Any:
    if kind is FormatKind.STRING:
        return require_arrow().string()
    if reader is not None:
        match kind:
            case FormatKind.AVRO:
                return avro.avro_type(reader)
            case FormatKind.PROTOBUF:
                return protobuf.protobuf_type(reader, message)
            case _:
                return json.json_schema_type(reader.text)
    if kind is not FormatKind.JSON or sample is None:
        raise FormatRefused(f"{kind.value} needs a schema: give one, or a schema registry")
    return json.inferred_type(sample())


def given_schema(kind: FormatKind, schema: Any) -> tuple[Schema | None, Any]:
    """Returns the schema that a caller gives, or the Arrow type; both None if it gives neither. Raises
    FormatRefused."""
    arrow = require_arrow()
    if schema is None or isinstance(schema, Schema):
        return schema, None
    if isinstance(schema, bytes):
        schema = decode_type(schema)
    if isinstance(schema, arrow.Schema):
        schema = arrow.struct(list(schema))
    if isinstance(schema, arrow.DataType):
        if kind is not FormatKind.JSON:
            raise FormatRefused(f"values of {kind.value} need a schema of their kind, not a type")
        return None, schema
    if isinstance(schema, Path) or not str(schema).lstrip().startswith(("{", "[", '"')):
        return read_schema_file(Path(schema)), None
    return Schema(kind, str(schema)), None
