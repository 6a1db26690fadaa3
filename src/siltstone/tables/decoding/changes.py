"""Change events of Debezium: which row of the source table each one makes, and which it removes.

Values are JSON, or Avro with a schema registry (``avro_changes``), in one of the forms that Debezium's converters and
transforms write:

    envelope          {"before": …, "after": {…}, "source": {…}, "op": "u", …}
    with its schema   {"schema": {…}, "payload": the envelope}
    flat              the row itself, where ``__deleted`` says "true" for a row that is gone [ExtractNewRecordState]

``c`` (created), ``u`` (updated) and ``r`` (read by a snapshot) make the row ``after``; ``d`` and a tombstone remove the
row of the key, and so does a schema around nothing; ``m`` (a message of the source's log) is passed over. ``t``
(truncated) removes all rows before it. It names no key, so it is bad where offsets alone do not say which rows these
are. Debezium's default is to skip it in the connector.

A flat row may have columns with names of the envelope: it is an envelope only if ``op`` is text beside a ``source``
that is an object, or beside ``before`` and ``after`` that are rows or null.
"""

from enum import Enum
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.tables.decoding.json import FoundFieldsDecoder, JsonFieldsDecoder
from siltstone.tables.decoding.plain_events import PlainEvents, sequence_number
from siltstone.tables.decoding.port import REASON_CHARACTERS_MAX, ColumnDecoder, DecodedColumns
from siltstone.value_formats.decoders.json import payload_of
from siltstone.value_formats.decoding import reason_of
from siltstone.value_formats.wire import payloads

_NOTHING = msgspec.Raw(b"null")
_ABSENT = msgspec.Raw(b"")
_MADE = frozenset("cur")


class EventEffect(Enum):
    """What an event does to the rows of the table."""

    MAKES = "makes the row of its key"
    REMOVES = "removes the row of its key"
    TRUNCATES = "removes all rows"
    NOTHING = "is passed over"


class _Event(msgspec.Struct):
    """The parts of an event that matter; a flat row may have columns of these names."""

    op: msgspec.Raw = _NOTHING
    after: msgspec.Raw = _ABSENT
    before: msgspec.Raw = _ABSENT
    source: msgspec.Raw = _ABSENT
    payload: msgspec.Raw = _ABSENT
    schema: msgspec.Raw = _ABSENT
    deleted: str | bool | None = msgspec.field(default=None, name="__deleted")


_EVENTS = msgspec.json.Decoder(_Event)


class ChangedRowsDecoder:
    """Decodes the rows that change events make."""

    def __init__(self, rows: ColumnDecoder, sequence: str = "", *, may_truncate: bool = False) -> None:
        """``rows`` decodes the JSON of a row. ``sequence``: the path of the field that orders the events,
        ``source.NAME`` or a field of rows; a whole number, which may be a text of digits. ``may_truncate``: a truncate
        is not bad."""
        self._may_truncate = may_truncate
        self._rows = rows
        self._place, _, name = sequence.rpartition(".")
        kind = _sequence_type(name) if name else None
        self._sequence: msgspec.json.Decoder[Any] | None = kind and msgspec.json.Decoder(kind)
        self._plain: PlainEvents | None = None
        if isinstance(rows, JsonFieldsDecoder | FoundFieldsDecoder) and (self._place or not name):
            self._plain = PlainEvents(rows, kind) if kind else PlainEvents(rows)

    def decode(self, values: Any) -> DecodedColumns:
        plain = self._plain.decode(values) if self._plain is not None else None
        return plain if plain is not None else self._one_by_one(values)

    def _one_by_one(self, values: Any) -> DecodedColumns:
        made: list[bytes | None] = []
        deletes: list[bool] = []
        sequences: list[int | None] = []
        skipped: set[int] = set()
        truncates: set[int] = set()
        bad: dict[int, str] = {}
        for row, value in enumerate(payloads(values).to_pylist()):
            after: bytes | None = None
            sequence: int | None = None
            is_delete = value is None
            if value is not None:
                try:
                    after, effect, holder = _row_of(value, self._place, may_truncate=self._may_truncate)
                    is_delete = effect is EventEffect.REMOVES
                    if effect is EventEffect.TRUNCATES:
                        truncates.add(row)
                    if after is None and not is_delete:
                        skipped.add(row)
                    elif self._sequence is not None and holder is not None:
                        sequence = sequence_number(self._sequence.decode(holder))
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as cause:
                    bad[row] = reason_of(cause)[:REASON_CHARACTERS_MAX]
            made.append(after)
            deletes.append(is_delete)
            sequences.append(sequence)
        decoded = self._rows.decode(pa.array(made, pa.binary()))
        return msgspec.structs.replace(
            decoded,
            bad=dict(sorted({**decoded.bad, **bad}.items())),
            deletes=pa.array(deletes, pa.bool_()),
            skipped=frozenset(skipped),
            truncates=frozenset(truncates),
            sequences=None if self._sequence is None else pa.array(sequences, pa.int64()),
        )


def _sequence_type(name: str) -> Any:
    """Returns the type of objects whose field of this name is read as ``value``."""
    return msgspec.defstruct(
        "Sequence", [("value", int | str | None, msgspec.field(default=None, name=name))]
    )


def _row_of(
    value: bytes, place: str, *, may_truncate: bool
) -> tuple[bytes | None, EventEffect, bytes | None]:
    """Returns the JSON of the row that an event makes, what it does, and the object that has the field by which events
    are ordered: ``source`` if this is the ``place``, otherwise the row. Raises ValueError."""
    event = _EVENTS.decode(value)
    if _is_object(event.schema) and bytes(event.payload) == b"null":
        return None, EventEffect.REMOVES, None
    if _is_object(event.schema) and _is_object(event.payload):
        value = bytes(event.payload)
        event = _EVENTS.decode(value)
    if not _is_envelope(event):
        if bytes(event.op) == b"null" and (_is_object(event.after) or _is_object(event.before)):
            raise ValueError("it has before or after, and no op")
        holder = None if place else value
        if event.deleted in ("true", True):
            return None, EventEffect.REMOVES, holder
        return value, EventEffect.MAKES, holder
    op = msgspec.json.decode(event.op, type=str)
    effect = effect_of(op, has_row=_is_object(event.after), may_truncate=may_truncate)
    after = bytes(event.after) if effect is EventEffect.MAKES else None
    if place:
        return after, effect, (bytes(event.source) if _is_object(event.source) else None)
    return after, effect, after


def effect_of(op: str, *, has_row: bool, may_truncate: bool) -> EventEffect:
    """Returns what an event of this operation does. ``has_row``: it has the row ``after``. Raises ValueError."""
    if op in _MADE:
        if not has_row:
            raise ValueError(f"its op is {op}, and after is no row")
        return EventEffect.MAKES
    if op == "d":
        return EventEffect.REMOVES
    if op == "m":
        return EventEffect.NOTHING
    if op == "t" and may_truncate:
        return EventEffect.TRUNCATES
    if op == "t":
        raise ValueError(
            "it truncates the table, and names no key: this needs a topic of one partition and no "
            "siltstone.table.sequence; or set skipped.operations=t in the connector"
        )
    raise ValueError(f"its op is {op[:20]}, and Debezium has c, u, d, r, m and t")


def _is_object(raw: msgspec.Raw) -> bool:
    return bytes(raw).startswith(b"{")


def _is_envelope(event: _Event) -> bool:
    if not bytes(event.op).startswith(b'"'):
        return False
    rows = [each for each in (event.before, event.after) if bytes(each)]
    return _is_object(event.source) or (
        bool(rows) and all(_is_object(each) or bytes(each) == b"null" for each in rows)
    )


_MAY_HAVE_SCHEMA = r'"schema"|\\'
"""A name may be written with escapes."""


class ChangedKeysDecoder:
    """Decodes keys without the schema that a JSON converter writes around them: ``{"schema": …, "payload": KEY}``."""

    def __init__(self, keys: ColumnDecoder) -> None:
        self._keys = keys

    def decode(self, values: Any) -> DecodedColumns:
        if not pc.any(pc.match_substring_regex(values, _MAY_HAVE_SCHEMA)).as_py():
            return self._keys.decode(values)
        plain = [None if each is None else _plain_key(each) for each in values.to_pylist()]
        return self._keys.decode(pa.array(plain, pa.binary()))


def _plain_key(key: bytes) -> bytes:
    try:
        event = _EVENTS.decode(payload_of(key))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return key
    has_both = _is_object(event.schema) and bytes(event.payload) not in (b"", b"null")
    return bytes(event.payload) if has_both else key
