import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from support.broker.broker_world import in_broker_world
from support.scenarios import scenario

EXACT, DEFAULT, SPECIFIED = range(3)


def component(kind: str, match_type: int, match: str | None = None) -> ComponentData:
    return ComponentData(entity_type=kind, match_type=match_type, match=match)


async def ask(world, version, *components, strict=False):
    request = DescribeClientQuotasRequest(components=list(components), strict=strict)
    return await world.client().ask(request, version)


@pytest.mark.parametrize("version", range(2))
@scenario(in_broker_world)
async def test_there_are_none(world, version) -> None:
    for components in (
        [],
        [component("user", SPECIFIED), component("client-id", DEFAULT)],
        [component("ip", EXACT, "127.0.0.1")],
    ):
        answer = await ask(world, version, *components, strict=bool(components))
        assert (answer.error_code, answer.error_message, answer.entries) == (0, None, [])


@pytest.mark.parametrize(
    ("components", "why"),
    [
        ([component("role", SPECIFIED)], "entity type 'role'"),
        ([component("", SPECIFIED)], "entity type ''"),
        ([component("user", SPECIFIED), component("user", DEFAULT)], "Duplicate"),
        ([component("user", 3)], "match type 3"),
        ([component("user", EXACT)], "to match exactly"),
        ([component("user", DEFAULT, "me")], "to match exactly"),
        ([component("user", DEFAULT), component("ip", DEFAULT)], "An IP filter component"),
    ],
)
@scenario(in_broker_world)
async def test_a_filter_that_makes_no_sense_is_refused(world, components, why) -> None:
    answer = await ask(world, 1, *components)
    assert (answer.error_code, answer.entries) == (ErrorCode.INVALID_REQUEST, None)
    assert why in answer.error_message
