"""DescribeShareGroupOffsets: where share groups begin in partitions.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import (
    NO_UUID,
    Int16,
    Int32,
    Int64,
    Message,
    Structure,
    Tag,
    Uuid,
    Versions,
)


class DescribeShareGroupOffsetsRequestTopic(Structure, frozen=True, kw_only=True):
    topic_name: str = ""
    partitions: list[Int32] = []


class DescribeShareGroupOffsetsRequestGroup(Structure, frozen=True, kw_only=True):
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = []


class DescribeShareGroupOffsetsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
    versions: ClassVar[tuple[int, int]] = (0, 1)
    flexible_since: ClassVar[int | None] = 0

    groups: list[DescribeShareGroupOffsetsRequestGroup] = []


class DescribeShareGroupOffsetsResponsePartition(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Annotated[Int64, Versions(1)] = -1
    error_code: Int16 = 0
    error_message: str | None = None
    acquired: Annotated[Int64, Tag(10000)] = -1
    available: Annotated[Int64, Tag(10001)] = -1
    acknowledged: Annotated[Int64, Tag(10002)] = -1
    archived: Annotated[Int64, Tag(10003)] = -1
    deliveries_max: Annotated[Int64, Tag(10004)] = -1


class DescribeShareGroupOffsetsResponseTopic(Structure, frozen=True, kw_only=True):
    topic_name: str = ""
    topic_id: Uuid = NO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = []


class DescribeShareGroupOffsetsResponseGroup(Structure, frozen=True, kw_only=True):
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = []
    error_code: Int16 = 0
    error_message: str | None = None


class DescribeShareGroupOffsetsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
    versions: ClassVar[tuple[int, int]] = (0, 1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = []
