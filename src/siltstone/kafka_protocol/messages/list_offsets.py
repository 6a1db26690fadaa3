"""ListOffsets: the first or last offset of partitions, or the first offset at or after a timestamp.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int8, Int16, Int32, Int64, Message, Structure, Versions


class ListOffsetsPartition(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, Versions(4)] = -1
    timestamp: Int64 = 0


class ListOffsetsTopic(Structure, frozen=True, kw_only=True):
    name: str = ""
    partitions: list[ListOffsetsPartition] = []


class ListOffsetsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS
    versions: ClassVar[tuple[int, int]] = (1, 11)
    flexible_since: ClassVar[int | None] = 6

    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, Versions(2)] = 0
    topics: list[ListOffsetsTopic] = []
    timeout_ms: Annotated[Int32, Versions(10)] = 0


class ListOffsetsPartitionResponse(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, Versions(4)] = -1


class ListOffsetsTopicResponse(Structure, frozen=True, kw_only=True):
    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = []


class ListOffsetsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS
    versions: ClassVar[tuple[int, int]] = (1, 11)
    flexible_since: ClassVar[int | None] = 6

    throttle_time_ms: Annotated[Int32, Versions(2)] = 0
    topics: list[ListOffsetsTopicResponse] = []
