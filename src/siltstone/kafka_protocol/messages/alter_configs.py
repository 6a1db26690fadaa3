"""AlterConfigs: replace all configurations of a topic or broker.

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int8, Int16, Int32, Message, Structure


class AlterableConfig(Structure, frozen=True, kw_only=True):
    name: str = ""
    value: str | None = ""


class AlterConfigsResource(Structure, frozen=True, kw_only=True):
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = []


class AlterConfigsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS
    versions: ClassVar[tuple[int, int]] = (0, 2)
    flexible_since: ClassVar[int | None] = 2

    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


class AlterConfigsResourceResponse(Structure, frozen=True, kw_only=True):
    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""


class AlterConfigsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS
    versions: ClassVar[tuple[int, int]] = (0, 2)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = []
