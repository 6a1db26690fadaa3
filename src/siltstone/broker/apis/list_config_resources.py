"""ListConfigResources: what has configurations by name: the topics and this broker. Groups and clients have none
here."""

from siltstone.broker.apis.config_resources import ResourceType
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


async def handle_list_config_resources(
    parts: BrokerParts, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Version 0 asks for the metrics that clients are to push, and nothing else."""
    wanted = set(request.resource_types) or set(ResourceType)
    if context.api_version == 0:
        wanted = {ResourceType.CLIENT_METRICS}
    if not wanted <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    listed: list[ConfigResource] = []
    if ResourceType.TOPIC in wanted:
        listed += (
            ConfigResource(resource_name=topic.name, resource_type=ResourceType.TOPIC)
            for topic in parts.topics.all()
        )
    if ResourceType.BROKER in wanted:
        listed.append(ConfigResource(resource_name=str(parts.node_id), resource_type=ResourceType.BROKER))
    return ListConfigResourcesResponse(config_resources=listed)
