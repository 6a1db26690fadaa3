import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.list_config_resources import ListConfigResourcesRequest
from support.broker.broker_world import NODE_ID, in_broker_world
from support.scenarios import scenario

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
A, B, THIS = (TOPIC, "a"), (TOPIC, "b"), (BROKER, str(NODE_ID))


async def listed(world, kinds: list[int], version: int) -> list[tuple[int, str]]:
    answer = await world.client().ask(ListConfigResourcesRequest(resource_types=kinds), version)
    assert answer.error_code == 0
    return [(each.resource_type, each.resource_name) for each in answer.config_resources]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ([], [A, B, THIS]),
        ([TOPIC], [A, B]),
        ([BROKER, BROKER], [THIS]),
        ([GROUP, CLIENT_METRICS, BROKER_LOGGER], []),
    ],
)
@scenario(in_broker_world)
async def test_what_can_be_described_is_listed(world, kinds, expected) -> None:
    await world.topic("b")
    await world.topic("a")
    assert await listed(world, kinds, 1) == expected


@scenario(in_broker_world)
async def test_version_0_asks_for_metrics_of_clients_only(world) -> None:
    await world.topic()
    assert await listed(world, [], 0) == []


@scenario(in_broker_world)
async def test_a_kind_that_is_none(world) -> None:
    answer = await world.client().ask(ListConfigResourcesRequest(resource_types=[TOPIC, 3]), 1)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
