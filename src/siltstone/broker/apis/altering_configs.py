"""Handles AlterConfigs (replaces the whole configuration of a topic) and IncrementalAlterConfigs (changes single
values).

A topic's new configuration is validated as a whole before anything is written, so that a request that is partly wrong
changes nothing of that topic.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import Any, TypeVar

import msgspec

from siltstone.broker.apis.config_resources import ResourceType, check_group_name, no_such_resource, topic_of
from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.group_configs import (
    InvalidGroupConfig,
    check_config,
    key_of_group,
    stored_configs,
    written_group_configs,
)
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.messages import alter_configs as whole
from siltstone.kafka_protocol.messages import incremental_alter_configs as incremental
from siltstone.kafka_protocol.notation import TEXT_BYTES_MAX
from siltstone.metadata.commands import AlterTopicConfigs, PutKey
from siltstone.metadata.refusals import TopicConfiguredOtherwise
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.runtime.turns import one_by_one
from siltstone.topic_configs.rows import TABLE
from siltstone.topic_configs.table import parse_topic_configs, written_configs
from siltstone.topic_configs.values import ConfigType, InvalidTopicConfig, list_items, written

ALTER_ATTEMPTS_MAX = 100
"""How often a change is tried again because another client altered the topic at the same moment."""

THROTTLES = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Rates of a broker that Kafka's kafka-reassign-partitions sets, and deletes when it has verified a move. They are
accepted for every broker, and have no effect: a move copies no bytes."""

NamedResource = tuple[int, str]
"""The type and the name of a resource."""

AnyResource = TypeVar("AnyResource", whole.AlterConfigsResource, incremental.AlterConfigsResource)


class Operation(IntEnum):
    """The change that IncrementalAlterConfigs makes to one value. The numbers are the protocol's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one topic's configuration. With ``replace``, every value that is not in ``put`` is removed."""

    topic: Topic
    put: Mapping[str, str]
    remove: tuple[str, ...] = ()
    replace: bool = False


Changer = Callable[[BrokerParts, Topic, AnyResource], Change]
"""Makes the change of a topic that a resource of a request asks for. Raises the refusal if there is no such change."""

GroupChanger = Callable[[Mapping[str, str], AnyResource], dict[str, str]]
"""Makes a group's next configuration from the present one."""


async def handle_alter_configs(
    parts: BrokerParts, context: RequestContext, request: whole.AlterConfigsRequest
) -> whole.AlterConfigsResponse:
    outcomes = await _outcomes(
        parts, request.resources, _replacement, _group_replacement, validate_only=request.validate_only
    )
    return whole.AlterConfigsResponse(
        responses=[whole.AlterConfigsResourceResponse(**outcome) for outcome in outcomes]
    )


async def handle_incremental_alter_configs(
    parts: BrokerParts, context: RequestContext, request: incremental.IncrementalAlterConfigsRequest
) -> incremental.IncrementalAlterConfigsResponse:
    outcomes = await _outcomes(
        parts, request.resources, _increment, _group_increment, validate_only=request.validate_only
    )
    return incremental.IncrementalAlterConfigsResponse(
        responses=[incremental.AlterConfigsResourceResponse(**outcome) for outcome in outcomes]
    )


async def _outcomes(
    parts: BrokerParts,
    resources: Sequence[AnyResource],
    changer: Changer[AnyResource],
    configured: GroupChanger[AnyResource],
    *,
    validate_only: bool,
) -> list[dict[str, Any]]:
    """Returns the fields of each resource's row in the response, which are the same in both APIs."""
    counted = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    repeated = {named for named, times in counted.items() if times > 1}

    async def outcome(resource: AnyResource) -> dict[str, Any]:
        named = (resource.resource_type, resource.resource_name)
        keys = [config.name for config in resource.configs]
        if resource.resource_type == ResourceType.BROKER and _are_throttles(keys) and named not in repeated:
            return _row(resource, 0, None)

        if resource.resource_type == ResourceType.GROUP and named not in repeated:
            return await _of_group(parts, resource, configured, validate_only=validate_only)

        def make() -> Change:
            return changer(parts, alterable_topic(parts, named, repeated, keys), resource)

        code, message = 0, None
        try:
            await alter(parts, make, validate_only=validate_only)
        except SiltstoneError as failure:
            code, message = error_code(failure), error_message(failure)
        return _row(resource, code, message)

    return await one_by_one(outcome, resources)


async def _of_group(
    parts: BrokerParts, resource: AnyResource, configured: GroupChanger[AnyResource], *, validate_only: bool
) -> dict[str, Any]:
    """Applies the change of a group's configuration, which the group need not exist for."""
    name = resource.resource_name
    try:
        check_group_name(name)
        key = key_of_group(name)
        configs = configured(stored_configs(parts.metadata.image.keys.get(key)), resource)
        for config, value in configs.items():
            check_config(config, value)
        if not validate_only:
            await parts.metadata.execute(PutKey(key, written_group_configs(configs), overwrite=True))
    except SiltstoneError as failure:
        return _row(resource, error_code(failure), error_message(failure))
    return _row(resource, 0, None)


def _group_replacement(_: Mapping[str, str], resource: whole.AlterConfigsResource) -> dict[str, str]:
    return _put_of(resource)


def _group_increment(before: Mapping[str, str], resource: incremental.AlterConfigsResource) -> dict[str, str]:
    after = dict(before)
    for config in resource.configs:
        match config.config_operation:
            case Operation.DELETE:
                after.pop(config.name, None)
            case Operation.SET if config.value is not None:
                after[config.name] = config.value
            case Operation.SET:
                raise InvalidRequest(f"Null value not supported for : {config.name}")
            case _:
                raise InvalidGroupConfig(f"{config.name[:200]} is not a list: it is set or deleted")
    return after


def _are_throttles(keys: Sequence[str]) -> bool:
    return bool(keys) and THROTTLES.issuperset(keys)


def _row(resource: AnyResource, code: int, message: str | None) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_message": message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


async def alter(parts: BrokerParts, make: Callable[[], Change], *, validate_only: bool) -> None:
    """Applies the change that ``make`` returns. ``make`` is called again when another client altered the topic at the
    same moment, so no change is lost. Raises what ``make`` raises, InvalidTopicConfig, TopicNotExist, Unavailable, and
    TopicConfiguredOtherwise after too many attempts."""
    for _ in range(ALTER_ATTEMPTS_MAX - 1):
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


def alterable_topic(
    parts: BrokerParts, resource: NamedResource, repeated: set[NamedResource], keys: Sequence[str]
) -> Topic:
    """Returns the topic that ``resource`` names. Raises InvalidRequest, InvalidTopicName, UnknownTopic."""
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


def _replacement(_parts: BrokerParts, topic: Topic, resource: whole.AlterConfigsResource) -> Change:
    """Raises InvalidRequest."""
    return Change(topic=topic, put=_put_of(resource), replace=True)


def _put_of(resource: whole.AlterConfigsResource) -> dict[str, str]:
    if nulls := [config.name for config in resource.configs if config.value is None]:
        raise InvalidRequest(f"Null value not supported for : {', '.join(nulls)}")
    return {config.name: config.value for config in resource.configs if config.value is not None}


def _increment(parts: BrokerParts, topic: Topic, resource: incremental.AlterConfigsResource) -> Change:
    """Raises InvalidRequest, InvalidTopicConfig."""
    put: dict[str, str] = {}
    remove: list[str] = []
    for config in resource.configs:
        if config.config_operation == Operation.DELETE:
            remove.append(config.name)
        else:
            put[config.name] = _new_value(parts, topic, config)
    return Change(topic=topic, put=put, remove=tuple(remove))


def _new_value(parts: BrokerParts, topic: Topic, config: incremental.AlterableConfig) -> str:
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
            f"{row.name} would have more than {TEXT_BYTES_MAX} bytes, the longest text of the protocol"
        )
    return value


def _list_after(operation: Operation, current: str, value: str) -> str:
    """Returns the new value of a list. ``current`` is in canonical form; an item that is named twice counts once."""
    present = [item for item in list_items(current) if item]
    named = list_items(value)
    if operation is Operation.APPEND:
        return written((*present, *named))
    return written(tuple(item for item in present if item not in named))
