"""DescribeClientQuotas: the quotas of users, clients and addresses.

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Float64, Int8, Int16, Int32, Message, Structure


class ComponentData(Structure, frozen=True, kw_only=True):
    entity_type: str = ""
    match_type: Int8 = 0
    match: str | None = ""


class DescribeClientQuotasRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLIENT_QUOTAS
    versions: ClassVar[tuple[int, int]] = (0, 1)
    flexible_since: ClassVar[int | None] = 1

    components: list[ComponentData] = []
    strict: bool = False


class EntityData(Structure, frozen=True, kw_only=True):
    entity_type: str = ""
    entity_name: str | None = ""


class ValueData(Structure, frozen=True, kw_only=True):
    key: str = ""
    value: Float64 = 0


class EntryData(Structure, frozen=True, kw_only=True):
    entity: list[EntityData] = []
    values: list[ValueData] = []


class DescribeClientQuotasResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLIENT_QUOTAS
    versions: ClassVar[tuple[int, int]] = (0, 1)
    flexible_since: ClassVar[int | None] = 1

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = []
