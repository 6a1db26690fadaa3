"""DescribeConfigs: the configuration of topics, of groups and of this broker, and where each value comes from (item
22)."""

from siltstone.broker.apis.broker_entries import BrokerEntry, broker_entries
from siltstone.broker.apis.config_entries import GroupEntry, TopicEntry, group_entries, topic_entries
from siltstone.broker.apis.config_resources import (
    ResourceType,
    check_broker_name,
    check_group_name,
    no_such_resource,
    topic_of,
)
from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.group_configs import key_of_group, stored_configs
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from siltstone.model.errors import SiltstoneError
from siltstone.runtime.turns import in_turns
from siltstone.topic_configs.values import ConfigType


async def handle_describe_configs(
    parts: BrokerParts, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """A resource that is named twice is described once: a description is a hundred times as long as a name."""
    named = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    results = await in_turns(lambda resource: _result(parts, context, request, resource), named.values())
    return DescribeConfigsResponse(results=results)


def _result(
    parts: BrokerParts,
    context: RequestContext,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
) -> DescribeConfigsResult:
    try:
        configs = _configs(parts, context, request, resource)
    except SiltstoneError as failure:
        return DescribeConfigsResult(
            error_code=error_code(failure),
            error_message=error_message(failure),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
    return DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            config
            for config in configs
            if not resource.configuration_keys or config.name in resource.configuration_keys
        ],
    )


def _configs(
    parts: BrokerParts,
    context: RequestContext,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
) -> list[DescribeConfigsResourceResult]:
    """Returns the rows of one resource. Raises InvalidRequest, InvalidTopicName, UnknownTopic."""
    if resource.resource_type == ResourceType.TOPIC:
        stored = topic_of(parts, resource.resource_name).metadata.configs
        return [_of_topic(entry, request) for entry in topic_entries(stored, parts.topics.defaults)]
    if resource.resource_type == ResourceType.BROKER:
        if (
            not resource.resource_name
        ):  # the empty name asks for what was altered for all brokers: nothing can be
            return []
        check_broker_name(parts, resource.resource_name)
        listener = context.connection.listener
        return [_of_broker(entry, request) for entry in broker_entries(parts, listener)]
    if resource.resource_type == ResourceType.GROUP:
        check_group_name(resource.resource_name)
        stored = stored_configs(parts.metadata.image.keys.get(key_of_group(resource.resource_name)))
        return [_of_group(entry, request) for entry in group_entries(stored, parts.groups.settings)]
    raise no_such_resource(resource.resource_type)


def _of_topic(entry: TopicEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = [
        DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
        for synonym in entry.told_synonyms
    ]
    return DescribeConfigsResourceResult(
        name=entry.row.name,
        value=entry.value,
        config_source=entry.source,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=entry.row.kind,
        documentation=entry.row.documentation if request.include_documentation else None,
    )


def _of_group(entry: GroupEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = [
        DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
        for synonym in entry.synonyms
    ]
    return DescribeConfigsResourceResult(
        name=entry.row.name,
        value=entry.synonyms[0].value,
        config_source=entry.synonyms[0].source,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=ConfigType.INT if entry.row.is_number else ConfigType.STRING,
        documentation=entry.row.documentation if request.include_documentation else None,
    )


def _of_broker(entry: BrokerEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    itself = DescribeConfigsSynonym(name=entry.name, value=entry.value, source=entry.source)
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=True,
        config_source=entry.source,
        synonyms=[itself] if request.include_synonyms else [],
        config_type=entry.kind,
        documentation=entry.documentation if request.include_documentation else None,
    )
