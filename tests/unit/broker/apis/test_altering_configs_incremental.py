import asyncio

import pytest

from siltstone.broker.group_configs import key_of_group, stored_configs
from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.broker.admin_world import NODE_ID, in_admin_world
from support.scenarios import scenario

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def resource(
    name: str = "t", *changes: tuple[str, int, str | None], kind: int = TOPIC
) -> AlterConfigsResource:
    listed = [AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=listed)


def altering(*resources: AlterConfigsResource, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)


async def altered(world, *changes: tuple[str, int, str | None], version: int = 1) -> dict[str, str]:
    (response,) = (await world.answer(altering(resource("t", *changes)), version)).responses
    assert (response.error_code, response.error_message) == (0, None)
    return dict(world.parts.topics.by_name("t").metadata.configs)


@pytest.mark.parametrize("version", range(2))
@scenario(in_admin_world)
async def test_set_and_delete_leave_the_others_as_they_are(world, version) -> None:
    await world.create("t", retention_ms="5", max_message_bytes="6", segment_ms="8")
    changes = (("retention.ms", SET, " 7 "), ("segment.ms", DELETE, None), ("preallocate", SET, "TRUE"))
    assert await altered(world, *changes, version=version) == {
        "retention.ms": "7", "max.message.bytes": "6", "preallocate": "true",
    }  # fmt: skip


@scenario(in_admin_world)
async def test_of_changes_at_once_none_is_lost(world) -> None:
    """Each list is made from what stood when it was asked for."""
    await world.create("t", retention_ms="5", cleanup_policy="")
    key = "leader.replication.throttled.replicas"
    asked = [altering(resource("t", (key, APPEND, f"{number}:0"))) for number in range(20)]
    answers = await asyncio.gather(*(world.answer(each, 1) for each in asked))
    assert [answer.responses[0].error_code for answer in answers] == [0] * 20
    standing = world.parts.topics.by_name("t").metadata.configs[key]
    assert sorted(standing.split(",")) == sorted(f"{number}:0" for number in range(20))


@scenario(in_admin_world)
async def test_deleting_what_does_not_stand_changes_nothing(world) -> None:
    await world.create("t", retention_ms="5")
    version = world.version
    configs = await altered(
        world, ("segment.ms", DELETE, None), ("foo", DELETE, None), ("flush.ms", DELETE, "x")
    )
    assert (configs, world.version) == ({"retention.ms": "5"}, version)


@pytest.mark.parametrize(
    ("standing", "how", "value", "expected"),
    [
        ("compact", APPEND, "delete", "compact,delete"),
        ("compact", APPEND, "compact", "compact"),
        ("compact", APPEND, " delete , compact", "compact,delete"),
        (None, APPEND, "compact", "delete,compact"),  # the default stands
        ("", APPEND, "compact", "compact"),
        ("compact,delete", SUBTRACT, "delete", "compact"),
        ("compact,delete", SUBTRACT, "delete, compact", ""),
        ("compact", SUBTRACT, "delete", "compact"),
        (None, SUBTRACT, "delete", ""),
    ],
)
@scenario(in_admin_world)
async def test_lists_grow_and_shrink(world, standing, how, value, expected) -> None:
    await (world.create("t") if standing is None else world.create("t", cleanup_policy=standing))
    assert await altered(world, ("cleanup.policy", how, value)) == {"cleanup.policy": expected}


@scenario(in_admin_world)
async def test_items_with_commas_in_brackets_are_added_and_taken_away_whole(world) -> None:
    by, columns = "siltstone.table.partition.by", "siltstone.table.columns"
    nested = "at struct<a: int,b: int>"
    await world.create("t", **{"siltstone.table.value": "json", "siltstone.table.key": "string"})
    await altered(world, (by, SET, "bucket(key,16),truncate(key,16)"))
    assert (await altered(world, (by, SUBTRACT, "bucket(key,16)")))[by] == "truncate(key,16)"
    await altered(world, (columns, APPEND, "c array<int>"))
    assert (await altered(world, (columns, APPEND, nested)))[columns] == f"c array<int>,{nested}"
    assert (await altered(world, (columns, SUBTRACT, "c array<int>")))[columns] == nested


@scenario(in_admin_world, BrokerSettings(topic_defaults={"cleanup.policy": "compact"}))
async def test_lists_grow_from_the_brokers_default(world) -> None:
    await world.create("t")
    assert await altered(world, ("cleanup.policy", APPEND, "delete")) == {"cleanup.policy": "compact,delete"}


