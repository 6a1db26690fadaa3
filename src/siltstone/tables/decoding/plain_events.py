"""Change events of Debezium in their usual form, many at once: envelopes without a schema around them.

The envelope and the row in it are read in one pass over the JSON, which is half of the work. If one of the values has
another form, or is bad, the result is None, and ``changes`` looks at them one by one.
"""

from typing import Any

import msgspec
import pyarrow as pa

from siltstone.tables.decoding.json import FoundFieldsDecoder, JsonFieldsDecoder
from siltstone.tables.decoding.port import DecodedColumns
from siltstone.value_formats.decoders.json import ROWS_AT_ONCE, JsonDecoder, is_text
from siltstone.value_formats.decoding import DecodedValues
from siltstone.value_formats.wire import payloads

_MADE = frozenset("cur")


class _AnyObject(msgspec.Struct):
    """An object whose fields do not matter."""


class _OtherForm(Exception):
    """A value is no envelope, or one whose meaning needs a second look."""


class PlainEvents:
    """Reads columns of plain envelopes."""

    def __init__(self, rows: JsonFieldsDecoder | FoundFieldsDecoder, source: Any = _AnyObject) -> None:
        """``source``: the type of the object that says where an event is from; its field ``value`` is the sequence."""
        self._rows = rows
        self._has_sequence = source is not _AnyObject
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_event_type(rows.json, source))

    def decode(self, values: Any) -> DecodedColumns | None:
        """Decodes a pyarrow.BinaryArray. Returns None if one of the values is not plain."""
        texts = payloads(values)
        if not is_text(texts):
            return None
        parts: list[Any] = []
        deletes: list[bool] = []
        sequences: list[Any] = []
        try:
            for first in range(0, max(len(texts), 1), ROWS_AT_ONCE):
                given = texts.slice(first, ROWS_AT_ONCE).to_pylist()
                found = self._rows.json.column_of(self._rows_of(given, deletes, sequences))
                if found.bad:
                    return None
                parts.append(found.column)
        except (msgspec.MsgspecError, RecursionError, ValueError, _OtherForm):
            return None
        column = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        return msgspec.structs.replace(
            self._rows.columns_of(DecodedValues(column, ())),
            deletes=pa.array(deletes, pa.bool_()),
            sequences=pa.array(sequences, pa.int64()) if self._has_sequence else None,
        )

    def _rows_of(self, given: list[bytes | None], deletes: list[bool], sequences: list[Any]) -> list[Any]:
        """Raises _OtherForm, ValueError, RecursionError and msgspec.MsgspecError."""
        decode = self._decoder.decode
        rows: list[Any] = []
        for value in given:
            if value is None:
                rows.append(None)
                deletes.append(True)
                if self._has_sequence:
                    sequences.append(None)
                continue
            event = decode(value)
            if event.op == "d":
                rows.append(None)
                deletes.append(True)
            elif event.op in _MADE and event.after is not None:
                rows.append(event.after)
                deletes.append(False)
            else:
                raise _OtherForm
            if self._has_sequence:
                sequences.append(sequence_number(event.source))
        return rows


def _event_type(rows: JsonDecoder, source: Any) -> Any:
    """Returns the type of plain envelopes, which have no schema. The other fields have the types that they have in
    ``changes``, so that a value which is bad there does not pass here."""
    return msgspec.defstruct(
        "Event",
        [
            ("op", str),
            ("source", source),
            ("after", rows.row_type, None),
            ("schema", None, None),
            ("deleted", str | bool | None, msgspec.field(default=None, name="__deleted")),
        ],
        gc=False,
    )


def sequence_number(found: Any) -> int | None:
    """Returns the field ``value`` of an object as a number. Raises ValueError for a text that is no number, and for a
    number of more than 64 bits."""
    if found.value is None:
        return None
    number = int(found.value)
    if not -(2**63) <= number < 2**63:
        raise ValueError("its sequence has more than 64 bits")
    return number
