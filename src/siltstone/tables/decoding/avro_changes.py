"""Change events of Debezium in Avro: the columns of the source's table in a schema, and what each event does.

The schema of a topic's values is that of the envelope, a record with ``op``, ``before`` and ``after``, or that of the
flat row of ``ExtractNewRecordState``, where ``__deleted`` marks a row that is gone. Each version of the source's table
has a schema of its own, so the form is decided by the schema, and never by a value.
"""

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from siltstone.record_columns.kernels.columns import Flags
from siltstone.tables.decoding.changes import EventEffect, effect_of

OP, AFTER, DELETED = "op", "after", "__deleted"


class EventEffects(msgspec.Struct, frozen=True):
    """``rows`` is the struct of the source's rows, null where an event makes none. ``are_deletes`` says which events
    remove the row of their key; ``skipped`` make and remove no row of it, and ``truncates``, some of these, remove all
    rows before them. ``bad`` has the reasons of the others. ``sequences`` is the column that orders the events, if it
    was asked for and is there."""

    rows: Any
    are_deletes: Flags
    skipped: frozenset[int]
    bad: dict[int, str]
    truncates: frozenset[int] = frozenset()
    sequences: Any = None


def row_type(kind: Any) -> Any:
    """Returns the type of the source's rows in events of a type."""
    if _is_envelope(kind):
        return kind.field(AFTER).type
    if pa.types.is_struct(kind):
        return pa.struct([each for each in kind if each.name != DELETED])
    return kind


def effects_of(events: Any, sequence: str = "", *, may_truncate: bool = False) -> EventEffects:
    """Returns what decoded events, an Arrow array without slices, do. ``sequence``: the path of the field that orders
    them, ``source.NAME`` or a field of rows. ``may_truncate``: a truncate is not bad."""
    effects = _effects_of(events, may_truncate=may_truncate)
    if not sequence:
        return effects
    place, _, name = sequence.rpartition(".")
    holder = effects.rows
    if _is_envelope(events.type) and place:
        holder = _part(events, place)
    elif place:
        holder = None
    return msgspec.structs.replace(effects, sequences=_part(holder, name))


def _part(struct: Any, name: str) -> Any:
    """Returns a field of a struct column; None if it has none of that name."""
    if struct is None or not pa.types.is_struct(struct.type) or struct.type.get_field_index(name) < 0:
        return None
    return pc.struct_field(struct, name)


def _effects_of(events: Any, *, may_truncate: bool) -> EventEffects:
    count = len(events)
    if _is_envelope(events.type):
        return _of_envelopes(events, may_truncate=may_truncate)
    deletes = np.zeros(count, dtype=np.bool_)
    if not pa.types.is_struct(events.type):
        return EventEffects(events, deletes, frozenset(), {})
    names = [each.name for each in events.type]
    columns = dict(zip(names, events.flatten(), strict=True))
    if DELETED in columns:
        deletes = np.array(
            [each in (True, "true") for each in columns.pop(DELETED).to_pylist()], dtype=np.bool_
        )
    fields = [each for each in events.type if each.name != DELETED]
    rows = pa.StructArray.from_arrays(list(columns.values()), fields=fields, mask=events.is_null())
    return EventEffects(rows, deletes, frozenset(), {})


def _of_envelopes(events: Any, *, may_truncate: bool) -> EventEffects:
    parts = dict(zip([each.name for each in events.type], events.flatten(), strict=True))
    rows = parts[AFTER]
    has_row = rows.is_valid().to_pylist()
    deletes = np.zeros(len(events), dtype=np.bool_)
    skipped: set[int] = set()
    truncates: set[int] = set()
    bad: dict[int, str] = {}
    for at, op in enumerate(parts[OP].to_pylist()):
        if op is None:
            bad[at] = "it has no op"
            continue
        try:
            effect = effect_of(op, has_row=has_row[at], may_truncate=may_truncate)
        except ValueError as cause:
            bad[at] = str(cause)
            continue
        deletes[at] = effect is EventEffect.REMOVES
        if effect is EventEffect.TRUNCATES:
            truncates.add(at)
        if effect in (EventEffect.NOTHING, EventEffect.TRUNCATES):
            skipped.add(at)
    return EventEffects(rows, deletes, frozenset(skipped), bad, frozenset(truncates))


def _is_envelope(kind: Any) -> bool:
    if not pa.types.is_struct(kind):
        return False
    parts = {each.name: each.type for each in kind}
    return bool(
        pa.types.is_string(parts.get(OP, pa.null())) and pa.types.is_struct(parts.get(AFTER, pa.null()))
    )
