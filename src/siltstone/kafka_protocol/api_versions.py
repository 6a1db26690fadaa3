"""The answers to a connection's first question, as bytes made once per version.

Read next: ``announced``, the table they are made from.
"""

from functools import cache

from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.codec import encode
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.api_versions import ApiVersion, ApiVersionsResponse


@cache
def api_versions_body(version: int) -> bytes:
    """The body for a client that asks in a version we speak. Raises UnknownVersion."""
    return encode(ApiVersionsResponse(api_keys=[_row(key) for key in ANNOUNCED]), version)


@cache
def unsupported_version_body() -> bytes:
    """The body for a client that asks in a later version: in version 0, which everybody reads, and with the one row
    that says in which version to ask again."""
    rows = [_row(ApiKey.API_VERSIONS)]
    return encode(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=rows), 0)


def _row(key: ApiKey) -> ApiVersion:
    lowest, highest = ANNOUNCED[key]
    return ApiVersion(api_key=key, min_version=lowest, max_version=highest)
