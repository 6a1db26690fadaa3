import asyncio

import pytest

from siltstone.broker.apis import altering_configs as module
from siltstone.broker.apis.altering_configs import ALTER_ATTEMPTS_MAX, Change
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from siltstone.metadata.refusals import TopicConfiguredOtherwise
from support.broker.admin_world import NODE_ID, in_admin_world
from support.scenarios import scenario
from support.values.left_out import numbers_left_out

TOPIC, BROKER = 2, 4


def resource(name: str = "t", *configs: tuple[str, str | None], kind: int = TOPIC) -> AlterConfigsResource:
    listed = [AlterableConfig(name=key, value=value) for key, value in configs]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=listed)


def altering(*resources: AlterConfigsResource, validate_only: bool = False) -> AlterConfigsRequest:
    return AlterConfigsRequest(resources=list(resources), validate_only=validate_only)


@pytest.mark.parametrize("version", range(3))
@scenario(in_admin_world)
async def test_what_is_not_named_goes_back_to_its_default(world, version) -> None:
    await world.create("t", retention_ms="5", max_message_bytes="6")
    request = altering(resource("t", ("retention.ms", " 7 "), ("cleanup.policy", "compact , delete")))
    (response,) = (await world.answer(request, version)).responses
    assert (response.error_code, response.error_message) == (0, None)
    assert (response.resource_type, response.resource_name) == (TOPIC, "t")
    assert world.parts.topics.by_name("t").metadata.configs == {
        "retention.ms": "7", "cleanup.policy": "compact,delete",
    }  # fmt: skip
    await world.answer(altering(resource("t")), version)
    assert world.parts.topics.by_name("t").metadata.configs == {}


REFUSED = {
    "not there": (resource("nowhere"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "illegal": (resource("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "no name": (resource(""), ErrorCode.INVALID_REQUEST),
    "unknown": (resource("t", ("foo", "1")), ErrorCode.INVALID_CONFIG),
    "impossible": (resource("t", ("retention.ms", "x")), ErrorCode.INVALID_CONFIG),
    "null": (resource("t", ("retention.ms", None)), ErrorCode.INVALID_REQUEST),
    "twice": (resource("t", ("retention.ms", "1"), ("retention.ms", "2")), ErrorCode.INVALID_REQUEST),
    "conflict": (
        resource("t", ("min.compaction.lag.ms", "2"), ("max.compaction.lag.ms", "1")),
        ErrorCode.INVALID_CONFIG,
    ),
    "broker": (resource(str(NODE_ID), ("num.partitions", "2"), kind=BROKER), ErrorCode.INVALID_REQUEST),
    "all brokers": (resource("", ("num.partitions", "2"), kind=BROKER), ErrorCode.INVALID_REQUEST),
    "no group": (resource("", kind=32), ErrorCode.INVALID_REQUEST),
    "group": (resource("g", ("retention.ms", "1"), kind=32), ErrorCode.INVALID_CONFIG),
    "nothing known": (resource("x", kind=99), ErrorCode.INVALID_REQUEST),
}


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("which", REFUSED)
def test_refused_with_a_code_and_a_reason_and_nothing_changes(which, validate_only):
    refused, code = REFUSED[which]

    async def scenario(world):
        await world.create("t", retention_ms="5")
        await world.assert_refused(altering(refused, validate_only=validate_only), refused, code)

    in_admin_world(scenario)


@scenario(in_admin_world)
async def test_what_is_replaced_conflicts_with_nothing(world) -> None:
    await world.create("t", min_compaction_lag_ms="9")
    request = altering(resource("t", ("max.compaction.lag.ms", "8")))
    assert (await world.answer(request)).responses[0].error_code == 0


@scenario(in_admin_world)
async def test_who_would_configure_the_broker_is_told_where_to_do_it(world) -> None:
    (response,) = (await world.answer(altering(resource("7", kind=BROKER)))).responses
    assert "settings file" in response.error_message


@scenario(in_admin_world)
async def test_validating_changes_nothing(world) -> None:
    await world.create("t", retention_ms="5")
    version = world.version
    request = altering(resource("t", ("retention.ms", "7")), validate_only=True)
    (response,) = (await world.answer(request)).responses
    assert (response.error_code, world.version) == (0, version)


@scenario(in_admin_world)
async def test_a_resource_named_twice_is_altered_by_neither(world) -> None:
    for name in ("a", "b"):
        await world.create(name)
    request = altering(
        resource("a", ("retention.ms", "1")),
        resource("b", ("retention.ms", "1")),
        resource("a", ("retention.ms", "2")),
    )
    codes = [response.error_code for response in (await world.answer(request)).responses]
    assert codes == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
    assert [topic.config.retention_ms for topic in world.parts.topics.all()] == [604_800_000, 1]


def test_what_is_left_out() -> None:
    assert numbers_left_out(Change) == {"replace": False}


@pytest.mark.parametrize(
    ("failures", "stands"), [(0, True), (ALTER_ATTEMPTS_MAX - 1, True), (ALTER_ATTEMPTS_MAX, False)]
)
def test_a_change_that_another_client_overtook_is_made_anew_so_many_times(monkeypatch, failures, stands):
    made, tried = [], []

    async def overtaken(_parts, change, *, validate_only):
        tried.append((change, validate_only))
        if len(tried) <= failures:
            raise TopicConfiguredOtherwise("another client was faster")

    def make():
        made.append(object())
        return made[-1]

    monkeypatch.setattr(module, "_alter", overtaken)
    if stands:
        asyncio.run(module.alter(None, make, validate_only=True))
    else:
        with pytest.raises(TopicConfiguredOtherwise):
            asyncio.run(module.alter(None, make, validate_only=True))
    assert tried == [(change, True) for change in made]
    assert len(made) == min(failures + 1, ALTER_ATTEMPTS_MAX)
