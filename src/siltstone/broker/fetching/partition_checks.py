"""What can be wrong with one partition of a fetch before anything is read (items 13, 19, 27 of kafka-protocol.md)."""

from siltstone.broker.partitions.partition import Partition
from siltstone.kafka_protocol.error_code import ErrorCode


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
