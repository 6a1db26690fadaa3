"""Avro's logical types: which base types each of them has, its Arrow type, and how a value becomes one of it [Avro
specification 1.12, logical types].

A logical type on another base type, or one whose attributes contradict each other, is ignored, as the specification
wants: the value is then one of the base type. Times and dates stay numbers, because Python's calendar ends before
Arrow's; decimals keep all their digits.

fastavro finds the reader of a logical type by its name, so ours have names of their own.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any
from uuid import UUID

import numpy as np

from siltstone.record_columns.arrow import require_arrow

_OURS = "siltstone-"
_DAY_US = 86_400_000_000
_DECIMAL_DIGITS_MAX = 38
_DECIMAL_BYTES_MAX = 1_000
"""A longer decimal is not read: to find its decimal digits takes a time that grows with the square of its length."""
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Schema = dict[str, Any]


class _Instant(int):
    """Microseconds since 1970, which JSON in text has as ISO 8601 writes them."""

    def __str__(self) -> str:
        return f"{_Local(self)}Z"


class _Local(int):
    """Microseconds since 1970 on a clock without a time zone."""

    def __str__(self) -> str:
        micros = int(self)
        try:
            return (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat()
        except OverflowError:
            return str(np.datetime64(micros, "us"))


class _Day(int):
    """Days since 1970."""

    def __str__(self) -> str:
        try:
            return (date(1970, 1, 1) + timedelta(days=int(self))).isoformat()
        except OverflowError:
            return str(np.datetime64(int(self), "D"))


class _TimeOfDay(int):
    """Microseconds since midnight."""

    def __str__(self) -> str:
        return (_EPOCH + timedelta(microseconds=int(self))).time().isoformat()


def _time_of_day(micros: int) -> _TimeOfDay:
    if not 0 <= micros < _DAY_US:
        raise ValueError(f"{micros} microseconds after midnight are no time of day")
    return _TimeOfDay(micros)


def _decimal(data: bytes, schema: Schema) -> Decimal:
    if len(data) > _DECIMAL_BYTES_MAX:
        raise ValueError(f"a decimal of {len(data)} bytes is too long")
    return _EXACT.scaleb(Decimal(int.from_bytes(data, "big", signed=True)), -int(schema.get("scale", 0)))


_TIMESTAMP, _LOCAL = ("timestamp", "us", "UTC"), ("timestamp", "us")
_TYPES: dict[tuple[str, str], tuple[str, ...]] = {
    ("int", "date"): ("date32",),
    ("int", "time-millis"): ("time64", "us"),
    ("long", "time-micros"): ("time64", "us"),
    ("long", "timestamp-millis"): _TIMESTAMP,
    ("long", "timestamp-micros"): _TIMESTAMP,
    ("long", "local-timestamp-millis"): _LOCAL,
    ("long", "local-timestamp-micros"): _LOCAL,
    ("string", "uuid"): ("string",),
    ("fixed", "uuid"): ("string",),
    ("bytes", "decimal"): (),
    ("fixed", "decimal"): (),
}
_READ: dict[str, Callable[[Any, Schema], Any]] = {
    "date": lambda data, _: _Day(data),
    "time-millis": lambda data, _: _time_of_day(data * 1_000),
    "time-micros": lambda data, _: _time_of_day(data),
    "timestamp-millis": lambda data, _: _Instant(data * 1_000),
    "timestamp-micros": lambda data, _: _Instant(data),
    "local-timestamp-millis": lambda data, _: _Local(data * 1_000),
    "local-timestamp-micros": lambda data, _: _Local(data),
    "uuid": lambda data, _: str(UUID(data) if isinstance(data, str) else UUID(bytes=data)),
    "decimal": _decimal,
}


def with_our_names(schema: Any) -> Any:
    """Returns the JSON of a schema with the names by which ``register`` knows its logical types. A logical type that
    does not count is left out."""
    if isinstance(schema, list):
        return [with_our_names(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: value for key, value in schema.items() if key != "logicalType"}
    kind = schema.get("type")
    if kind in ("record", "error"):
        found["fields"] = [{**each, "type": with_our_names(each["type"])} for each in schema["fields"]]
    for name in ("items", "values"):
        if name in found:
            found[name] = with_our_names(found[name])
    if isinstance(kind, dict | list):
        found["type"] = with_our_names(kind)
    logical = schema.get("logicalType")
    if isinstance(kind, str) and isinstance(logical, str) and (kind, logical) in _TYPES and _counts(schema):
        found["logicalType"] = f"{_OURS}{logical}"
    return found


def adopted(writer: Any, reader: Any) -> Any:
    """Returns the JSON of a writer's schema with the logical types that the reader schema has and the writer's lacks.
    An annotation that was added later also counts for values that were written before it, as in Java, because the
    values are the same [Avro specification: logical types and schema resolution]."""
    if isinstance(writer, list):
        return [adopted(each, _of_base(each, reader)) for each in writer]
    if isinstance(reader, list):
        reader = _of_base(writer, reader)
    base, wanted = _base(writer), reader if isinstance(reader, dict) else {}
    if base == "record" == _base(reader):
        types = {each["name"]: each["type"] for each in wanted["fields"]}
        fields = [
            {**each, "type": adopted(each["type"], types.get(each["name"]))} for each in writer["fields"]
        ]
        return {**writer, "fields": fields}
    for name in ("items", "values"):
        if isinstance(writer, dict) and name in writer and name in wanted:
            return {**writer, name: adopted(writer[name], wanted[name])}
    if "logicalType" not in wanted or base is None or (isinstance(writer, dict) and "logicalType" in writer):
        return writer
    if base != _base(wanted) and (base, _base(wanted)) != ("int", "long"):
        return writer
    attributes = {name: wanted[name] for name in ("logicalType", "precision", "scale") if name in wanted}
    return {**(writer if isinstance(writer, dict) else {"type": writer}), **attributes}


def _base(schema: Any) -> str | None:
    kind = schema.get("type") if isinstance(schema, dict) else schema
    return kind if isinstance(kind, str) else None


def _of_base(schema: Any, others: Any) -> Any:
    """Returns the one of the branches of a union that has the base type of the schema."""
    branches = others if isinstance(others, list) else [others]
    bases = (_base(schema), "long" if _base(schema) == "int" else None)
    return next((each for each in branches if each is not None and _base(each) in bases), None)


def _counts(schema: Schema) -> bool:
    """Returns whether the attributes of a logical type do not contradict each other."""
    is_fixed, size = schema["type"] == "fixed", schema.get("size", 0)
    if schema["logicalType"] == "uuid":
        return not is_fixed or size == 16
    if schema["logicalType"] != "decimal":
        return True
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if (
        not isinstance(precision, int)
        or not isinstance(scale, int)
        or not 0 <= scale <= precision
        or not precision
    ):
        return False
    return not is_fixed or precision < len(str(1 << (8 * size - 1))) or 10**precision <= 1 << (8 * size - 1)


def logical_type(schema: Schema) -> Any:
    """Returns the pyarrow.DataType of a schema of ``with_our_names``; None if it has no logical type."""
    name = str(schema.get("logicalType", ""))
    if not name.startswith(_OURS):
        return None
    arrow, logical = require_arrow(), name.removeprefix(_OURS)
    if logical == "decimal":
        digits = int(schema["precision"])
        is_text = digits > _DECIMAL_DIGITS_MAX
        return arrow.string() if is_text else arrow.decimal128(digits, int(schema.get("scale", 0)))
    kind, *arguments = _TYPES[schema["type"], logical]
    return getattr(arrow, kind)(*arguments)


def register(readers: dict[str, Any]) -> None:
    """Adds the logical types to fastavro's table of readers, by base type and name."""
    for base, logical in _TYPES:
        for written in (base, "int") if base == "long" else (base,):  # an int of a writer is widened
            readers[f"{written}-{_OURS}{logical}"] = _reader(_READ[logical])


def _reader(read: Callable[[Any, Schema], Any]) -> Callable[..., Any]:
    def read_logical(data: Any, writer: Schema, reader: Any = None) -> Any:
        """A value whose reader schema has no logical type stays as it was written."""
        is_plain = reader is not None and not (isinstance(reader, dict) and "logicalType" in reader)
        return data if is_plain else read(data, writer)

    return read_logical
