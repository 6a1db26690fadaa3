"""One partition as a fetch asks for it, and what was found there."""

import msgspec

from siltstone.broker.partitions.leader_epochs import EpochEnd
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
