"""ApiVersions: the APIs and versions that this broker supports; the first request of almost every connection (items
1, 2 and 10).

The answer is the same for every client (``kafka_protocol.announced``). ``broker`` answers a request in a version that
is not supported before it reaches this handler.
"""

import re

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import EncodedBody, RequestContext
from siltstone.kafka_protocol.announced import api_versions_body
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
SOFTWARE_VERSION = 3
"""From this version on a request names the client's software."""


async def handle_api_versions(
    parts: BrokerParts, context: RequestContext, request: ApiVersionsRequest
) -> EncodedBody | ApiVersionsResponse:
    if context.api_version >= SOFTWARE_VERSION:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.connection.client_software_name = name
        context.connection.client_software_version = version
    return EncodedBody(api_versions_body(context.api_version))
