"""CreateAcls: add access control lists.

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int8, Int16, Int32, Message, Structure


class AclCreation(Structure, frozen=True, kw_only=True):
    resource_type: Int8 = 0
    resource_name: str = ""
    resource_pattern_type: Int8 = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.CREATE_ACLS
    versions: ClassVar[tuple[int, int]] = (1, 3)
    flexible_since: ClassVar[int | None] = 2

    creations: list[AclCreation] = []


class AclCreationResult(Structure, frozen=True, kw_only=True):
    error_code: Int16 = 0
    error_message: str | None = ""


class CreateAclsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.CREATE_ACLS
    versions: ClassVar[tuple[int, int]] = (1, 3)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = []
