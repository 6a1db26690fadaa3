"""What AlterConfigs and IncrementalAlterConfigs share: the order of checks, and the change of one topic.

A topic's new configuration is judged whole before anything is written, so that a request that is partly wrong changes
nothing of that topic.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec

from siltstone.broker.apis.config_resources import ResourceType, no_such_resource, topic_of
from siltstone.broker.parts import BrokerParts
from siltstone.broker.topics.registry import Topic
from siltstone.metadata.commands import AlterTopicConfigs
from siltstone.metadata.refusals import TopicConfiguredOtherwise
from siltstone.model.errors import InvalidRequest
from siltstone.topic_configs.table import parse_topic_configs, written_configs

ATTEMPTS_MAX = 100
"""Each time somebody else came first: so many at once alter one topic in no program that is well."""


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


async def alter(parts: BrokerParts, make: Callable[[], Change], *, validate_only: bool) -> None:
    """``make`` is called again when the topic was altered by somebody else meanwhile: nobody's change is lost. Raises
    what it raises, InvalidTopicConfig, TopicNotExist, Unavailable, and TopicConfiguredOtherwise when there is no end to
    the others."""
    for _ in range(ATTEMPTS_MAX - 1):
        with suppress(TopicConfiguredOtherwise):
            await _alter(parts, make(), validate_only=validate_only)
            return
    await _alter(parts, make(), validate_only=validate_only)


async def _alter(parts: BrokerParts, change: Change, *, validate_only: bool) -> None:
    put = written_configs(change.put)
    kept = {} if change.replace else change.topic.metadata.configs
    remaining = {name: text for name, text in kept.items() if name not in change.remove}
    parse_topic_configs({**remaining, **put}, parts.topics.defaults)
    if not validate_only:
        expected = None if change.replace else dict(change.topic.metadata.configs)
        await parts.metadata.execute(
            AlterTopicConfigs(change.topic.id, put, change.remove, change.replace, expected)
        )
