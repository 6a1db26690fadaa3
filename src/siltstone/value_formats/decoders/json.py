"""JSON and text. msgspec parses and checks each value against the type, one by one: what it accepts is exactly one JSON
value, so a value with a line break, or two values in one, cannot move its neighbours.

A value that was written by a serializer with a registry begins with the byte 0 or 1, which no JSON text does, so the
decoder recognises the prefix by itself and skips it.

Scans and tables have the same rules. A number that its column cannot hold, a time without a zone where the column has
one, and a value that is not UTF-8 as a whole are bad: msgspec passes over what is not wanted without a look at its
text.

The type comes from a JSON Schema, from the caller, or from a sample of the values (``inferred_type``). A field whose
type differs from value to value is JSON in text.
"""

from collections.abc import Callable, Iterable
from datetime import date, datetime, time
from decimal import Decimal
from operator import attrgetter
from typing import Annotated, Any

import msgspec

from siltstone.record_columns.arrow import require_arrow
from siltstone.record_columns.row_columns import VALUE
from siltstone.value_formats.columns import Getter, Path, decoded_column, is_json_text, text_field
from siltstone.value_formats.decoding import BadValue, DecodedValues, reason_of
from siltstone.value_formats.failures import FormatRefused, SchemaMalformed
from siltstone.value_formats.value_format import ValueFormat
from siltstone.value_formats.wire import NOT_FRAMED, SchemaName, payload_at, payloads, schema_codes

FIELDS_MAX = 2_000
"""The most fields of one inferred struct. If there are more, their names are taken to be data, and the column is JSON
in text."""

ROWS_AT_ONCE = 2_000
"""So many rows are decoded before their columns are made: more do not stay in a processor's cache, and take longer."""

_INT64_MAX = 2**63 - 1

Fitting = Callable[[int, bytes], bytes]
"""(row, value that does not fit the type) → the part of it that does. Raises what makes the value bad."""


class JsonDecoder:
    """Decodes JSON values. Fields that the type does not have are passed over, fields that a value lacks are null."""

    def __init__(self, value_format: ValueFormat, *, refuses_unknown: bool = False) -> None:
        """``refuses_unknown``: a value is bad that has a field which the type does not have."""
        self.arrow_type = value_format.arrow_type
        arrow = require_arrow()
        whole = arrow.field(VALUE, self.arrow_type)
        if arrow.types.is_string(self.arrow_type):
            whole = text_field(VALUE)
        self.row_type = _value_type(whole, refuses_unknown)
        """The type as which msgspec decodes a value."""
        self._decoder = msgspec.json.Decoder(self.row_type)
        self._texts = _text_reader(whole)

    def decode(self, values: Any, fitting: Fitting | None = None) -> DecodedValues:
        """``fitting`` makes another value of one that does not fit the type."""
        columns: list[Any] = []
        bad: list[BadValue] = []
        for first in range(0, max(len(values), 1), ROWS_AT_ONCE):
            part = self._decoded(values.slice(first, ROWS_AT_ONCE), first, fitting)
            columns.append(part.column)
            bad.extend(msgspec.structs.replace(each, row=first + each.row) for each in part.bad)
        column = columns[0] if len(columns) == 1 else require_arrow().concat_arrays(columns)
        return DecodedValues(column, tuple(bad))

    def column_of(self, rows: list[Any]) -> DecodedValues:
        """Returns the column of rows that were decoded as ``row_type``, in another value around them."""
        return decoded_column(rows, self.arrow_type, _getter_of, [])

    def _decoded(self, values: Any, first: int, fitting: Fitting | None) -> DecodedValues:
        """Decodes a slice of values that begins at the row ``first``; rows of bad values are counted from there."""
        written = payloads(values)
        given = written.to_pylist()
        read = self._reader(is_text=is_text(written), has_nulls=written.null_count > 0)
        rows: list[Any] = []
        bad: list[BadValue] = []
        rest = iter(given)
        while len(rows) < len(given):
            try:
                for row in map(read, rest):
                    rows.append(row)  # noqa: PERF402  what was read before a bad value has to be kept
            except MemoryError:
                raise
            except Exception as cause:  # of msgspec, and of the types that it makes: no type holds the value
                number = len(rows)
                try:
                    if fitting is None or not isinstance(cause, msgspec.MsgspecError):
                        raise
                    rows.append(read(fitting(first + number, given[number])))
                except MemoryError:
                    raise
                except Exception as reason:
                    bad.append(_bad(values, number, reason))
                    rows.append(None)
        return decoded_column(rows, self.arrow_type, _getter_of, bad, lambda row: _schema_name(values, row))

    def _reader(self, *, is_text: bool, has_nulls: bool) -> Callable[[Any], Any]:
        """Returns the function that reads a value. What the values of a column do not need is left out: a test takes as
        long as a field."""
        decode, texts = self._decoder.decode, self._texts

        def text_of_parts(value: bytes) -> Any:
            assert texts is not None
            return texts(decode(value))

        read = decode if texts is None else text_of_parts

        def checked(value: bytes | None) -> Any:
            if value is None:
                return None
            if not is_text:
                value.decode()
            return read(value)

        return checked if has_nulls or not is_text else read


