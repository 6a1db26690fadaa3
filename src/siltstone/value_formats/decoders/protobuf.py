"""Protobuf. Values are read with the reader schema. That is right for every version of the message, as long as the
message was changed by Protobuf's rules.

A schema is a file descriptor, not the text of a ``.proto`` file: a registry gives it, and so does ``protoc``. With a
registry every value begins with the id of its writer's schema and the path to the message in it, and the message found
there has to be the one that is read.

Types: enums are the names of their values; unsigned 64-bit integers are decimal(20, 0); Timestamp is a timestamp; the
wrappers of plain values are those values, or null; a message that contains itself is JSON in text. A field with
presence is null when it is not set; a field without presence then has its default [Protobuf's field presence].
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

from siltstone.record_columns.arrow import require_arrow
from siltstone.value_formats.columns import Getter, Path, decoded_column, text_field
from siltstone.value_formats.decoders.writers import WriterSchemas
from siltstone.value_formats.decoding import DecodedValues, reason_of
from siltstone.value_formats.descriptors import file_of, message_at, message_of
from siltstone.value_formats.failures import (
    FormatRefused,
    SchemaUnknown,
)
from siltstone.value_formats.schemas.port import Registry
from siltstone.value_formats.value_format import FormatKind, Schema, ValueFormat
from siltstone.value_formats.wire import PathMalformed, message_path

try:
    from google.protobuf import json_format, message_factory, wrappers_pb2
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import DecodeError
except ImportError as missing:  # ``descriptors`` raises FormatExtraMissing on first use
    if not (missing.name or "").startswith("google"):
        raise

_TIMESTAMP = "google.protobuf.Timestamp"


class ProtobufDecoder:
    """Decodes Protobuf values of one message."""

    def __init__(self, value_format: ValueFormat, registry: Registry | None) -> None:
        """Raises FormatExtraMissing, FormatRefused, SchemaMalformed."""
        if value_format.reader is None:
            raise FormatRefused("Protobuf needs a schema: give a descriptor, or a schema registry")
        self.arrow_type = value_format.arrow_type
        self._descriptor = message_of(value_format.reader, value_format.message)
        self._parse = message_factory.GetMessageClass(self._descriptor).FromString
        self._writers = WriterSchemas(registry, FormatKind.PROTOBUF, lambda schema: file_of(schema.text))

    def decode(self, values: Any) -> DecodedValues:
        rows, bad, names = self._writers.rows(values, self._read)
        return decoded_column(rows, self.arrow_type, self._getter_of, bad, names.__getitem__)

    def _read(self, value: bytes, file: Any) -> tuple[Any, str | None]:
        try:
            return self._parse(value if file is None else self._payload(value, file)), None
        except (DecodeError, PathMalformed, SchemaUnknown) as cause:
            return None, reason_of(cause)

    def _payload(self, value: bytes, file: Any) -> bytes:
        """Returns the value without its prefix. Raises PathMalformed, and SchemaUnknown if it is another message."""
        path, position = message_path(value)
        named = message_at(file, path)
        if named != self._descriptor.full_name:
            raise SchemaUnknown(
                f"it is a {named or 'message that its schema does not have'}, not a"
                f" {self._descriptor.full_name}"
            )
        return value[position:]

    def _getter_of(self, path: Path, _: Any) -> Getter:
        message = self._descriptor
        above: tuple[str, ...] = (message.full_name,)
        for number in path[:-1]:
            message = _message_in(message.fields[number])
            above += (message.full_name,)
        return _getter(message.fields[path[-1]], above)


# -- types and getters -----------------------------------------------------------------------------------------


def protobuf_type(schema: Schema, name: str = "") -> Any:
    """Returns the pyarrow.DataType of a message. Raises FormatExtraMissing, SchemaMalformed, FormatRefused."""
    return _struct_type(message_of(schema, name), ())


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _is_wrapper(message: Any) -> bool:
    return bool(message.file.name == wrappers_pb2.DESCRIPTOR.name)


def _struct_type(message: Any, above: tuple[str, ...]) -> Any:
    arrow = require_arrow()
    inside = (*above, message.full_name)
    parts = [(field.name, _field_type(field, inside)) for field in message.fields]
    return arrow.struct([text_field(n) if t is None else arrow.field(n, t) for n, t in parts])


def _field_type(field: Any, above: tuple[str, ...]) -> Any:
    """Returns the Arrow type of a field; None for JSON in text."""
    arrow = require_arrow()
    if _is_map(field):
        key, item = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        item_type = _single_type(item, above)
        return None if item_type is None else arrow.map_(_single_type(key, above), item_type)
    single = _single_type(field, above)
    return single if single is None or not field.is_repeated else arrow.list_(single)


def _single_type(field: Any, above: tuple[str, ...]) -> Any:
    arrow = require_arrow()
    message = field.message_type
    if message is None:
        return _plain_types()[field.type]
    if message.full_name == _TIMESTAMP:
        return arrow.timestamp("us", tz="UTC")
    if _is_wrapper(message):
        return _plain_types()[message.fields[0].type]
    return None if message.full_name in above else _struct_type(message, above)


def _plain_types() -> dict[int, Any]:
    arrow, kinds = require_arrow(), FieldDescriptor
    unsigned = arrow.decimal128(20, 0)
    return {
        kinds.TYPE_DOUBLE: arrow.float64(), kinds.TYPE_FLOAT: arrow.float32(), kinds.TYPE_BOOL: arrow.bool_(),
        kinds.TYPE_INT32: arrow.int32(), kinds.TYPE_SINT32: arrow.int32(), kinds.TYPE_SFIXED32: arrow.int32(),
        kinds.TYPE_INT64: arrow.int64(), kinds.TYPE_SINT64: arrow.int64(), kinds.TYPE_SFIXED64: arrow.int64(),
        kinds.TYPE_UINT32: arrow.int64(), kinds.TYPE_FIXED32: arrow.int64(), kinds.TYPE_UINT64: unsigned,
        kinds.TYPE_FIXED64: unsigned, kinds.TYPE_STRING: arrow.string(), kinds.TYPE_BYTES: arrow.binary(),
        kinds.TYPE_ENUM: arrow.string(),
    }  # fmt: skip


def _message_in(field: Any) -> Any:
    """Returns the message of a field, or of the values of a map."""
    return field.message_type.fields_by_name["value"].message_type if _is_map(field) else field.message_type


def _getter(field: Any, above: tuple[str, ...]) -> Getter:
    """Returns the function that reads a field of a message; ``above`` names the messages around the field, its own
    included."""
    read = attrgetter(field.name)
    name = field.name
    if _field_type(field, above) is None:
        return lambda row: _json_text(row, field)
    if _is_map(field):
        convert = _converter(field.message_type.fields_by_name["value"])
        return lambda row: {key: convert(each) for key, each in read(row).items()}
    convert = _converter(field)
    if field.is_repeated:
        return lambda row: [convert(each) for each in read(row)]
    if field.has_presence:
        return lambda row: convert(read(row)) if row.HasField(name) else None
    return lambda row: convert(read(row)) if convert is not _itself else read(row)


def _itself(value: Any) -> Any:
    return value


def _converter(field: Any) -> Callable[[Any], Any]:
    """Returns the function that converts a value of the field for Arrow."""
    message = field.message_type
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    if message is None:
        return _itself
    if message.full_name == _TIMESTAMP:
        return lambda stamp: stamp.seconds * 1_000_000 + stamp.nanos // 1_000
    return attrgetter("value") if _is_wrapper(message) else _itself


def _json_text(row: Any, field: Any) -> str | None:
    """Returns a field as JSON in text; null if nothing is set."""
    is_set = bool(getattr(row, field.name)) if field.is_repeated else row.HasField(field.name)
    if not is_set:
        return None
    alone = type(row)()
    alone.MergeFrom(row)
    for other, _ in row.ListFields():
        if other.name != field.name:
            alone.ClearField(other.name)
    found = json_format.MessageToDict(alone, preserving_proto_field_name=True)
    return msgspec.json.encode(found[field.name]).decode()
