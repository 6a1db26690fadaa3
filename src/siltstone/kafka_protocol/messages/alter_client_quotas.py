"""AlterClientQuotas: set and remove quotas of users, clients and addresses.

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Float64, Int16, Int32, Message, Structure


class QuotaAlterationEntity(Structure, frozen=True, kw_only=True):
    entity_type: str = ""
    entity_name: str | None = ""


class QuotaOperation(Structure, frozen=True, kw_only=True):
    key: str = ""
    value: Float64 = 0
    remove: bool = False


class QuotaAlteration(Structure, frozen=True, kw_only=True):
    entity: list[QuotaAlterationEntity] = []
    ops: list[QuotaOperation] = []


class AlterClientQuotasRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ALTER_CLIENT_QUOTAS
    versions: ClassVar[tuple[int, int]] = (0, 1)
    flexible_since: ClassVar[int | None] = 1

    entries: list[QuotaAlteration] = []
    validate_only: bool = False


class QuotaAlterationResultEntity(Structure, frozen=True, kw_only=True):
    entity_type: str = ""
    entity_name: str | None = ""


class QuotaAlterationResult(Structure, frozen=True, kw_only=True):
    error_code: Int16 = 0
    error_message: str | None = ""
    entity: list[QuotaAlterationResultEntity] = []


class AlterClientQuotasResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.ALTER_CLIENT_QUOTAS
    versions: ClassVar[tuple[int, int]] = (0, 1)
    flexible_since: ClassVar[int | None] = 1

    throttle_time_ms: Int32 = 0
    entries: list[QuotaAlterationResult] = []
