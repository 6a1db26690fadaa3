"""IncrementalAlterConfigs: what the request does not name stays as it is; lists can grow and shrink."""

from enum import IntEnum

from siltstone.broker.apis.altering_configs import Change, alter, alterable_topic, repeated_resources
from siltstone.broker.context import RequestContext
from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.parts import BrokerParts
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from siltstone.kafka_protocol.notation import TEXT_BYTES_MAX
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.runtime.turns import one_by_one
from siltstone.topic_configs.rows import TABLE
from siltstone.topic_configs.values import ConfigType, InvalidTopicConfig, written


class Operation(IntEnum):
    """With the protocol's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


async def handle_incremental_alter_configs(
    parts: BrokerParts, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    repeated = repeated_resources(
        (resource.resource_type, resource.resource_name) for resource in request.resources
    )
    responses = await one_by_one(
        lambda resource: _response(parts, resource, repeated, request.validate_only), request.resources
    )
    return IncrementalAlterConfigsResponse(responses=responses)


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
    put: dict[str, str] = {}
    remove: list[str] = []
    for config in resource.configs:
        if config.config_operation == Operation.DELETE:
            remove.append(config.name)
        else:
            put[config.name] = _new_value(parts, topic, config)
    return Change(topic=topic, put=put, remove=tuple(remove))


def _new_value(parts: BrokerParts, topic: Topic, config: AlterableConfig) -> str:
    if config.value is None:
        raise InvalidRequest(f"Null value not supported for : {config.name}")
    if config.config_operation == Operation.SET:
        return config.value
    if config.config_operation not in (Operation.APPEND, Operation.SUBTRACT):
        raise InvalidRequest(f"Unknown operations type {config.config_operation}")
    operation = Operation(config.config_operation)
    row = TABLE.get(config.name)
    if row is None or row.kind is not ConfigType.LIST:
        raise InvalidTopicConfig(
            f"Can't {operation.name} to key {config.name[:200]} because its type is not LIST."
        )
    default = parts.topics.defaults.get(row.name, row.default)
    value = _list_after(operation, topic.metadata.configs.get(row.name, default), config.value)
    if len(value.encode()) > TEXT_BYTES_MAX:
        raise InvalidTopicConfig(
            f"{row.name} would have more than {TEXT_BYTES_MAX} bytes, which nobody could read"
        )
    return value


def _list_after(operation: Operation, current: str, value: str) -> str:
    """``current`` is in the one form there is for a list. What stands twice will be read as once."""
    standing = [item for item in current.split(",") if item]
    named = [item.strip() for item in value.split(",")]
    if operation is Operation.APPEND:
        return written((*standing, *named))
    return written(tuple(item for item in standing if item not in named))
