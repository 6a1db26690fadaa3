"""One partition of a fetch: what the client wants of it, what was found, and what is checked before anything is read
(items 13, 19 and 27)."""

import msgspec

from siltstone.broker.error_codes import error_code
from siltstone.broker.partitions.leader_epochs import UNKNOWN_EPOCH, EpochEnd
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.buffers import Buffer
from siltstone.model.errors import SiltstoneError
from siltstone.object_formats.partition_snapshot import AbortedTransaction


class WantedPartition(msgspec.Struct, frozen=True):
    """``topic`` is None when no topic has the name or id. Epochs are -1 when the client leaves them unchecked.
    ``reads_committed``: only records below the last stable offset are wanted."""

    topic: Topic | None
    topic_name: str
    topic_id: bytes
    index: int
    fetch_offset: int
    bytes_max: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int
    reads_committed: bool = False


class FoundPartition(msgspec.Struct, frozen=True):
    """``batches`` are whole record batches and ``size_bytes`` is their size together. ``aborted`` are the aborted
    transactions among them. Unknown offsets are -1."""

    wanted: WantedPartition
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    log_start_offset: int = -1
    leader_epoch: int = -1
    batches: tuple[Buffer, ...] = ()
    size_bytes: int = 0
    diverging: EpochEnd | None = None
    last_stable_offset: int = -1
    aborted: tuple[AbortedTransaction, ...] = ()

    @property
    def end_offset(self) -> int:
        """The end of what the client may read."""
        return self.last_stable_offset if self.wanted.reads_committed else self.high_watermark

    @property
    def ends_the_wait(self) -> bool:
        """Whether the row has an error or a diverging epoch, which the client has to learn at once."""
        return self.error is not ErrorCode.NONE or self.diverging is not None


def check_partition(wanted: WantedPartition, partition: Partition) -> FoundPartition:
    """Returns a row with the partition's offsets and without batches, or with an error.

    A client may send the leader epoch of the last record that it has read (KIP-595; replicas do). If that epoch ended
    before the offset that is asked for, the row says where (``diverging``).
    """
    epoch = partition.leader_epoch
    error = leader_epoch_error(epoch, wanted.current_leader_epoch)
    if error is not ErrorCode.NONE:
        return FoundPartition(wanted, error, leader_epoch=epoch)
    error, diverging = offset_error(partition, wanted.fetch_offset), None
    if wanted.last_fetched_epoch >= 0 and wanted.fetch_offset >= partition.log_start_offset:
        end = partition.epoch_end(wanted.last_fetched_epoch)
        if end.leader_epoch == UNKNOWN_EPOCH:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        elif end.leader_epoch < wanted.last_fetched_epoch or end.end_offset < wanted.fetch_offset:
            error, diverging = ErrorCode.NONE, end
    return FoundPartition(
        wanted,
        error,
        partition.high_watermark,
        partition.log_start_offset,
        epoch,
        diverging=diverging,
        last_stable_offset=partition.last_stable_offset,
    )


def leader_epoch_error(leader_epoch: int, current_leader_epoch: int) -> ErrorCode:
    """Compares the leader epoch that the client believes to be current with the real one. -1 is not checked."""
    if current_leader_epoch < 0 or current_leader_epoch == leader_epoch:
        return ErrorCode.NONE
    if current_leader_epoch < leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def opening_error(failure: SiltstoneError, leader_epoch: int, current_leader_epoch: int) -> ErrorCode:
    """Returns the error of a partition that could not be opened. Of a partition that another node leads, the client's
    epoch is judged first [Kafka: Partition.checkCurrentLeaderEpoch]."""
    error = error_code(failure)
    if error is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return error
    of_epoch = leader_epoch_error(leader_epoch, current_leader_epoch)
    return error if of_epoch is ErrorCode.NONE else of_epoch


def offset_error(partition: Partition, offset: int) -> ErrorCode:
    """The high watermark is in range: no record has that offset yet."""
    if partition.log_start_offset <= offset <= partition.high_watermark:
        return ErrorCode.NONE
    return ErrorCode.OFFSET_OUT_OF_RANGE
