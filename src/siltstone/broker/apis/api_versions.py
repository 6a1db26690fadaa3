"""ApiVersions: the APIs and versions that this broker supports; the first request of almost every connection.

The answer is made in ``broker.versions_answer``, because a connection that is not logged in gets it, too.
"""

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import EncodedBody, RequestContext
from siltstone.broker.versions_answer import versions_answer
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


async def handle_api_versions(
    parts: BrokerParts, context: RequestContext, request: ApiVersionsRequest
) -> EncodedBody | ApiVersionsResponse:
    return versions_answer(context, request, parts.metadata.image)
