"""Plans a scan: one image, the ends that brokers report, offsets by time, and the units that follow from them.

The order matters. First the wanted partitions are settled, so that a mistyped name costs no pin. Then the scan pins the
objects of all later images (SR8), brokers upload tails that are to be flushed, the image is taken, and last brokers are
asked for their ends: every record that they have acknowledged by then is in the image's objects or in the tail.
"""

import logging
import os
import socket
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from siltstone.foundation.quantity_words import counted
from siltstone.metadata.commands import SHARED_PIN, PinScan
from siltstone.metadata.entities import StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.store_id import store_id_of
from siltstone.model.errors import Unavailable
from siltstone.object_store.bucket_identity import refuse_if_marked_by_another
from siltstone.offline.context import MaintenanceContext, check_metadata_is_newest
from siltstone.offline.topic_streams import topic_defaults
from siltstone.record_columns.row_columns import VALUE
from siltstone.scanning.density import dense_range, first_records
from siltstone.scanning.failures import NoRecordAtTime, ScanRefused
from siltstone.scanning.flushing import flush_tails
from siltstone.scanning.planning import (
    Cut,
    ScanPartition,
    cut,
    plan_pieces,
    renewed,
    wanted_partitions,
)
from siltstone.scanning.request import Bound, BoundKind, Bounds, Isolation, ScanRequest, Tail
from siltstone.scanning.rows import unit_rows
from siltstone.scanning.sampling import NEWEST_RECORDS, sampled_values
from siltstone.scanning.settling import found_format
from siltstone.scanning.tail import TailEnds, tail_ends
from siltstone.scanning.times import committed_offset_at
from siltstone.scanning.transactions import AbortedOf, CommittedEnds, aborted_of
from siltstone.scanning.unit import ScanPiece, ScanUnit, TailPiece
from siltstone.scanning.values import settled
from siltstone.topic_configs.table import stored_topic_config
from siltstone.value_formats.settling import SAMPLE_VALUES
from siltstone.value_formats.value_format import ValueFormat

log = logging.getLogger(__name__)


class ScanPlan(msgspec.Struct, frozen=True):
    """A planned scan: each time it is read it gives the same rows. ``version`` is that of the metadata's image;
    ``warnings`` name the parts of the request that were left out. ``rows_max``: the first rows that are enough; 0: all
    are wanted. ``news`` says which columns the plan has found in the values, and which types it has widened."""

    version: int
    planned_ms: int
    lease_until_ms: int
    columns: tuple[str, ...]
    value_format: ValueFormat | None
    cuts: tuple[Cut, ...]
    units: tuple[ScanUnit, ...]
    warnings: tuple[str, ...]
    rows_max: int = 0
    news: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(unit.size_bytes for unit in self.units)

    @property
    def offset_count(self) -> int:
        return sum(each.end_offset - each.start_offset for each in self.cuts)

    @property
    def object_count(self) -> int:
        return len({piece.object_id for unit in self.units for piece in unit.pieces})


def plan_scan(
    source: MaintenanceContext, request: ScanRequest, committed: CommittedEnds | None = None
) -> ScanPlan:
    """Plans the scan on the newest image. ``committed``: of earlier scans of the same source, which have read what is
    committed already. Raises TopicNotThere, ScanRefused, NoRecordAtTime, DataLost, OffsetBeyondEnd,
    TailNotReadable, RangeNotCovered, ScanDamaged, BucketOfAnotherStore, MetadataOlderThanBucket, BucketMissing, and
    what the metadata and the buckets raise."""
    if request.lease_ms and source.metadata.read_only_note:
        log.warning(
            "the store can only be read, so no pin keeps the objects of this scan from garbage collection"
        )
        request = msgspec.structs.replace(request, lease_ms=0)
    wanted = wanted_partitions(source.metadata.refresh(), request)
    return _planned(source, request, wanted, committed or CommittedEnds(source))


