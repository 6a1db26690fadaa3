"""Finds the fields of JSON values from a bounded sample of the records.

The sample is taken from the beginnings of many parts of a topic, because types often change over time, and a table or a
scan of a long topic reads no more for it than of a short one. A field that the sample lacks is found later, by a task
of a table, or its values are rescued.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from siltstone.kafka_client.connection import Security
from siltstone.model.limits import MIB
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random
from siltstone.scanning.rows import unit_rows
from siltstone.scanning.unit import ScanUnit
from siltstone.topic_configs.column_types import ColumnType, canonical
from siltstone.value_formats.decoders.json import payload_of
from siltstone.value_formats.found_columns import fields_of, joined_fields

SAMPLE_RECORDS = 10_000
SAMPLE_BYTES = 16 * MIB
"""The most of a topic that is read before its columns are proposed."""

NEWEST_RECORDS = 2_000
"""A scan samples so many of the newest records, too: a query that is started again finds the fields that came last."""

SAMPLE_PARTS = 32
"""The sample is taken from the beginnings of so many parts of the topic."""


class SampledFields(msgspec.Struct, frozen=True):
    """``fields`` are the types of the fields by name. ``widened`` has a line, by name, for each field with a type that
    takes values of several: ``field ms: double, since it has values of long, too``."""

    fields: dict[str, ColumnType]
    widened: dict[str, str] = {}


def sampled_fields(values: Iterable[bytes | None]) -> SampledFields:
    """Returns the fields of JSON objects, and their types. A value that is no object has none."""
    fields: dict[str, ColumnType] = {}
    plain: dict[str, set[str]] = {}
    seen: set[tuple[tuple[str, ColumnType], ...]] = set()
    for value in values:
        if value is None:
            continue
        try:
            found = fields_of(msgspec.json.decode(payload_of(value)))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue  # it will be a dead letter, or rescued
        if (types := tuple(found.items())) in seen:  # nearly always, and what follows would change nothing
            continue
        seen.add(types)
        for name, each in found.items():
            plain.setdefault(name, set()).add(each.kind)
        fields = joined_fields(fields, found)
    return SampledFields(fields, dict(_widened(fields, plain)))


def _widened(fields: dict[str, ColumnType], kinds: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    for name, each in fields.items():
        if others := sorted(kinds[name] - {each.kind}):
            yield name, f"field {name}: {canonical(each)}, since it has values of {' and '.join(others)}, too"


def sampled_values(
    units: Sequence[ScanUnit], clock: Clock, rng: Random, security: Security | None
) -> Iterator[bytes | None]:
    """Yields the first values of parts that are spread over all units; the units read the column ``value`` alone.
    Raises what ``unit_rows`` raises."""
    parts = [part for unit in units for part in _parts_of(unit)]
    chosen = parts[:: max(1, -(-len(parts) // SAMPLE_PARTS))]
    for part in chosen:
        left, left_bytes = SAMPLE_RECORDS // len(chosen), SAMPLE_BYTES // len(chosen)
        for value in _values_of(part, clock, rng, security):
            if value is not None:
                yield value
                left_bytes -= len(value)
            left -= 1
            if left <= 0 or left_bytes <= 0:
                break


def _parts_of(unit: ScanUnit) -> Iterator[ScanUnit]:
    """Yields the unit in its pieces: one unit has all partitions of a small topic, and their types may differ."""
    for piece in unit.pieces:
        yield msgspec.structs.replace(unit, pieces=(piece,), tail_pieces=())
    for tail in unit.tail_pieces:
        yield msgspec.structs.replace(unit, pieces=(), tail_pieces=(tail,))


def _values_of(
    unit: ScanUnit, clock: Clock, rng: Random, security: Security | None
) -> Iterator[bytes | None]:
    for batch in unit_rows(unit, clock, rng, security=security):
        yield from batch.column(0).to_pylist()
