"""The fate of a record that a recovery reads in a write-ahead log: replayed, dropped, or refused (rule 13). Pure.

A record is dropped only when the metadata proves that it needs no replay: its stream was deleted, its offsets were
trimmed, or they were committed by the node and under the stream epoch that appended the record, as the owner ranges of
the stream say. That a stream is not open proves nothing: metadata that lost its newest entries lacks openings, too.
docs/decisions/0042-records-that-fit-nowhere.md has the table with its reasons. Next: ``recovery``.
"""

from enum import Enum

from siltstone.metadata.entities import StreamMetadata, StreamState
from siltstone.model.record_batch import RecordBatch


class Fate(Enum):
    """REPLAYED, three ways to be dropped, and four to be refused."""

    REPLAYED = "it continues its stream"
    COMMITTED = "it is committed, or was replayed a moment ago"
    TRIMMED = "it is below the start of its stream"
    DELETED = "its stream was deleted"
    NEVER_CREATED = "the metadata has not created its stream"
    NEVER_OPENED = "the metadata has not opened its stream under the record's epoch"
    AFTER_A_HOLE = "the record before it is missing"
    UNPROVED = "nothing proves that it was committed"

    @property
    def is_refused(self) -> bool:
        return self in (Fate.NEVER_CREATED, Fate.NEVER_OPENED, Fate.AFTER_A_HOLE, Fate.UNPROVED)


def fate_of(
    record: RecordBatch, stream: StreamMetadata | None, next_stream_id: int, node_id: int, end_offset: int
) -> Fate:
    """Returns the fate of a record in the log of ``node_id``.

    ``stream``: what the metadata has under the record's stream id, None when nothing; ids from ``next_stream_id`` on
    were never given out. ``end_offset``: the end of the stream with what was replayed before this record."""
    if record.stream_id >= next_stream_id:
        return Fate.NEVER_CREATED
    if stream is None or stream.state is StreamState.DELETED:
        return Fate.DELETED
    if record.stream_epoch > stream.epoch:
        return Fate.NEVER_OPENED
    if record.end_offset <= stream.start_offset:
        return Fate.TRIMMED
    return _fate_above_the_start(record, stream, node_id, end_offset)


def _fate_above_the_start(record: RecordBatch, stream: StreamMetadata, node_id: int, end_offset: int) -> Fate:
    is_open_here = stream.state is StreamState.OPENED and stream.owner == node_id
    continues = is_open_here and record.stream_epoch == stream.epoch
    if _is_committed(record, stream, node_id, end_offset if continues else stream.end_offset):
        return Fate.COMMITTED
    if not continues:
        return Fate.UNPROVED
    first_offset = max(record.base_offset, stream.start_offset)
    if first_offset > end_offset:
        return Fate.AFTER_A_HOLE
    return Fate.REPLAYED if first_offset == end_offset else Fate.UNPROVED


def _is_committed(record: RecordBatch, stream: StreamMetadata, node_id: int, end_offset: int) -> bool:
    """Returns whether the node itself has appended the record's offsets, as far as they are not trimmed, under the
    record's epoch. The last owner range ends at ``end_offset``."""
    first_offset = max(record.base_offset, stream.start_offset)
    for held in stream.owner_ranges:
        held_end = end_offset if held is stream.owner_ranges[-1] else held.end_offset
        is_own = (held.node_id, held.stream_epoch) == (node_id, record.stream_epoch)
        if is_own and held.start_offset <= first_offset and record.end_offset <= held_end:
            return True
    return False
