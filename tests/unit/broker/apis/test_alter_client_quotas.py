"""AlterClientQuotas and DescribeClientQuotas, as Kafka's tools ask."""

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    QuotaAlteration,
    QuotaAlterationEntity,
    QuotaOperation,
)
from siltstone.kafka_protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from siltstone.model.acls import AclOperation, AclResourceType
from support.broker.broker_world import BrokerWorld, Client, in_broker_world
from support.scenarios import scenario
from support.security.rights import STRANGER, allow, client_of, switch

EXACT, DEFAULT, SPECIFIED = range(3)
Names = dict[str, str | None]


def alteration(names: Names, **limits: float | None) -> QuotaAlteration:
    """A limit of None is removed."""
    return QuotaAlteration(
        entity=[QuotaAlterationEntity(entity_type=kind, entity_name=name) for kind, name in names.items()],
        ops=[
            QuotaOperation(key=key, value=value or 0.0, remove=value is None) for key, value in limits.items()
        ],
    )


async def alter(
    client: Client, *entries: QuotaAlteration, version: int = 1, validate_only: bool = False
) -> list[int]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    answer = await client.ask(request, version)
    assert [row.entity for row in answer.entries] == [
        [
            type(row.entity[0])(entity_type=each.entity_type, entity_name=each.entity_name)
            for each in entry.entity
        ]
        for entry, row in zip(entries, answer.entries, strict=True)
    ]
    assert all(bool(row.error_message) is bool(row.error_code) for row in answer.entries)
    return [row.error_code for row in answer.entries]


async def described(
    client: Client, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> list[tuple[Names, dict[str, float]]]:
    rows = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    answer = await client.ask(DescribeClientQuotasRequest(components=rows, strict=strict), version)
    assert (answer.error_code, answer.error_message) == (0, None)
    return [
        (
            {each.entity_type: each.entity_name for each in row.entity},
            {each.key: each.value for each in row.values},
        )
        for row in answer.entries
    ]


@pytest.mark.parametrize("version", [0, 1])
@scenario(in_broker_world)
async def test_qu08_limits_are_described_exactly_by_default_by_any_name_and_strictly(
    world: BrokerWorld, version: int
) -> None:
    client = world.client()
    ada, both = {"user": "ada"}, {"client-id": "app", "user": "ada"}
    default, address = {"user": None}, {"ip": "10.0.0.7"}
    entries = [
        alteration(ada, producer_byte_rate=5.0, request_percentage=0.5),
        alteration(both, consumer_byte_rate=6.0),
        alteration(default, controller_mutation_rate=0.1),
        alteration(address, connection_creation_rate=7.0),
    ]
    assert await alter(client, *entries, version=version) == [0, 0, 0, 0]
    of_ada = (ada, {"producer_byte_rate": 5.0, "request_percentage": 0.5})
    of_both = (both, {"consumer_byte_rate": 6.0})
    of_default = (default, {"controller_mutation_rate": 0.1})

    async def found(
        *components: tuple[str, int, str | None], strict: bool = False
    ) -> list[tuple[Names, dict[str, float]]]:
        return await described(client, *components, strict=strict, version=version)

    everything = await found()
    assert len(everything) == 4
    assert await found(strict=True) == []
    assert await found(("user", EXACT, "ada")) == [of_both, of_ada]
    assert await found(("user", EXACT, "ada"), strict=True) == [of_ada]
    assert await found(("user", DEFAULT, None)) == [of_default]
    assert await found(("user", SPECIFIED, None), strict=True) == [of_default, of_ada]
    assert await found(("user", EXACT, "ada"), ("client-id", SPECIFIED, None), strict=True) == [of_both]
    assert await found(("ip", SPECIFIED, None)) == [(address, {"connection_creation_rate": 7.0})]
    assert await found(("user", EXACT, "nobody")) == []


@scenario(in_broker_world)
async def test_each_entity_is_answered_for_itself(world: BrokerWorld) -> None:
    client = world.client()
    codes = await alter(
        client,
        alteration({"user": "ada"}, producer_byte_rate=5.0),
        alteration({"user": "bob"}, bytes=5.0),
        alteration({"role": "bob"}, producer_byte_rate=5.0),
        alteration({"user": ""}, producer_byte_rate=5.0),
        alteration({"user": "cyd"}, producer_byte_rate=-1.0),
        alteration({"ip": "10.0.0.7", "user": "cyd"}, producer_byte_rate=1.0),
    )
    assert codes == [0, *[ErrorCode.INVALID_REQUEST] * 5]
    assert await described(client) == [({"user": "ada"}, {"producer_byte_rate": 5.0})]


@scenario(in_broker_world)
async def test_limits_are_removed_and_a_try_changes_nothing(world: BrokerWorld) -> None:
    client = world.client()
    await alter(client, alteration({"user": "ada"}, producer_byte_rate=5.0, consumer_byte_rate=6.0))
    before = world.parts.metadata.image.version
    assert await alter(client, alteration({"user": "ada"}, producer_byte_rate=9.0), validate_only=True) == [0]
    assert world.parts.metadata.image.version == before
    assert await alter(
        client, alteration({"user": "ada"}, producer_byte_rate=None, request_percentage=None)
    ) == [0]
    assert await described(client) == [({"user": "ada"}, {"consumer_byte_rate": 6.0})]


@scenario(in_broker_world)
async def test_an_entity_that_is_named_twice_is_refused(world: BrokerWorld) -> None:
    client = world.client()
    twice = [alteration({"user": "ada"}, producer_byte_rate=5.0)] * 2
    assert await alter(client, *twice) == [ErrorCode.INVALID_REQUEST] * 2
    assert await described(client) == []


@scenario(in_broker_world)
async def test_the_rights_are_kafkas(world: BrokerWorld) -> None:
    await switch(world, allow(AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER))
    client = client_of(world, STRANGER)
    entry = alteration({"user": "s"}, producer_byte_rate=5.0)
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert await alter(client, entry) == [denied]
    assert await described(client) == []
    await switch(world, allow(AclOperation.ALTER_CONFIGS, AclResourceType.CLUSTER))
    assert await alter(client, entry) == [0]
