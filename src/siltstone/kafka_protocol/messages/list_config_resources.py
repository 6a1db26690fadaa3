"""ListConfigResources: the resources that have configurations.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int8, Int16, Int32, Message, Structure, Versions


class ListConfigResourcesRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.LIST_CONFIG_RESOURCES
    versions: ClassVar[tuple[int, int]] = (0, 1)
    flexible_since: ClassVar[int | None] = 0

    resource_types: Annotated[list[Int8], Versions(1)] = []


class ConfigResource(Structure, frozen=True, kw_only=True):
    resource_name: str = ""
    resource_type: Annotated[Int8, Versions(1)] = 16


class ListConfigResourcesResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.LIST_CONFIG_RESOURCES
    versions: ClassVar[tuple[int, int]] = (0, 1)
    flexible_since: ClassVar[int | None] = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = []
