"""ApiVersions: the APIs and versions that the broker supports; the first request of a connection.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import Int16, Int32, Int64, Message, Structure, Tag, Versions


class ApiVersionsRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.API_VERSIONS
    versions: ClassVar[tuple[int, int]] = (0, 4)
    flexible_since: ClassVar[int | None] = 3

    client_software_name: Annotated[str, Versions(3)] = ""
    client_software_version: Annotated[str, Versions(3)] = ""


class ApiVersion(Structure, frozen=True, kw_only=True):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Structure, frozen=True, kw_only=True):
    name: str = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class FinalizedFeatureKey(Structure, frozen=True, kw_only=True):
    name: str = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


class ApiVersionsResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.API_VERSIONS
    versions: ClassVar[tuple[int, int]] = (0, 4)
    flexible_since: ClassVar[int | None] = 3

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = []
    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    supported_features: Annotated[list[SupportedFeatureKey], Versions(3), Tag(0)] = []
    finalized_features_epoch: Annotated[Int64, Versions(3), Tag(1)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], Versions(3), Tag(2)] = []
    zk_migration_ready: Annotated[bool, Versions(3), Tag(3)] = False
