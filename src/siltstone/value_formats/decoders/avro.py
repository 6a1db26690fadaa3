"""Avro. Values are read with the schema that they were written with, and resolved to the reader schema by Avro's rules:
a field that the writer did not have gets its default, a number is widened, a field that the reader lacks is passed
over.

With a registry every value names its writer's schema, in its prefix or in a header. Without one, all values are plain
data of the reader schema.

Types: a union of null and one type is that type; another union, and a record that refers to itself, is JSON in text;
enums, UUIDs and decimals of more digits than Arrow's decimal128 has are text; a fixed, a duration and a big-decimal
are binary. Times are in microseconds; those in nanoseconds stay numbers. ``avro_logical`` has the logical types.
"""

from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from operator import itemgetter
from typing import Any

import msgspec

from siltstone.record_columns.arrow import require_arrow
from siltstone.value_formats.columns import Getter, Path, decoded_column, is_json_text, text_field
from siltstone.value_formats.decoders import avro_logical
from siltstone.value_formats.decoders.avro_logical import adopted, logical_type, with_our_names
from siltstone.value_formats.decoders.writers import WriterSchemas
from siltstone.value_formats.decoding import DecodedValues, reason_of
from siltstone.value_formats.failures import FormatExtraMissing, FormatRefused, SchemaMalformed
from siltstone.value_formats.schemas.port import Registry
from siltstone.value_formats.value_format import FormatKind, Schema, ValueFormat
from siltstone.value_formats.wire import payload_at

try:
    import fastavro
    from fastavro.logical_readers import LOGICAL_READERS
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema
except ModuleNotFoundError as missing:
    if missing.name != "fastavro":
        raise
    fastavro = None
else:
    avro_logical.register(LOGICAL_READERS)

_PRIMITIVES = {
    "null": "null", "boolean": "bool_", "int": "int32", "long": "int64", "float": "float32", "double": "float64",
    "bytes": "binary", "string": "string",
}  # fmt: skip


class AvroDecoder:
    """Decodes Avro values, one by one."""

    def __init__(self, value_format: ValueFormat, registry: Registry | None) -> None:
        """Raises FormatExtraMissing, FormatRefused, SchemaMalformed."""
        if value_format.reader is None:
            raise FormatRefused("Avro needs a schema: give one, or a schema registry")
        self.arrow_type = value_format.arrow_type
        self._reader, _ = _parsed(value_format.reader)
        self._writers = WriterSchemas(registry, FormatKind.AVRO, self._prepared)

    def decode(self, values: Any) -> DecodedValues:
        rows, bad, names = self._writers.rows(values, self._read)
        if _has_texts(self.arrow_type):
            rows = list(map(_texts, rows))
        return decoded_column(rows, self.arrow_type, _getter_of, bad, names.__getitem__)

    def _read(self, value: bytes, writer: Any) -> tuple[Any, str | None]:
        payload = memoryview(value)
        if writer is None:
            writer = self._reader
        else:
            payload = payload[payload_at(value) :]
        data = BytesIO(payload)
        try:
            row = fastavro.schemaless_reader(data, writer, None if writer is self._reader else self._reader)
        except Exception as cause:  # damaged data make fastavro raise errors of many kinds
            return None, f"{type(cause).__name__}: {reason_of(cause)}"
        left = len(payload) - data.tell()
        return (None, f"{left} bytes are left after the last field") if left else (row, None)

    def _prepared(self, schema: Schema) -> Any:
        """Returns the writer's schema; the reader schema itself if they are equal, because fastavro then resolves
        nothing and is twice as fast."""
        writer, _ = _parsed(schema, lambda given: adopted(with_our_names(given), self._reader))
        return self._reader if writer == self._reader else writer


def _getter_of(_: Path, field: Any) -> Getter:
    read: Getter = itemgetter(field.name)
    if is_json_text(field):
        return lambda row: as_json(read(row))
    return (lambda row: _texts(read(row))) if _has_texts(field.type) else read


