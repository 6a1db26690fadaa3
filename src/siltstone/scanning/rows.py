"""The rows of a scan unit as Arrow record batches: what a task of Spark, or ``siltstone.scan``, iterates over.

A record outside the wanted offsets is left out here: a block that two units share is read by both, and each of its
records is a row of one.
"""

import logging
from collections.abc import Iterator
from typing import Any

import msgspec

from siltstone.kafka_client.connection import Security
from siltstone.model.errors import CorruptData, InvalidRequest
from siltstone.model.limits import MIB, READ_REQUEST_BYTES_MAX
from siltstone.record_columns.arrow import OnFarTime, RecordRows
from siltstone.record_columns.batches import BAD_BATCH, BlockPlace, batches_of_block
from siltstone.record_columns.kernels.choosing import best_kernels
from siltstone.record_columns.kernels.columns import read_only
from siltstone.record_columns.row_columns import VALUE
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.randomness import Random, system_randomness
from siltstone.scanning.failures import ScanDamaged
from siltstone.scanning.found_values import FoundValueColumns
from siltstone.scanning.reading import UnitBlocks
from siltstone.scanning.tail import TailReader
from siltstone.scanning.transactions import are_aborted
from siltstone.scanning.unit import ScanUnit
from siltstone.scanning.values import BadValueCount, ValueColumn
from siltstone.value_formats.value_format import BadValues

log = logging.getLogger(__name__)

FEW_BYTES_MAX = 1 * MIB
"""The size of the requests of a reader that wants only the first rows: a block, or two of them."""


def unit_rows(
    unit: ScanUnit,
    clock: Clock | None = None,
    rng: Random | None = None,
    bad_values: BadValueCount | None = None,
    on_far_time: OnFarTime | None = None,
    security: Security | None = None,
    request_bytes_max: int = READ_REQUEST_BYTES_MAX,
) -> Iterator[Any]:
    """Yields the rows of the unit as pyarrow.RecordBatch, in the order of its pieces. Values that are read as null
    because they cannot be decoded are counted in ``bad_values`` and logged. A time that microseconds cannot hold is
    null if ``on_far_time`` is given; where bad values are null it is null, too, and counted as one. ``security`` is
    that of ``Cluster``, for records that are in no object yet. Raises
    ScanOutdated, ScanDamaged, TailNotReadable, DataLost, BadValueFound, TimestampNotInRange, RegistryNotReachable,
    ArrowMissing, and what the stores raise."""
    clock, rng = clock or SystemClock(), rng or system_randomness()
    if unit.rows_max:
        whole = msgspec.structs.replace(unit, rows_max=0)
        batches = unit_rows(whole, clock, rng, bad_values, on_far_time, security, FEW_BYTES_MAX)
        yield from _first(batches, unit.rows_max)
        return
    if unit.value_format is None or VALUE not in unit.columns:
        for _, batch in _rows(unit, unit.columns, clock, rng, on_far_time, security, request_bytes_max):
            yield batch
        return
    tally = BadValueCount()
    makes = ValueColumn if unit.value_format.found is None else FoundValueColumns
    values = makes(unit.columns, unit.value_format, tally)
    if on_far_time is None and unit.value_format.on_bad is not BadValues.FAIL:
        on_far_time = tally.add_far_time
    for partition, batch in _rows(
        unit, values.read_columns, clock, rng, on_far_time, security, request_bytes_max
    ):
        yield values.decoded(batch, partition)
    if tally.count:
        log.warning("%s", tally)
        if bad_values is not None:
            bad_values.add(tally.count, tally.first)


def _first(batches: Iterator[Any], rows_max: int) -> Iterator[Any]:
    """Yields the first rows and reads no more."""
    left = rows_max
    for batch in batches:
        yield batch[:left]
        left -= min(left, batch.num_rows)
        if not left:
            return


def _rows(
    unit: ScanUnit,
    columns: tuple[str, ...],
    clock: Clock,
    rng: Random,
    on_far_time: OnFarTime | None,
    security: Security | None,
    request_bytes_max: int,
) -> Iterator[tuple[str, Any]]:
    """(partition, record batch) of the unit."""
    makers: dict[tuple[str, int], RecordRows] = {}
    times = (None, None) if unit.times is None else (unit.times.from_ms, unit.times.until_ms)

    def maker_of(topic: str, partition: int) -> RecordRows:
        made = makers.get((topic, partition))
        if made is None:
            made = RecordRows(topic, partition, columns, best_kernels(), times, on_far_time)
            makers[topic, partition] = made
        return made

    for piece, entry, block in UnitBlocks(unit, clock, request_bytes_max).read():
        where = BlockPlace(piece.object_id, entry.position)
        try:
            batches = batches_of_block(read_only(block), piece.stream_id, where, best_kernels())
            maker = maker_of(piece.topic, piece.partition)
            left_out = are_aborted(batches, piece.aborted)
            for rows in maker.rows(batches, piece.start_offset, piece.end_offset, left_out):
                yield piece.name, rows
        except BAD_BATCH as damage:
            raise _damaged(piece.name, max(entry.start_offset, piece.start_offset), damage) from damage
    for tail in unit.tail_pieces:
        with TailReader(tail, clock, rng, security, unit.isolation) as reader:
            for batches, aborted in reader.read(best_kernels()):
                try:
                    maker = maker_of(tail.topic, tail.partition)
                    left_out = are_aborted(batches, aborted)
                    for rows in maker.rows(batches, tail.start_offset, tail.end_offset, left_out):
                        yield tail.name, rows
                except BAD_BATCH as damage:
                    raise _damaged(tail.name, tail.start_offset, damage) from damage


def _damaged(partition: str, offset: int, damage: CorruptData | InvalidRequest) -> ScanDamaged:
    return ScanDamaged(partition, offset, damage)
