"""The offsets at which the leader epochs of a partition ended (KIP-101, KIP-279). Pure.

The leader epoch of a partition is the epoch of its data stream. The metadata records which epoch appended which
offsets, so the broker stores nothing for this.
"""

from collections.abc import Sequence

import msgspec

from siltstone.metadata.entities import OwnerRange

UNKNOWN_EPOCH = -1
UNKNOWN_OFFSET = -1


class EpochEnd(msgspec.Struct, frozen=True):
    """Where an epoch ended; epoch -1 and offset -1 when that is not known."""

    leader_epoch: int
    end_offset: int


def epoch_end(
    ranges: Sequence[OwnerRange], current_epoch: int, end_offset: int, asked_epoch: int
) -> EpochEnd:
    """Returns the end of the newest epoch that is not above ``asked_epoch``. The current epoch ends at ``end_offset``.

    An epoch that is older than all known epochs ends where the oldest known one begins, as in Apache Kafka.
    """
    if asked_epoch == current_epoch:
        return EpochEnd(current_epoch, end_offset)
    if asked_epoch > current_epoch or asked_epoch < 0:
        return EpochEnd(UNKNOWN_EPOCH, UNKNOWN_OFFSET)
    starts = _starts(ranges, current_epoch, end_offset)
    newer = [(epoch, start) for epoch, start in starts if epoch > asked_epoch]
    known = [epoch for epoch, _ in starts if epoch <= asked_epoch]
    return EpochEnd(known[-1] if known else asked_epoch, newer[0][1])


def epoch_of(ranges: Sequence[OwnerRange], current_epoch: int, end_offset: int, offset: int) -> int:
    """Returns the epoch under which the record at ``offset`` was appended."""
    starts = _starts(ranges, current_epoch, end_offset)
    return next((epoch for epoch, start in reversed(starts) if start <= offset), starts[0][0])


def _starts(ranges: Sequence[OwnerRange], current_epoch: int, end_offset: int) -> list[tuple[int, int]]:
    """(epoch, first offset) of all epochs with records, oldest first, and of the current epoch."""
    starts = [(held.stream_epoch, held.start_offset) for held in ranges if held.stream_epoch < current_epoch]
    current = [held.start_offset for held in ranges if held.stream_epoch == current_epoch]
    return [*starts, (current_epoch, current[0] if current else end_offset)]
