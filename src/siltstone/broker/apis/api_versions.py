"""ApiVersions: what this broker speaks. The first request of almost every connection; items 1, 2 and 10.

No features are announced: they stand for groups of the new protocol, transactions and share groups, of which there are
none. The header of the answer is the oldest whatever the version (``kafka_protocol.headers``).
"""

import re

from siltstone.broker.context import RequestContext
from siltstone.broker.parts import BrokerParts
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.codec import encode
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
SOFTWARE_VERSION = 3
"""From here on clients say what they are."""


def _row(api_key: ApiKey) -> ApiVersion:
    lowest, highest = ANNOUNCED[api_key]
    return ApiVersion(api_key=api_key, min_version=lowest, max_version=highest)


_ANSWER = ApiVersionsResponse(api_keys=[_row(api_key) for api_key in sorted(ANNOUNCED)])
_UNSUPPORTED = ApiVersionsResponse(
    error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_row(ApiKey.API_VERSIONS)]
)
_INVALID = ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)


async def handle_api_versions(
    parts: BrokerParts, context: RequestContext, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    if context.api_version >= SOFTWARE_VERSION:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return _INVALID
        context.connection.client_software_name = name
        context.connection.client_software_version = version
    return _ANSWER


def unsupported_version_body() -> bytes:
    """Item 1: for a version that cannot be read; in version 0, which every client reads, with the versions it may
    ask in."""
    return encode(_UNSUPPORTED, 0)
