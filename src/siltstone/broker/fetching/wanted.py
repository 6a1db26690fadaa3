"""One partition as a fetch asks for it, and what was found there.

What can be wrong with one partition of a fetch before anything is read (items 13, 19 and 27).
"""

import msgspec

from siltstone.broker.partitions.leader_epochs import UNKNOWN_EPOCH, EpochEnd
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.buffers import Buffer


class WantedPartition(msgspec.Struct, frozen=True):
    """``topic`` is None when there is none of that name or id. Epochs are -1 when the client does not check."""

    topic: Topic | None
    topic_name: str
    topic_id: bytes
    index: int
    fetch_offset: int
    bytes_max: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


class FoundPartition(msgspec.Struct, frozen=True):
    """``batches`` are whole record batches, ``size_bytes`` theirs together. Offsets are -1 where they are not known."""

    wanted: WantedPartition
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    log_start_offset: int = -1
    leader_epoch: int = -1
    batches: tuple[Buffer, ...] = ()
    size_bytes: int = 0
    diverging: EpochEnd | None = None

    @property
    def ends_the_wait(self) -> bool:
        """Something the client has to hear of at once."""
        return self.error is not ErrorCode.NONE or self.diverging is not None


def check_partition(wanted: WantedPartition, partition: Partition) -> FoundPartition:
    """Its state, without batches; or what is wrong.

    Who tells the epoch of what it has read last (KIP-595; replicas do) hears where that epoch ended, if it ended before
    what is asked for.
    """
    epoch = partition.leader_epoch
    error = leader_epoch_error(partition, wanted.current_leader_epoch)
    if error is not ErrorCode.NONE:
        return FoundPartition(wanted, error, leader_epoch=epoch)
    state = (partition.high_watermark, partition.log_start_offset, epoch)
    error = offset_error(partition, wanted.fetch_offset)
    if wanted.last_fetched_epoch < 0 or wanted.fetch_offset < partition.log_start_offset:
        return FoundPartition(wanted, error, *state)
    end = partition.epoch_end(wanted.last_fetched_epoch)
    if end.leader_epoch == UNKNOWN_EPOCH:
        return FoundPartition(wanted, ErrorCode.OFFSET_OUT_OF_RANGE, *state)
    if end.leader_epoch < wanted.last_fetched_epoch or end.end_offset < wanted.fetch_offset:
        return FoundPartition(wanted, ErrorCode.NONE, *state, diverging=end)
    return FoundPartition(wanted, error, *state)


def leader_epoch_error(partition: Partition, current_leader_epoch: int) -> ErrorCode:
    """What the client believes of the leader epoch; -1: it does not check."""
    if current_leader_epoch < 0 or current_leader_epoch == partition.leader_epoch:
        return ErrorCode.NONE
    if current_leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def offset_error(partition: Partition, offset: int) -> ErrorCode:
    """The log's end is within range: nothing there, yet."""
    if partition.log_start_offset <= offset <= partition.high_watermark:
        return ErrorCode.NONE
    return ErrorCode.OFFSET_OUT_OF_RANGE