def _planned(
    source: MaintenanceContext,
    request: ScanRequest,
    wanted: Sequence[ScanPartition],
    committed: CommittedEnds,
) -> ScanPlan:
    value_format, news = _value_format(source, request, wanted, committed)
    request = msgspec.structs.replace(request, value_format=value_format)
    lease_until_ms = _pin(source, request)
    image = source.metadata.refresh()
    partitions = renewed(image, wanted)
    refuse_others(request.start, partitions, "begin")
    refuse_others(request.end, partitions, "end")
    flushed = frozenset(each.key for each in to_flush(image, partitions, request))
    if flushed:
        image = flush_tails(source, [each for each in partitions if each.key in flushed])
        partitions = renewed(image, partitions)
    asked = [each for each in partitions if each.key not in flushed]
    with tail_ends(
        image, asked, request.tail, source.clock, source.rng, source.security, request.isolation
    ) as ends:
        aborted: AbortedOf = {}
        if request.isolation is Isolation.COMMITTED:
            aborted = committed.limit(image, partitions, ends)
        cuts = [_cut_of(source, image, each, request, ends) for each in partitions]
    if request.rows_max and request.times is None:
        newest = source.metadata.refresh()  # not older than the ends that the owners told
        ranges = {each.key: dense_range(newest, each) for each in partitions}
        cuts = first_records(cuts, request.rows_max, ranges)
    planned = plan_pieces(image, cuts, request)
    unit = ScanUnit(
        _store_id(source, image, planned.units),
        request.columns,
        source.buckets.urls,
        source.clock.now_ms(),
        lease_until_ms,
        times=request.times,
        value_format=request.value_format,
        isolation=request.isolation,
        rows_max=request.rows_max,
    )
    warnings = [*(each.warning for each in cuts if each.warning), *filter(None, [planned.warning])]
    for warning in warnings:
        log.warning("%s", warning)
    _tell_of_tails_left_out(request, partitions)
    tails = [msgspec.structs.replace(unit, tail_pieces=(piece,)) for piece in _tails(cuts, ends)]
    held = [msgspec.structs.replace(unit, pieces=_without(aborted, pieces)) for pieces in planned.units]
    return ScanPlan(
        image.version, unit.planned_ms, lease_until_ms, request.columns, request.value_format, tuple(cuts),
        (*held, *tails), tuple(warnings), request.rows_max, news,
    )  # fmt: skip


def _without(aborted: AbortedOf, pieces: tuple[ScanPiece, ...]) -> tuple[ScanPiece, ...]:
    """Returns the pieces, each with the aborted transactions that its reader leaves out."""
    if not aborted:
        return pieces
    return tuple(msgspec.structs.replace(each, aborted=aborted_of(each, aborted)) for each in pieces)


def to_flush(
    image: MetadataImage, partitions: Sequence[ScanPartition], request: ScanRequest
) -> list[ScanPartition]:
    """Returns the partitions whose tail is uploaded before the scan. With AUTO these are the partitions of compacted
    topics, since no pin holds a tail, and key compaction may remove a record before a task fetches it. A scan without a
    lease may not write, and has no pin either, so it fetches such a tail, too."""
    if request.tail is Tail.FLUSH:
        return list(partitions)
    if request.tail is not Tail.AUTO or not request.lease_ms:
        return []
    defaults = dict(topic_defaults(image))
    return [
        each
        for each in partitions
        if each.stream.state is StreamState.OPENED
        and stored_topic_config(each.topic.configs, defaults).is_compacted
    ]


def _pin(source: MaintenanceContext, request: ScanRequest) -> int:
    """Pins the objects that the metadata names from now on. Returns the end of the lease, in ms since 1970. A pin is an
    entry of the log. An entry in an older copy of the metadata would hide that the copy is older, so the marks in the
    buckets are read first (rule 11)."""
    if not request.lease_ms:
        return 0
    check_metadata_is_newest(source)
    topics = ", ".join(request.topics or request.assigned or [request.pattern or ""])
    holder = f"{socket.gethostname()} process {os.getpid()}: {topics}"
    return source.metadata.execute(PinScan(request.pin_token or SHARED_PIN, request.lease_ms, holder))


def settle_values(source: MaintenanceContext, request: ScanRequest) -> ValueFormat | None:
    """Settles how values are decoded. The fields of JSON values without a schema are inferred from the first values of
    the scan. Raises what ``settled`` raises, and what planning a scan raises."""
    if request.values is None or request.value_format is not None:
        return request.value_format
    wanted = wanted_partitions(source.metadata.refresh(), request)
    return _value_format(source, request, wanted, CommittedEnds(source))[0]


def _value_format(
    source: MaintenanceContext,
    request: ScanRequest,
    wanted: Sequence[ScanPartition],
    committed: CommittedEnds,
) -> tuple[ValueFormat | None, tuple[str, ...]]:
    """Returns the format, and what was found of the columns."""
    if request.values is None or request.value_format is not None:
        return request.value_format, ()
    if request.values.infers:
        topics = ", ".join(sorted({each.topic.name for each in wanted}))
        return found_format(request.values, topics, lambda: _wide_sample(source, request, wanted, committed))
    names = (each.topic.name for each in wanted)
    return settled(request.values, names, lambda: _sample(source, request, wanted, committed)), ()


def _sample(
    source: MaintenanceContext,
    request: ScanRequest,
    wanted: Sequence[ScanPartition],
    committed: CommittedEnds,
) -> Iterator[bytes | None]:
    """Yields the first values of the scan, at most SAMPLE_VALUES."""
    sampling = msgspec.structs.replace(
        request, columns=(VALUE,), lease_ms=0, pin_token="", values=None, rows_max=0
    )
    left = SAMPLE_VALUES
    for unit in _planned(source, sampling, wanted, committed).units:
        for batch in unit_rows(unit, source.clock, source.rng, security=source.security):
            values = batch.column(0)[:left].to_pylist()
            left -= len(values)
            yield from values
            if left <= 0:
                return