REFUSED = {
    "not there": (resource("nowhere"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "illegal": (resource("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "no name": (resource(""), ErrorCode.INVALID_REQUEST),
    "unknown": (resource("t", ("foo", SET, "1")), ErrorCode.INVALID_CONFIG),
    "impossible": (resource("t", ("retention.ms", SET, "x")), ErrorCode.INVALID_CONFIG),
    "set to null": (resource("t", ("retention.ms", SET, None)), ErrorCode.INVALID_REQUEST),
    "null appended": (resource("t", ("cleanup.policy", APPEND, None)), ErrorCode.INVALID_REQUEST),
    "twice": (
        resource("t", ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)), ErrorCode.INVALID_REQUEST,
    ),
    "no list": (resource("t", ("retention.ms", APPEND, "1")), ErrorCode.INVALID_CONFIG),
    "no such list": (resource("t", ("foo", SUBTRACT, "1")), ErrorCode.INVALID_CONFIG),
    "impossible item": (resource("t", ("cleanup.policy", APPEND, "none")), ErrorCode.INVALID_CONFIG),
    "no operation": (resource("t", ("retention.ms", 4, "1")), ErrorCode.INVALID_REQUEST),
    # 9 stands already
    "conflict": (resource("t", ("max.compaction.lag.ms", SET, "8")), ErrorCode.INVALID_CONFIG),
    "broker": (resource(str(NODE_ID), ("num.partitions", SET, "2"), kind=BROKER), ErrorCode.INVALID_REQUEST),
    "all brokers": (resource("", ("num.partitions", SET, "2"), kind=BROKER), ErrorCode.INVALID_REQUEST),
    "logger": (resource(str(NODE_ID), kind=8), ErrorCode.INVALID_REQUEST),
    "no group": (resource("", kind=32), ErrorCode.INVALID_REQUEST),
    "nothing known": (resource("x", kind=99), ErrorCode.INVALID_REQUEST),
}  # fmt: skip


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("which", REFUSED)
def test_refused_with_a_code_and_a_reason_and_nothing_changes(which, validate_only):
    refused, code = REFUSED[which]

    async def scenario(world):
        await world.create("t", min_compaction_lag_ms="9")
        await world.assert_refused(altering(refused, validate_only=validate_only), refused, code)

    in_admin_world(scenario)


@pytest.mark.parametrize(
    ("name", "how"), [("retention.ms", APPEND), ("compression.type", SUBTRACT), ("foo", 2)]
)
@scenario(in_admin_world)
async def test_only_lists_grow_and_shrink(world, name, how) -> None:
    await world.create("t")
    (response,) = (await world.answer(altering(resource("t", (name, how, "1"))))).responses
    operation = "APPEND" if how == APPEND else "SUBTRACT"
    assert response.error_message == f"Can't {operation} to key {name} because its type is not LIST."


@scenario(in_admin_world)
async def test_a_request_that_is_partly_wrong_changes_nothing_of_that_topic_and_all_of_another(world) -> None:
    for name in ("a", "b"):
        await world.create(name)
    request = altering(
        resource("a", ("retention.ms", SET, "1"), ("segment.ms", SET, "x")),
        resource("b", ("retention.ms", SET, "1")),
    )
    codes = [response.error_code for response in (await world.answer(request)).responses]
    assert codes == [ErrorCode.INVALID_CONFIG, 0]
    assert [topic.metadata.configs for topic in world.parts.topics.all()] == [{}, {"retention.ms": "1"}]


@scenario(in_admin_world)
async def test_validating_changes_nothing(world) -> None:
    await world.create("t")
    version = world.version
    request = altering(resource("t", ("retention.ms", SET, "7")), validate_only=True)
    (response,) = (await world.answer(request)).responses
    assert (response.error_code, world.version) == (0, version)


@scenario(in_admin_world)
async def test_a_resource_named_twice_is_altered_by_neither(world) -> None:
    await world.create("t")
    one = resource("t", ("retention.ms", SET, "1"))
    responses = (await world.answer(altering(one, one))).responses
    assert [response.error_code for response in responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert world.parts.topics.by_name("t").metadata.configs == {}


@scenario(in_admin_world)
async def test_ng22_a_group_takes_what_kafka_would_take(world) -> None:
    def asked(value: str | None, name: str = "consumer.session.timeout.ms", how: int = SET):
        return altering(resource("workers", (name, how, value), kind=32))

    async def code_of(request) -> int:
        (row,) = (await world.answer(request)).responses
        return row.error_code

    key = key_of_group("workers")
    for value in ("70000", "44999", "-1", "x"):
        assert await code_of(asked(value)) == ErrorCode.INVALID_CONFIG
    assert await code_of(asked("1", "consumer.heartbeat.interval.ms", APPEND)) == ErrorCode.INVALID_CONFIG
    assert key not in world.parts.metadata.image.keys
    assert await code_of(asked("60000")) == 0
    assert stored_configs(world.parts.metadata.image.keys[key]) == {"consumer.session.timeout.ms": "60000"}
    assert await code_of(asked(None, how=DELETE)) == 0
    assert stored_configs(world.parts.metadata.image.keys[key]) == {}
