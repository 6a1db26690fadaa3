"""DescribeLogDirs: the log directories of a broker, and the bytes of each partition in them.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Int64, Message, Structure, Versions


class DescribableLogDirTopic(Structure, frozen=True, kw_only=True):
    topic: str = ""
    partitions: list[Int32] = []


class DescribeLogDirsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_LOG_DIRS
    versions: ClassVar[tuple[int, int]] = (1, 5)
    flexible_since: ClassVar[int | None] = 2

    topics: list[DescribableLogDirTopic] | None = []


class DescribeLogDirsPartition(Structure, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(Structure, frozen=True, kw_only=True):
    name: str = ""
    partitions: list[DescribeLogDirsPartition] = []


class DescribeLogDirsResult(Structure, frozen=True, kw_only=True):
    error_code: Int16 = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = []
    total_bytes: Annotated[Int64, Versions(4)] = -1
    usable_bytes: Annotated[Int64, Versions(4)] = -1
    is_cordoned: Annotated[bool, Versions(5)] = False


class DescribeLogDirsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_LOG_DIRS
    versions: ClassVar[tuple[int, int]] = (1, 5)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Versions(3)] = 0
    results: list[DescribeLogDirsResult] = []
