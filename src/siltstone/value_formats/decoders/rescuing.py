"""JSON values whose columns are found from the records: no field is lost.

A value that has no other fields than the columns, each of a type that its column takes, is decoded at once. Any other
value is *separated*: what fits is decoded, and the rest is kept as JSON in the column ``_rescued_data``, as it was
written: ``{"delay": "late", "at": {"floor": 2}}``. A number or a truth value fits a column of texts, as its JSON. A
list or a map is rescued whole if one part of it does not fit. A value that is no JSON object is bad.

The decoder also reports the types of fields that are no columns. So the driver can add them and run the task
again.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from siltstone.record_columns.arrow import require_arrow
from siltstone.topic_configs.column_types import ARRAY, MAP, STRUCT, ColumnType
from siltstone.topic_configs.table_export import TableColumn
from siltstone.value_formats.column_arrays import column_arrays, column_field, field_type, fitted
from siltstone.value_formats.decoders.json import JsonDecoder, json_reader
from siltstone.value_formats.decoding import BadValue, DecodedValues
from siltstone.value_formats.found_columns import can_be_column, joined_fields, type_of
from siltstone.value_formats.value_format import FormatKind, ValueFormat, encode_type

_OBJECT: Any = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST: Any = msgspec.json.Decoder(list[msgspec.Raw])
_PLAIN_STARTS = b"-0123456789tf"
"""The first bytes of numbers and truth values."""

Found = dict[str, ColumnType | None]


class RescuedValue(msgspec.Struct, frozen=True):
    """A value in two parts. ``kept`` is JSON that fits, None for nothing; ``rescued`` is the JSON of what does not fit,
    None for nothing. ``found`` is the type of fields that are no columns."""

    kept: bytes | None
    rescued: bytes | None = None
    found: ColumnType | None = None


class _Part:
    """Separates the values of one column, or of a part of one."""

    def __init__(self, of: ColumnType) -> None:
        self._kind = of.kind
        self._whole = json_reader(column_field("value", of), refuses_unknown=True)
        self._fields = {name: _Part(part) for name, part in of.parts} if of.kind == STRUCT else {}
        self._item = _Part(of.item) if of.kind in (ARRAY, MAP) else None

    def separate(self, raw: bytes) -> RescuedValue:
        with suppress(msgspec.MsgspecError):
            self._whole.decode(raw)
            return RescuedValue(raw)
        if self._kind == "string" and raw[:1] in _PLAIN_STARTS:
            return RescuedValue(msgspec.json.encode(raw.decode()))
        with suppress(msgspec.MsgspecError):
            return self._separate_parts(raw)
        return RescuedValue(None, raw)

    def _separate_parts(self, raw: bytes) -> RescuedValue:
        """Raises msgspec.MsgspecError if the value is no object or list where one is wanted."""
        if self._kind == STRUCT:
            return separated_fields(_OBJECT.decode(raw), self._fields)
        if self._kind == ARRAY:
            parts = _LIST.decode(raw)
            return self._joined(raw, parts, lambda kept: b"[" + b",".join(kept) + b"]")
        if self._kind == MAP:
            named = _OBJECT.decode(raw)
            parts = list(named.values())
            return self._joined(raw, parts, lambda kept: _object(dict(zip(named, kept, strict=True))))
        return RescuedValue(None, raw)

    def _joined(self, raw: bytes, parts: Sequence[msgspec.Raw], whole: Any) -> RescuedValue:
        """Returns the parts of a list or a map as one; if a part does not fit, all of it is rescued."""
        assert self._item is not None
        kept: list[bytes] = []
        found: ColumnType | None = None
        fits = True
        for part in parts:
            each = self._item.separate(bytes(part))
            fits = fits and each.rescued is None and each.kept is not None
            if each.kept is not None:
                kept.append(each.kept)
            if each.found is not None:
                named = joined_fields({"": found} if found else {}, {"": each.found})
                found = named.get("")
        if fits:
            return RescuedValue(whole(kept))
        return RescuedValue(None, raw, None if found is None else ColumnType(self._kind, (("", found),)))


def separated_fields(fields: Mapping[str, msgspec.Raw], parts: Mapping[str, _Part]) -> RescuedValue:
    """Separates an object: each field goes to its part, and fields without a part are rescued."""
    kept: dict[str, bytes] = {}
    rescued: dict[str, bytes] = {}
    found: list[tuple[str, ColumnType]] = []
    for name, value in fields.items():
        raw = bytes(value)
        part = parts.get(name)
        if part is None:
            if raw == b"null":
                continue
            each = RescuedValue(None, raw, _type_in(raw) if can_be_column(name) else None)
        else:
            each = part.separate(raw)
        if each.kept is not None:
            kept[name] = each.kept
        if each.rescued is not None:
            rescued[name] = each.rescued
        if each.found is not None:
            found.append((name, each.found))
    return RescuedValue(
        _object(kept),
        _object(rescued) if rescued else None,
        ColumnType(STRUCT, tuple(found)) if found else None,
    )


def _type_in(raw: bytes) -> ColumnType | None:
    try:
        return type_of(msgspec.json.decode(raw))
    except (
        msgspec.MsgspecError,
        RecursionError,
    ):  # a number that no float holds, or too deep: it stays rescued
        return None


def _object(fields: Mapping[str, bytes]) -> bytes:
    inside = b",".join(msgspec.json.encode(name) + b":" + value for name, value in fields.items())
    return b"{" + inside + b"}"


class RescuedValues(msgspec.Struct, frozen=True):
    """``columns`` are Arrow arrays by name, ``rescued`` is the one of what no column could take. Values that are no
    JSON object are ``bad``, and null in all of these. ``new_fields`` has the types of fields that are no columns."""

    columns: dict[str, Any]
    rescued: Any
    bad: tuple[BadValue, ...]
    new_fields: dict[str, ColumnType]


class RescuingDecoder:
    """Decodes JSON objects as the columns that were found, and what was rescued."""

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        """``columns`` are all known ones, with the listed ones."""
        self._types = {each.name: field_type(each.type) for each in columns}
        self._parts = {each.name: _Part(each.type) for each in columns}
        kind = require_arrow().struct([column_field(each.name, each.type) for each in columns])
        self.json = JsonDecoder(ValueFormat(FormatKind.JSON, encode_type(kind)), refuses_unknown=True)
        """Reads objects that have nothing to rescue."""

    def decode(self, values: Any) -> RescuedValues:
        """Decodes a pyarrow.BinaryArray; a null is null in every column."""
        others = _Others(self._parts)
        return self.columns_of(self.json.decode(values, others.kept), others.rescued, others.types)

    def columns_of(
        self,
        found: DecodedValues,
        rescued: Mapping[int, str] | None = None,
        new_fields: Mapping[str, ColumnType] | None = None,
    ) -> RescuedValues:
        """Returns the columns of decoded objects, and what was rescued of their rows."""
        arrow = require_arrow()
        texts = arrow.nulls(len(found.column), arrow.string())
        if rescued:
            bad = {each.row for each in found.bad}
            texts = arrow.array(
                [None if row in bad else rescued.get(row) for row in range(len(found.column))], arrow.string()
            )
        arrays = dict(column_arrays(found.column))
        columns = {name: fitted(arrays[name], kind) for name, kind in self._types.items()}
        return RescuedValues(columns, texts, found.bad, dict(new_fields or {}))


class _Others:
    """The values that have something else than the columns: ``rescued`` of each row, and the types of new fields."""

    def __init__(self, parts: Mapping[str, _Part]) -> None:
        self.rescued: dict[int, str] = {}
        self.types: dict[str, ColumnType] = {}
        self._parts = parts

    def kept(self, row: int, value: bytes) -> bytes:
        """Returns the part of a value that fits the columns. Raises msgspec.MsgspecError and RecursionError for a value
        that is no object."""
        each = separated_fields(_OBJECT.decode(value), self._parts)
        if each.rescued is not None:
            self.rescued[row] = each.rescued.decode()
        if each.found is not None:
            self.types = joined_fields(self.types, dict(each.found.parts))
        return each.kept or b"{}"
