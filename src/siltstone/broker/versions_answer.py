"""The answer to ApiVersions (items 1, 2 and 10), which is the same before and after a login, and for every client.

A request names the client's software from version 3 on, which the connection notes. A version that is not supported is
answered before the request is decoded: ``broker.broker`` and ``broker.security.authenticator``.
"""

import re

from siltstone.broker.request import EncodedBody, RequestContext
from siltstone.kafka_protocol.announced import FEATURE_LEVELS, api_versions_body
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from siltstone.metadata.features import final_level
from siltstone.metadata.image import ImageView

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
SOFTWARE_VERSION = 3
"""From this version on a request names the client's software."""


def versions_answer(
    context: RequestContext, request: ApiVersionsRequest, image: ImageView
) -> EncodedBody | ApiVersionsResponse:
    """Returns the list of all APIs, and the features that all nodes have by the image; or code 42 for a name of
    software that is not allowed."""
    if context.api_version >= SOFTWARE_VERSION:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.connection.client_software_name = name
        context.connection.client_software_version = version
    levels = tuple(final_level(image, name) for name in FEATURE_LEVELS)
    return EncodedBody(api_versions_body(context.api_version, levels))
