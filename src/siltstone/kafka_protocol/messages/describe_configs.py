"""DescribeConfigs: the configurations of topics and brokers, and the source of each value.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int8, Int16, Int32, Message, Structure, Versions


class DescribeConfigsResource(Structure, frozen=True, kw_only=True):
    resource_type: Int8 = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = []


class DescribeConfigsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_CONFIGS
    versions: ClassVar[tuple[int, int]] = (1, 4)
    flexible_since: ClassVar[int | None] = 4

    resources: list[DescribeConfigsResource] = []
    include_synonyms: bool = False
    include_documentation: Annotated[bool, Versions(3)] = False


class DescribeConfigsSynonym(Structure, frozen=True, kw_only=True):
    name: str = ""
    value: str | None = ""
    source: Int8 = 0


class DescribeConfigsResourceResult(Structure, frozen=True, kw_only=True):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = []
    config_type: Annotated[Int8, Versions(3)] = 0
    documentation: Annotated[str | None, Versions(3)] = ""


class DescribeConfigsResult(Structure, frozen=True, kw_only=True):
    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = []


class DescribeConfigsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_CONFIGS
    versions: ClassVar[tuple[int, int]] = (1, 4)
    flexible_since: ClassVar[int | None] = 4

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = []
