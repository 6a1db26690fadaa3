"""What AlterConfigs and IncrementalAlterConfigs share: the order of checks, and the change of one topic.

A topic's new configuration is judged whole before anything is written, so that a request that is partly wrong changes
nothing of that topic.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from siltstone.broker.apis.config_resources import ResourceType, no_such_resource, topic_of
from siltstone.broker.parts import BrokerParts
from siltstone.broker.topics.registry import Topic
from siltstone.metadata.commands import AlterTopicConfigs
from siltstone.model.errors import InvalidRequest
from siltstone.topic_configs.table import parse_topic_configs, written_configs


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Of one topic. ``replace``: what is not put is removed."""

    topic: Topic
    put: Mapping[str, str]
    remove: tuple[str, ...] = ()
    replace: bool = False


def repeated_resources(named: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    return {one for one, times in Counter(named).items() if times > 1}


def alterable_topic(
    parts: BrokerParts, resource: tuple[int, str], repeated: set[tuple[int, str]], keys: Sequence[str]
) -> Topic:
    """Raises InvalidRequest, InvalidTopicName, UnknownTopic."""
    resource_type, name = resource
    if resource in repeated:
        raise InvalidRequest("Each resource must appear at most once.")
    if len(set(keys)) < len(keys):
        raise InvalidRequest("Error due to duplicate config keys")
    if resource_type == ResourceType.BROKER:
        raise InvalidRequest(
            "brokers are not configured through the protocol: change the node's settings file and restart it"
        )
    if resource_type != ResourceType.TOPIC:
        raise no_such_resource(resource_type)
    return topic_of(parts, name)


async def alter(parts: BrokerParts, change: Change, *, validate_only: bool) -> None:
    """Raises InvalidTopicConfig, TopicNotExist, Unavailable."""
    put = written_configs(change.put)
    kept = {} if change.replace else change.topic.metadata.configs
    remaining = {name: text for name, text in kept.items() if name not in change.remove}
    parse_topic_configs({**remaining, **put}, parts.topics.defaults)
    if not validate_only:
        await parts.metadata.execute(AlterTopicConfigs(change.topic.id, put, change.remove, change.replace))
