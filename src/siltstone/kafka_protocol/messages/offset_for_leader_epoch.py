"""OffsetForLeaderEpoch: the end offset of a leader epoch, by which a reader notices that a log was truncated.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Int64, Message, Structure, Versions


class OffsetForLeaderPartition(Structure, frozen=True, kw_only=True):
    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(Structure, frozen=True, kw_only=True):
    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = []


class OffsetForLeaderEpochRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_FOR_LEADER_EPOCH
    versions: ClassVar[tuple[int, int]] = (2, 4)
    flexible_since: ClassVar[int | None] = 4

    replica_id: Annotated[Int32, Versions(3)] = -2
    topics: list[OffsetForLeaderTopic] = []


class EpochEndOffset(Structure, frozen=True, kw_only=True):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Structure, frozen=True, kw_only=True):
    topic: str = ""
    partitions: list[EpochEndOffset] = []


class OffsetForLeaderEpochResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_FOR_LEADER_EPOCH
    versions: ClassVar[tuple[int, int]] = (2, 4)
    flexible_since: ClassVar[int | None] = 4

    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult] = []
