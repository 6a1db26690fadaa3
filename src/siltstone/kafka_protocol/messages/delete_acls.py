"""DeleteAcls: delete the access control lists that match filters.

Written by tools/kafka-messages.
"""

from typing import ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int8, Int16, Int32, Message, Structure


class DeleteAclsFilter(Structure, frozen=True, kw_only=True):
    resource_type_filter: Int8 = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: Int8 = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DELETE_ACLS
    versions: ClassVar[tuple[int, int]] = (1, 3)
    flexible_since: ClassVar[int | None] = 2

    filters: list[DeleteAclsFilter] = []


class DeleteAclsMatchingAcl(Structure, frozen=True, kw_only=True):
    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsFilterResult(Structure, frozen=True, kw_only=True):
    error_code: Int16 = 0
    error_message: str | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = []


class DeleteAclsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.DELETE_ACLS
    versions: ClassVar[tuple[int, int]] = (1, 3)
    flexible_since: ClassVar[int | None] = 2

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = []
