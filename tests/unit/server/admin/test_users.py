"""The users of a broker at its admin listener: right and wrong passwords, what is kept, and rights."""

import asyncio

import pytest

from siltstone.broker.security.sasl.plain import PasswordClaim
from siltstone.metadata.users import AlterUsers
from siltstone.model.access import Principal, ScramMechanism
from siltstone.model.acls import AclOperation, AclResourceType
from siltstone.model.secret import Secret
from siltstone.server.admin.http_request import RequestRefused
from siltstone.server.admin.users import CHECKS_MAX, KEPT_MS, BrokerUsers
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.engine.engine_world import settled
from support.scenarios import scenario
from support.security.credentials import users_command
from support.security.rights import ROOT, allow, switch

HOST = "10.0.0.1"
ADA = Principal("ada")


async def users_of(world: BrokerWorld) -> BrokerUsers:
    await world.parts.metadata.execute(users_command(ada="pencil"))
    return BrokerUsers(world.broker, world.clock, world.world.rng)


async def who(world: BrokerWorld, users: BrokerUsers, password: str, user: str = "ada") -> Principal | None:
    asking = asyncio.ensure_future(users.principal_of(HOST, PasswordClaim(user, Secret(password))))
    await settled()
    while not asking.done():
        await world.pass_ms(100)
    return asking.result()


def count_checks(world: BrokerWorld) -> list[str]:
    checks: list[str] = []
    world.calls.before_call = lambda name: checks.append(name) if name == "is_password" else None
    return checks


@scenario(in_broker_world)
async def test_a_right_password_is_hashed_once_a_minute_and_a_wrong_one_each_time(world) -> None:
    users = await users_of(world)
    checks = count_checks(world)
    for _ in range(3):
        assert await who(world, users, "pencil") == ADA
    assert len(checks) == 1
    for _ in range(2):
        assert await who(world, users, "brush") is None
    assert len(checks) == 3
    await world.pass_ms(KEPT_MS)
    assert await who(world, users, "pencil") == ADA
    assert len(checks) == 4
    assert "pencil" not in repr(vars(users))


@scenario(in_broker_world)
async def test_a_changed_password_and_a_removed_user_count_at_once(world) -> None:
    users = await users_of(world)
    assert await who(world, users, "pencil") == ADA
    await world.parts.metadata.execute(users_command(ada="brush"))
    assert await who(world, users, "pencil") is None
    assert await who(world, users, "brush") == ADA
    await world.parts.metadata.execute(AlterUsers(removals=tuple(("ada", each) for each in ScramMechanism)))
    assert await who(world, users, "brush") is None


def guess(users: BrokerUsers, password: str) -> "asyncio.Task[Principal | None]":
    return asyncio.ensure_future(users.principal_of(HOST, PasswordClaim("ada", Secret(password))))


@scenario(in_broker_world)
async def test_only_so_many_passwords_are_checked_at_a_time(world) -> None:
    users = await users_of(world)
    assert await who(world, users, "pencil") == ADA
    world.calls.hold("is_password")
    guesses = [guess(users, f"guess {number}") for number in range(CHECKS_MAX)]
    await settled()
    with pytest.raises(RequestRefused, match="too many passwords") as refused:
        await users.principal_of(HOST, PasswordClaim("ada", Secret("another")))
    assert refused.value.status == 503
    assert await who(world, users, "pencil") == ADA, "who was let in a moment ago is let in"
    world.calls.release("is_password")
    await settled()
    world.broker.end_waits()
    assert await asyncio.gather(*guesses) == [None] * CHECKS_MAX


@scenario(in_broker_world)
async def test_wrong_passwords_wait_and_keep_no_new_login_out(world) -> None:
    users = await users_of(world)
    guesses = [guess(users, f"guess {number}") for number in range(CHECKS_MAX)]
    await settled()
    assert not any(each.done() for each in guesses)
    right = guess(users, "pencil")
    await settled()
    assert right.done() and right.result() == ADA
    world.broker.end_waits()
    assert await asyncio.gather(*guesses) == [None] * CHECKS_MAX


@scenario(in_broker_world)
async def test_with_authorization_a_user_needs_describe_of_the_cluster(world) -> None:
    users = await users_of(world)
    assert users.may_describe(HOST, ADA)
    await switch(world)
    assert not users.may_describe(HOST, ADA)
    assert users.may_describe(HOST, ROOT)
    await switch(world, allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER, principal=ADA, host=HOST))
    assert users.may_describe(HOST, ADA)
    assert users.may_describe(f"::ffff:{HOST}", ADA)
    assert not users.may_describe("10.0.0.2", ADA)


@scenario(in_broker_world)
async def test_nd08_a_node_that_does_not_know_the_newest_users_lets_nobody_in(world) -> None:
    users = await users_of(world)
    world.broker.staleness._age_ms = lambda: float("inf")
    with pytest.raises(RequestRefused) as refused:
        await users.principal_of(HOST, PasswordClaim("ada", Secret("pencil")))
    assert refused.value.status == 503
    with pytest.raises(RequestRefused):
        users.may_describe(HOST, ROOT)