class TextDecoder:
    """Decodes UTF-8 text."""

    def __init__(self, value_format: ValueFormat) -> None:
        self.arrow_type = value_format.arrow_type

    def decode(self, values: Any) -> DecodedValues:
        arrow = require_arrow()
        try:
            return DecodedValues(values.cast(arrow.string()), ())
        except arrow.ArrowInvalid:
            rows: list[str | None] = []
            bad = []
            for number, value in enumerate(values.to_pylist()):
                try:
                    rows.append(None if value is None else value.decode())
                except UnicodeDecodeError as cause:
                    bad.append(_bad(values, number, cause))
                    rows.append(None)
            return DecodedValues(arrow.array(rows, arrow.string()), tuple(bad))


def is_text(values: Any) -> bool:
    """Returns whether all values of a pyarrow.BinaryArray are UTF-8."""
    arrow = require_arrow()
    try:
        values.cast(arrow.string())
    except arrow.ArrowInvalid:
        return False
    return True


def payload_of(value: bytes) -> bytes:
    """Returns the JSON of a value, without the prefix of the wire format."""
    return value[payload_at(value) :]


def _bad(values: Any, row: int, cause: Exception) -> BadValue:
    return BadValue(row, reason_of(cause), _schema_name(values, row))


def _schema_name(values: Any, row: int) -> SchemaName:
    codes, names = schema_codes(values.slice(row, 1))
    return names.get(int(codes[0]), NOT_FRAMED)


# -- Arrow's types as msgspec's --------------------------------------------------------------------------------


def _getter_of(path: Path, field: Any) -> Getter:
    read, texts = attrgetter(f"f{path[-1]}"), _text_reader(field)
    return read if texts is None else lambda row: texts(read(row))


def _text_reader(field: Any) -> Callable[[Any], Any] | None:
    """Returns the function that makes texts of the JSON in a value of the field; None if it has no JSON outside of
    structs, whose fields are read one by one."""
    if is_json_text(field):
        return _text
    types, kind = require_arrow().types, field.type
    if types.is_list(kind) and (each_text := _text_reader(kind.value_field)) is not None:
        return lambda row: None if row is None else [each_text(each) for each in row]
    if types.is_map(kind) and (item_text := _text_reader(kind.item_field)) is not None:
        return lambda row: None if row is None else {name: item_text(each) for name, each in row.items()}
    return None


def _text(raw: Any) -> str | None:
    text = None if raw is None else bytes(raw).decode()
    return None if text == "null" else text


def json_reader(field: Any, *, refuses_unknown: bool = False) -> Any:
    """Returns the msgspec.json.Decoder of the values of a pyarrow.Field. ``refuses_unknown``: objects with a field that
    the type does not have are refused. Raises FormatRefused."""
    return msgspec.json.Decoder(_value_type(field, refuses_unknown))