def _wide_sample(
    source: MaintenanceContext,
    request: ScanRequest,
    wanted: Sequence[ScanPartition],
    committed: CommittedEnds,
) -> Iterator[bytes | None]:
    """Yields values of many parts of the scan, and then the newest ones, in which new fields are."""
    sampling = msgspec.structs.replace(
        request, columns=(VALUE,), lease_ms=0, pin_token="", values=None, rows_max=0, by_object=False
    )
    plan = _planned(source, sampling, wanted, committed)
    yield from sampled_values(plan.units, source.clock, source.rng, source.security)
    each_newest = NEWEST_RECORDS // max(1, len(plan.cuts))
    newest = {
        each.of.key: Bound(BoundKind.OFFSET, max(each.start_offset, each.end_offset - each_newest))
        for each in plan.cuts
    }
    if any(newest[each.of.key].value > each.start_offset for each in plan.cuts):
        behind = msgspec.structs.replace(sampling, start=Bounds(None, newest))
        units = _planned(source, behind, wanted, committed).units
        yield from sampled_values(units, source.clock, source.rng, source.security)


def refuse_others(bounds: Bounds, partitions: Sequence[ScanPartition], what: str) -> None:
    """Raises ScanRefused if an offset or a time is given for a partition that is not read, such as a misspelt one."""
    wanted = {each.key for each in partitions}
    for topic, number in bounds.named:
        if (topic, number) not in wanted:
            raise ScanRefused(
                f"the request says where the scan is to {what} in {topic}-{number}, which it does not read: name only"
                f" {', '.join(each.name for each in partitions[:5]) or 'partitions that exist'}"
            )


def _cut_of(
    source: MaintenanceContext,
    image: MetadataImage,
    partition: ScanPartition,
    request: ScanRequest,
    ends: TailEnds,
) -> Cut:
    end_offset = ends.end_of(partition)
    start = settled_offset(source, image, partition, request.start, ends, "begin")
    end = settled_offset(source, image, partition, request.end, ends, "end")
    return cut(partition, start, end, end_offset=end_offset, fail_on_data_loss=request.fail_on_data_loss)


def settled_offset(
    source: MaintenanceContext,
    image: MetadataImage,
    partition: ScanPartition,
    bounds: Bounds,
    ends: TailEnds,
    what: str,
) -> int:
    bound = bounds.of(partition.key)
    if bound is None:
        raise ScanRefused(
            f"the request does not say where the scan is to {what} in {partition.name}: name all partitions"
        )
    match bound.kind:
        case BoundKind.EARLIEST:
            return partition.start_offset
        case BoundKind.LATEST:
            return ends.end_of(partition)
        case BoundKind.OFFSET:
            return bound.value
    return _offset_at(source, image, partition, bound, bounds, ends)


def _offset_at(
    source: MaintenanceContext,
    image: MetadataImage,
    partition: ScanPartition,
    bound: Bound,
    bounds: Bounds,
    ends: TailEnds,
) -> int:
    found = committed_offset_at(image, partition, bound.value, source.buckets.copies)
    if found is None:
        found = ends.offset_at(partition, bound.value)
    if found is None and not bounds.no_record_means_end:
        raise NoRecordAtTime(partition.name, bound.value)
    end = ends.end_of(partition)
    return end if found is None else min(found, end)


def _store_id(source: MaintenanceContext, image: MetadataImage, units: Sequence[Sequence[ScanPiece]]) -> str:
    """Returns the store's id. Objects of another store would have the same names, so the marker of each bucket of the
    plan is read; other buckets may be out of reach."""
    store_id = store_id_of(image) or ""
    if store_id:
        all_pieces = [piece for pieces in units for piece in pieces]
        needed = {piece.bucket_id for piece in all_pieces if not piece.copies}
        for bucket_id in sorted({each for piece in all_pieces for each in piece.bucket_ids}):
            try:
                refuse_if_marked_by_another(source.buckets.store(bucket_id), store_id, bucket_id)
            except Unavailable:
                if bucket_id in needed:
                    raise
    return store_id


def _tails(cuts: Iterable[Cut], ends: TailEnds) -> Iterator[TailPiece]:
    for each in cuts:
        if each.has_tail:
            yield ends.piece(each.of, each.committed_end, each.end_offset)


def _tell_of_tails_left_out(request: ScanRequest, partitions: Sequence[ScanPartition]) -> None:
    if request.tail is not Tail.COMMITTED:
        return
    if opened := [each.name for each in partitions if each.stream.state is StreamState.OPENED]:
        log.info(
            "%s may have records that are in no object yet, which are not read (tail=committed): %s",
            counted(len(opened), "partition"),
            ", ".join(opened[:5]),
        )
