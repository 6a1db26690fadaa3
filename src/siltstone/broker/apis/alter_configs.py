"""AlterConfigs, the older way: what the request does not name goes back to its default."""

from siltstone.broker.apis.altering_configs import Change, alter, alterable_topic, repeated_resources
from siltstone.broker.context import RequestContext
from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.parts import BrokerParts
from siltstone.kafka_protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.runtime.turns import one_by_one


async def handle_alter_configs(
    parts: BrokerParts, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    repeated = repeated_resources(
        (resource.resource_type, resource.resource_name) for resource in request.resources
    )
    responses = await one_by_one(
        lambda resource: _response(parts, resource, repeated, request.validate_only), request.resources
    )
    return AlterConfigsResponse(responses=responses)


async def _response(
    parts: BrokerParts, resource: AlterConfigsResource, repeated: set[tuple[int, str]], validate_only: bool
) -> AlterConfigsResourceResponse:
    code, message = 0, None
    try:
        await alter(parts, lambda: _change(parts, resource, repeated), validate_only=validate_only)
    except SiltstoneError as failure:
        code, message = error_code(failure), error_message(failure)
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _change(parts: BrokerParts, resource: AlterConfigsResource, repeated: set[tuple[int, str]]) -> Change:
    """Raises why nothing can be altered."""
    named = (resource.resource_type, resource.resource_name)
    topic = alterable_topic(parts, named, repeated, [config.name for config in resource.configs])
    if nulls := [config.name for config in resource.configs if config.value is None]:
        raise InvalidRequest(f"Null value not supported for : {', '.join(nulls)}")
    put = {config.name: config.value for config in resource.configs if config.value is not None}
    return Change(topic=topic, put=put, replace=True)