def _value_type(field: Any, refuses_unknown: bool) -> Any:
    """Returns the type as which msgspec decodes a value that may be null. Raw JSON is not declared nullable, because
    msgspec would then accept nothing but null for it."""
    return msgspec.Raw if is_json_text(field) else _python_type(field.type, refuses_unknown) | None


def _python_type(arrow_type: Any, refuses_unknown: bool) -> Any:
    """Returns the type as which msgspec decodes a value; every field may be missing or null."""
    types = require_arrow().types
    if types.is_struct(arrow_type):
        for field in arrow_type:
            if not _is_name(field.name):
                raise FormatRefused(
                    f"the field {field.name!r} has a name that JSON values cannot be decoded with"
                )
        fields = [
            (f"f{number}", _value_type(field, refuses_unknown), msgspec.field(default=None, name=field.name))
            for number, field in enumerate(arrow_type)
        ]
        return msgspec.defstruct("Row", fields, gc=False, forbid_unknown_fields=refuses_unknown)
    if types.is_list(arrow_type):
        return list[_value_type(arrow_type.value_field, refuses_unknown)]  # type: ignore[misc]
    if types.is_map(arrow_type):
        return dict[str, _value_type(arrow_type.item_field, refuses_unknown)]  # type: ignore[misc]
    if types.is_integer(arrow_type):
        return _whole_number(arrow_type)
    if types.is_timestamp(arrow_type) and arrow_type.tz is not None:
        return Annotated[datetime, msgspec.Meta(tz=True)]
    return _plain_type(arrow_type)


def _whole_number(arrow_type: Any) -> Any:
    is_signed = require_arrow().types.is_signed_integer(arrow_type)
    bits = arrow_type.bit_width - is_signed
    smallest = -(2**bits) if is_signed else 0
    if bits == 64:  # msgspec reads whole numbers below 2**64, and knows no bound above 2**63 - 1
        return Annotated[int, msgspec.Meta(ge=0)]
    return Annotated[int, msgspec.Meta(ge=smallest, le=2**bits - 1)]


def _plain_type(arrow_type: Any) -> Any:
    types = require_arrow().types
    plain: list[tuple[Any, Any]] = [
        (types.is_boolean, bool), (types.is_floating, float), (types.is_string, str),
        (types.is_large_string, str), (types.is_binary, bytes), (types.is_timestamp, datetime), (types.is_date32, date),
        (types.is_time64, time), (types.is_decimal, Decimal),
    ]  # fmt: skip
    for is_it, python in plain:
        if is_it(arrow_type):
            return python
    raise FormatRefused(f"JSON has no values of type {arrow_type}: use another type")


# -- a type from a sample --------------------------------------------------------------------------------------


def inferred_type(values: Iterable[bytes | None], fields_max: int = FIELDS_MAX) -> Any:
    """Returns the pyarrow.DataType of a sample of JSON values; values that are no JSON are passed over. A number is
    int64 until one has a fraction; what is of two types is JSON in text, and so is an object with more than
    ``fields_max`` fields. Raises FormatRefused if no value is JSON."""
    found: Any = None
    for value in values:
        if value is None:
            continue
        try:
            found = _joined(found, _shape_of(msgspec.json.decode(payload_of(value)), fields_max), fields_max)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    if found is None:
        raise FormatRefused("no value of the sample is JSON, so the fields cannot be inferred: give a schema")
    return _type_of(found)


def _shape_of(value: Any, fields_max: int) -> Any:
    """Returns what inference knows of a value: a Python type, ("object", shapes of the fields) or ("array", shape of
    the items)."""
    if isinstance(value, dict):
        return ("object", {name: _shape_of(each, fields_max) for name, each in value.items()})
    if isinstance(value, list):
        items: Any = type(None)
        for each in value:
            items = _joined(items, _shape_of(each, fields_max), fields_max)
        return ("array", items)
    if isinstance(value, int) and not isinstance(value, bool) and not -_INT64_MAX <= value <= _INT64_MAX:
        return msgspec.Raw
    return type(value)


