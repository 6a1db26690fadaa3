"""Which records of a partition are committed, for a reader that has the objects and no broker.

The leader of a partition writes snapshots into its meta stream. A snapshot names the open and the aborted transactions
below an offset. The headers of the batches from there on say the rest: at most
``PARTITION_SNAPSHOT_BYTES`` and what one upload holds are read for it. A partition to which no transaction has ever
written costs nothing: the metadata says so (decision record 46).

A transaction that is open where the objects end may have its marker in the tail. Then the broker that has the tail
says how it ended.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from siltstone.kafka_protocol.batch_errors import MalformedRecords
from siltstone.kafka_protocol.records.control import Outcome, read_control_batch
from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata.image import ImageView, MetadataImage
from siltstone.model.buffers import Buffer
from siltstone.model.errors import CorruptData
from siltstone.object_formats.aborted_page import DamagedAbortedPage, decode_aborted_page, is_aborted_page
from siltstone.object_formats.batch_frame import decode_frames
from siltstone.object_formats.partition_snapshot import PartitionSnapshot, decode_snapshot, with_pages
from siltstone.object_formats.share_state import is_share_change
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.topic_streams import PartitionName, transactional_from
from siltstone.offline.transactions import AbortedTransactions, Outcomes
from siltstone.record_columns.batches import BAD_BATCH, Batches, BlockPlace, batches_of_block
from siltstone.record_columns.kernels.choosing import best_kernels
from siltstone.record_columns.kernels.columns import Flags, read_only
from siltstone.scanning.failures import ScanDamaged
from siltstone.scanning.planning import Cut, ScanPartition, pieces_of
from siltstone.scanning.reading import Block, UnitBlocks
from siltstone.scanning.tail import TailEnds
from siltstone.scanning.unit import Aborted, ScanPiece, ScanUnit

AbortedOf = Mapping[PartitionName, AbortedTransactions]
"""The aborted transactions of the partitions that have any."""


def has_transactions(image: ImageView, partition: ScanPartition) -> bool:
    """Returns whether a transaction may have written below the end of the objects, or into a tail behind it."""
    return transactional_from(image, partition.topic.topic_id, partition.partition) is not None


class ObjectTransactions(msgspec.Struct, frozen=True):
    """The transactions of a partition, as its objects show them below ``end_offset``. ``snapshot_offset`` is that of
    the snapshot that was used, 0 if none was."""

    end_offset: int
    outcomes: Outcomes
    snapshot_offset: int = 0


class CommittedEnds:
    """Finds, for the partitions of one store, up to which offset all transactions are decided. What the objects of a
    partition say is kept, and continued when it has more objects."""

    def __init__(self, source: MaintenanceContext) -> None:
        self._source = source
        self._known: dict[int, ObjectTransactions] = {}

    def limit(self, image: MetadataImage, partitions: Sequence[ScanPartition], ends: TailEnds) -> AbortedOf:
        """Ends the partitions in ``ends`` where they are decided; returns their aborted transactions. Raises
        ScanDamaged, TailNotReadable, and what the buckets raise."""
        found: dict[PartitionName, AbortedTransactions] = {}
        for each in partitions:
            if not has_transactions(image, each):
                continue
            outcomes = self.in_objects(image, each).outcomes
            stable = ends.asked_end(each)
            if stable is None:
                undecided = outcomes.first_undecided
                ends.limit(each, each.committed_offset if undecided is None else undecided)
            else:
                ends.limit(each, stable)
                outcomes = _with_markers_of_tail(each, outcomes, stable, ends)
            found[each.key] = outcomes.aborted()
        return found

    def undecided(self, image: MetadataImage, topics: Iterable[TopicMetadata]) -> dict[PartitionName, int]:
        """Returns, for the partitions whose objects end with transactions that are not decided, the first offset of
        these transactions. Raises ScanDamaged, and what the buckets raise."""
        found: dict[PartitionName, int] = {}
        for topic in topics:
            for number, each in enumerate(topic.partitions):
                partition = ScanPartition(topic, number, image.streams[each.data_stream_id])
                first = self.in_objects(image, partition).outcomes.first_undecided
                if first is not None:
                    found[partition.key] = first
        return found

    def in_objects(self, image: MetadataImage, partition: ScanPartition) -> ObjectTransactions:
        """Returns the transactions below the end of the partition's objects. Raises ScanDamaged, and what the buckets
        raise."""
        stream_id, start, end = partition.stream.stream_id, partition.start_offset, partition.committed_offset
        # What was counted in part, because a read failed, is not kept.
        known = self._known.pop(stream_id, None)
        if known is not None and start <= known.end_offset <= end:
            _count_all(self._source, image, partition, known.end_offset, known.outcomes)
            known = ObjectTransactions(end, known.outcomes, known.snapshot_offset)
        else:
            known = _read(self._source, image, partition)
        self._known[stream_id] = known
        return known


def _with_markers_of_tail(
    partition: ScanPartition, outcomes: Outcomes, stable: int, ends: TailEnds
) -> Outcomes:
    """Below ``stable`` all is decided: a transaction that is open in the objects has its marker in the tail."""
    decided = Outcomes(outcomes.opened, outcomes.aborted())
    for producer_id, first_offset in outcomes.opened.items():
        if first_offset < stable:
            is_aborted = ends.is_aborted(partition, producer_id, first_offset)
            outcome = Outcome.ABORT if is_aborted else Outcome.COMMIT
            decided.marker(producer_id, partition.committed_offset, outcome)
    return decided


# -- what the objects say --------------------------------------------------------------------------------------


def _read(source: MaintenanceContext, image: MetadataImage, partition: ScanPartition) -> ObjectTransactions:
    first = transactional_from(image, partition.topic.topic_id, partition.partition)
    start, end = max(partition.start_offset, first or 0), partition.committed_offset
    if first is None or start >= end:
        return ObjectTransactions(end, Outcomes())
    outcomes, snapshot_offset = Outcomes(), 0
    snapshot = _newest_snapshot(source, image, partition)
    if snapshot is not None and snapshot.next_offset <= end:
        producers = snapshot.body.producers
        outcomes = Outcomes(
            {each.producer_id: each.open_from for each in producers if each.is_open},
            snapshot.body.aborted_transactions(),
        )
        snapshot_offset = snapshot.next_offset
    _count_all(source, image, partition, max(start, snapshot_offset), outcomes)
    return ObjectTransactions(end, outcomes, snapshot_offset)


def _newest_snapshot(
    source: MaintenanceContext, image: MetadataImage, partition: ScanPartition
) -> PartitionSnapshot | None:
    """Returns the newest snapshot with the transactions of its pages. None if no object has one, or the newest cannot
    be read: then all batches say it."""
    meta = image.streams[partition.topic.partitions[partition.partition].meta_stream_id]
    records = ScanPartition(partition.topic, partition.partition, meta)
    try:
        for offset in reversed(range(meta.start_offset, meta.end_offset)):
            payload = _record_at(source, image, records, offset)
            if is_aborted_page(payload) or is_share_change(payload):
                continue
            snapshot = decode_snapshot(payload)
            pages = snapshot.body.pages_from(meta.start_offset)
            named = (_record_at(source, image, records, page.meta_offset) for page in pages)
            return with_pages(snapshot, map(decode_aborted_page, named))
    except CorruptData:
        pass
    return None


def _record_at(source: MaintenanceContext, image: MetadataImage, meta: ScanPartition, offset: int) -> Buffer:
    """Returns a record of a meta stream. Raises CorruptData if no object has it."""
    for _, _, block in _blocks(source, image, Cut(meta, offset, offset + 1)):
        for batch in decode_frames(block):
            if batch.stream_id == meta.stream.stream_id and batch.base_offset == offset:
                return batch.payload
    raise DamagedAbortedPage(f"no object has the record at offset {offset} of stream {meta.stream.stream_id}")


def _blocks(source: MaintenanceContext, image: MetadataImage, cut: Cut) -> Iterator[Block]:
    pieces = tuple(pieces_of(image, cut, None))
    unit = ScanUnit("", (), source.buckets.urls, source.clock.now_ms(), 0, pieces)
    return UnitBlocks(unit, source.clock).read()


def _count_all(
    source: MaintenanceContext, image: MetadataImage, partition: ScanPartition, start: int, outcomes: Outcomes
) -> None:
    """Counts the batches in objects from ``start`` on."""
    cut = Cut(partition, start, partition.committed_offset)
    for piece, entry, block in _blocks(source, image, cut):
        try:
            where = BlockPlace(piece.object_id, entry.position)
            batches = batches_of_block(read_only(block), piece.stream_id, where, best_kernels())
        except BAD_BATCH as damage:
            raise ScanDamaged(piece.name, max(entry.start_offset, piece.start_offset), damage) from damage
        _count(piece, batches, outcomes)


def _count(piece: ScanPiece, batches: Batches, outcomes: Outcomes) -> None:
    """Batches that key compaction has emptied open and end nothing, nor do control batches that are no marker."""
    wanted = batches.are_transactional | batches.are_control
    wanted &= (batches.base_offsets >= piece.start_offset) & (batches.base_offsets < piece.end_offset)
    for row in np.flatnonzero(wanted).tolist():
        producer_id, offset = int(batches.producer_ids[row]), int(batches.base_offsets[row])
        if not batches.are_control[row]:
            outcomes.batch(producer_id, offset)
        elif batches.record_counts[row]:
            try:
                marker = read_control_batch(batches.payload(row))
            except MalformedRecords:
                continue
            outcomes.marker(producer_id, offset, marker.outcome)


# -- what a reader leaves out ----------------------------------------------------------------------------------


def aborted_of(piece: ScanPiece, aborted: AbortedOf) -> tuple[Aborted, ...]:
    """Returns the aborted transactions that may have a batch in the piece."""
    found = aborted.get((piece.topic, piece.partition))
    if found is None:
        return ()
    return tuple(
        (each.producer_id, each.first_offset, each.marker_offset)
        for each in found.between(piece.start_offset, piece.end_offset)
    )


def are_aborted(batches: Batches, aborted: Sequence[Aborted]) -> Flags | None:
    """Marks the batches of aborted transactions; None if there are none."""
    if not aborted:
        return None
    flags: Flags = np.zeros(len(batches), dtype=np.bool_)
    of_transactions = batches.are_transactional & ~batches.are_control
    for producer_id, first_offset, marker_offset in aborted:
        flags |= (
            of_transactions
            & (batches.producer_ids == producer_id)
            & (batches.base_offsets >= first_offset)
            & (batches.base_offsets < marker_offset)
        )
    return flags