def _has_texts(arrow_type: Any) -> bool:
    """Returns whether the values are text, or lists or maps of it: long decimals are decoded to objects."""
    types = require_arrow().types
    if types.is_list(arrow_type):
        return _has_texts(arrow_type.value_type)
    return bool(types.is_string(arrow_type)) or (
        types.is_map(arrow_type) and _has_texts(arrow_type.item_type)
    )


def _texts(value: Any) -> Any:
    if isinstance(value, list):
        return [_texts(each) for each in value]
    if isinstance(value, dict):
        return {name: _texts(each) for name, each in value.items()}
    return f"{value:f}" if isinstance(value, Decimal) else value


def as_json(value: Any) -> str | None:
    """Returns a decoded value as JSON in text; bytes are in base64."""
    return None if value is None else msgspec.json.encode(value, enc_hook=str).decode()


# -- schemas ---------------------------------------------------------------------------------------------------


def parsed(schema: Schema) -> Any:
    """Returns the schema as fastavro writes with it. Raises FormatExtraMissing, SchemaMalformed."""
    return _parsed(schema, lambda given: given)[0]


def _parsed(schema: Schema, named_by: Callable[[Any], Any] = with_our_names) -> tuple[Any, dict[str, Any]]:
    """Returns the schema as fastavro reads with it, and the types that it names."""
    if fastavro is None:
        raise FormatExtraMissing("fastavro", "avro")
    named: dict[str, Any] = {}
    try:
        for text in schema.imports:
            parse_schema(named_by(_json(text)), named_schemas=named)
        return parse_schema(named_by(_json(schema.text)), named_schemas=named), named
    except (SchemaParseException, UnknownType, KeyError, TypeError, ValueError) as cause:
        raise SchemaMalformed(f"the Avro schema cannot be understood: {reason_of(cause)}") from cause


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        if text.strip() in _PRIMITIVES:
            return text.strip()
        raise


def avro_type(schema: Schema) -> Any:
    """Returns the pyarrow.DataType of the values of an Avro schema. Raises FormatExtraMissing, SchemaMalformed."""
    root, named = _parsed(schema)
    found = _type_of(root, named, ())
    if found is None:
        raise SchemaMalformed("the Avro schema is a union of several types: only a record makes columns")
    return found


def _type_of(schema: Any, named: dict[str, Any], above: tuple[str, ...]) -> Any:
    """Returns the Arrow type of a schema; None for JSON in text. ``above`` are the names of the records around it."""
    arrow = require_arrow()
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        return _type_of(others[0], named, above) if len(others) == 1 else None
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return getattr(arrow, _PRIMITIVES[schema])()
        schema = named[schema]
    if logical := logical_type(schema):
        return logical
    make = _COMPLEX.get(schema["type"])
    return _type_of(schema["type"], named, above) if make is None else make(schema, named, above)


def _record(schema: dict[str, Any], named: dict[str, Any], above: tuple[str, ...]) -> Any:
    if schema["name"] in above:
        return None
    arrow = require_arrow()
    inside = (*above, schema["name"])
    parts = [(field["name"], _type_of(field["type"], named, inside)) for field in schema["fields"]]
    return arrow.struct([text_field(n) if t is None else arrow.field(n, t) for n, t in parts])


def _array(schema: dict[str, Any], named: dict[str, Any], above: tuple[str, ...]) -> Any:
    items = _type_of(schema["items"], named, above)
    return None if items is None else require_arrow().list_(items)


def _map(schema: dict[str, Any], named: dict[str, Any], above: tuple[str, ...]) -> Any:
    items = _type_of(schema["values"], named, above)
    return None if items is None else require_arrow().map_(require_arrow().string(), items)


_COMPLEX: dict[str, Callable[[dict[str, Any], dict[str, Any], tuple[str, ...]], Any]] = {
    "record": _record,
    "error": _record,
    "array": _array,
    "map": _map,
    "enum": lambda *_: require_arrow().string(),
    "fixed": lambda *_: require_arrow().binary(),
}
