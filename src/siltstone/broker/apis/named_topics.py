"""The topics that a request names. Another broker may have created one a moment ago, and a program that starts then may
ask this one. So a broker reads the metadata log before it says that there is no such topic. A group whose leader gets
that answer wrongly has no partitions until its clients refresh their metadata, minutes later.

Produce and Fetch do not use it: their clients ask Metadata first, and again after an answer of a missing topic.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from siltstone.broker.apis.config_resources import ResourceType
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import NO_UUID
from siltstone.model.acls import AclOperation


async def know_named_topics(parts: BrokerParts, context: RequestContext, request: Any) -> None:
    """Returns when this broker knows the topics of the request that other brokers have created, if it can. A topic that
    the client may not describe is not looked for: the time of the answer would tell which topics there are."""
    named = _NAMED.get(context.api_key)
    if named is None or not parts.cluster.has_others:
        return
    for one in named(request):
        known = parts.topics.by_name(one) if isinstance(one, str) else parts.topics.by_id(one)
        if known is None and not (
            isinstance(one, str) and not context.may_topic(AclOperation.DESCRIBE, one, is_named=False)
        ):
            await parts.cluster.refreshed()
            return


def _of_names(request: Any) -> Iterator[str]:
    return (topic.name for topic in request.topics)


def _of_names_or_ids(request: Any) -> Iterator[str | bytes]:
    for topic in request.topics or ():
        if topic.topic_id != NO_UUID:
            yield topic.topic_id
        elif topic.name is not None:
            yield topic.name


def _of_deletion(request: Any) -> Iterator[str | bytes]:
    yield from request.topic_names
    yield from _of_names_or_ids(request)


def _of_configs(request: Any) -> Iterator[str]:
    for resource in request.resources:
        if resource.resource_type == ResourceType.TOPIC:
            yield resource.resource_name


_NAMED: Mapping[int, Callable[[Any], Iterator[str | bytes]]] = {
    ApiKey.LIST_OFFSETS: _of_names,
    ApiKey.METADATA: _of_names_or_ids,
    ApiKey.OFFSET_COMMIT: _of_names_or_ids,
    ApiKey.DELETE_TOPICS: _of_deletion,
    ApiKey.DELETE_RECORDS: _of_names,
    ApiKey.DESCRIBE_CONFIGS: _of_configs,
    ApiKey.ALTER_CONFIGS: _of_configs,
    ApiKey.CREATE_PARTITIONS: _of_names,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _of_configs,
    ApiKey.OFFSET_DELETE: _of_names,
    ApiKey.DESCRIBE_PRODUCERS: _of_names,
    ApiKey.ELECT_LEADERS: lambda request: (each.topic for each in request.topic_partitions or ()),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _of_names,
    ApiKey.DESCRIBE_LOG_DIRS: lambda request: (each.topic for each in request.topics or ()),
}