def _joined(one: Any, other: Any, fields_max: int) -> Any:
    """Returns the shape that the values of both shapes have in common; Raw (JSON in text) if there is none."""
    if one is None or one is type(None) or one == other:
        return other
    if other is type(None):
        return one
    if (one, other) in ((int, float), (float, int)):
        return float
    if isinstance(one, tuple) and isinstance(other, tuple) and one[0] == other[0]:
        if one[0] == "array":
            return ("array", _joined(one[1], other[1], fields_max))
        return _joined_fields(one[1], other[1], fields_max)
    return msgspec.Raw


def _joined_fields(one: dict[str, Any], other: dict[str, Any], fields_max: int) -> Any:
    absent = type(None)
    names = dict.fromkeys((*one, *other))
    if len(names) > fields_max:
        return msgspec.Raw
    fields = {name: _joined(one.get(name, absent), other.get(name, absent), fields_max) for name in names}
    return ("object", fields)


_TYPES = {
    bool: "bool_",
    int: "int64",
    float: "float64",
    str: "string",
    msgspec.Raw: "string",
    type(None): "string",
}


def _type_of(shape: Any) -> Any:
    arrow = require_arrow()
    if isinstance(shape, type):
        return getattr(arrow, _TYPES[shape])()
    if _has_text(shape):
        return arrow.string()
    if shape[0] == "array":
        return arrow.list_(_type_of(shape[1]))
    return arrow.struct([_field_of(name, each) for name, each in shape[1].items()])


def _field_of(name: str, shape: Any) -> Any:
    return text_field(name) if _has_text(shape) else require_arrow().field(name, _type_of(shape))


def _has_text(shape: Any) -> bool:
    """Returns whether a field becomes JSON in text: it is of two types itself, or the items of its array are; or it was
    null in all of the sample."""
    while isinstance(shape, tuple) and shape[0] == "array":
        shape = shape[1]
    return shape is msgspec.Raw or shape is type(None) or _has_odd_names(shape)


def _has_odd_names(shape: Any) -> bool:
    """Returns whether the shape is an object with a field that msgspec cannot name."""
    return isinstance(shape, tuple) and shape[0] == "object" and not all(map(_is_name, shape[1]))


def _is_name(name: str) -> bool:
    return name.isprintable() and not set(name) & set('"\\')


# -- a type from a JSON Schema ---------------------------------------------------------------------------------

_FORMATS = {"date-time": ("timestamp", "us", "UTC"), "date": ("date32",)}


def json_schema_type(text: str) -> Any:
    """Returns the pyarrow.DataType of a JSON Schema. What it says in other ways than by type, properties and items (a
    choice of several, a reference) is JSON in text. Raises SchemaMalformed."""
    try:
        schema = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as cause:
        raise SchemaMalformed(f"the JSON Schema is not JSON: {cause}") from cause
    found = _described(schema)
    return require_arrow().string() if found is None else found


def _described(schema: Any) -> Any:
    """Returns the type that a part of a JSON Schema describes; None for JSON in text."""
    arrow = require_arrow()
    kinds = schema.get("type") if isinstance(schema, dict) else None
    kinds = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
    if len(kinds) != 1 or kinds[0] is None:
        return None
    if kinds[0] == "object":
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            return None
        parts = [(name, _described(part)) for name, part in properties.items()]
        return arrow.struct([text_field(n) if t is None else arrow.field(n, t) for n, t in parts])
    if kinds[0] == "array":
        items = _described(schema.get("items"))
        return None if items is None else arrow.list_(items)
    if kinds[0] == "string":
        name, *arguments = _FORMATS.get(str(schema.get("format")), ("string",))
        return getattr(arrow, name)(*arguments)
    plain = {"integer": "int64", "number": "float64", "boolean": "bool_"}.get(kinds[0])
    return None if plain is None else getattr(arrow, plain)()
