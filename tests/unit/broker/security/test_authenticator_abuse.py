"""What strangers can learn and hold up: times that tell who is known, floods of passwords, sessions that go on."""

import asyncio
import base64
import time
from statistics import fmean
from typing import Any

import pytest

from siltstone.broker.request import CloseConnection
from siltstone.broker.security.sasl.plain import TokenRefused
from siltstone.broker.security.sasl.scram import ScramExchange
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from siltstone.metadata.users import AlterUsers
from siltstone.model.access import Principal, ScramMechanism
from siltstone.model.serving_limits import PASSWORD_CHECKS_MAX
from support.broker.broker_world import BrokerWorld
from support.engine.engine_world import settled
from support.processes.calls_counted import calls_counted
from support.processes.tried import RecordTried
from support.scenarios import scenario
from support.security.credentials import users_command
from unit.broker.security.test_authenticator import SECURE, handshake, log_in, token, with_ada

ROUNDS = 1_000


def exchanged(world: BrokerWorld, user: str) -> None:
    """A whole login by SCRAM with a proof that is wrong."""
    exchange = ScramExchange(
        ScramMechanism.SCRAM_SHA_512, world.broker.authenticator._credential_of, "n" * 40
    )
    exchange.first(f"n,,n={user},r=abc".encode())
    channel = base64.b64encode(b"n,,").decode()
    proof = base64.b64encode(bytes(64)).decode()
    with pytest.raises(TokenRefused, match="the password is wrong, or there is no such user"):
        exchange.final(f"c={channel},r=abc{'n' * 40},p={proof}".encode())


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
@scenario(with_ada)
async def test_sa21_a_known_and_an_unknown_user_take_the_same_steps(
    world: BrokerWorld, mechanism: ScramMechanism
) -> None:
    def steps(user: str) -> list[str]:
        with calls_counted() as calls:
            world.broker.authenticator._credential_of(user, mechanism)
            world.broker.authenticator.strongest_credential(user)
        return [call for call in calls if call.startswith("MadeUpCredentials.")]

    assert steps("ada") == steps("eve") == steps("bob") != []


@pytest.mark.nightly
def test_sa21_the_times_of_a_thousand_logins_tell_nothing(record_tried: RecordTried) -> None:
    """In turns, so that a busy machine slows both; of each user the quicker half counts."""

    @scenario(with_ada)
    async def play(world: BrokerWorld) -> None:
        took: dict[str, list[float]] = {"ada": [], "eve": []}
        for _ in range(4 * ROUNDS):
            for user, times in took.items():
                begun = time.perf_counter()
                exchanged(world, user)
                times.append(time.perf_counter() - begun)
        known, unknown = (fmean(sorted(times)[: 2 * ROUNDS]) for times in took.values())
        assert abs(known - unknown) < 0.05 * max(known, unknown), (known, unknown)

    play()
    record_tried("logins of each user", 4 * ROUNDS)


@scenario(with_ada)
async def test_ab15_a_flood_of_passwords_holds_up_no_request(world: BrokerWorld) -> None:
    """The checks wait in threads of their own, so many and no more; the loop answers others meanwhile."""
    world.calls.hold("is_password")
    strangers: list[asyncio.Task[Any]] = []
    for _ in range(PASSWORD_CHECKS_MAX):
        client = world.client(SECURE)
        await handshake(client, "PLAIN")
        strangers.append(asyncio.ensure_future(token(world, client, b"\0ada\0wrong")))
    await settled()
    one_more = world.client(SECURE)
    await handshake(one_more, "PLAIN")
    with pytest.raises(CloseConnection, match="come back"):
        await token(world, one_more, b"\0ada\0wrong")
    assert (await world.client().ask(MetadataRequest(topics=[]))).brokers
    assert not any(each.done() for each in strangers)
    world.calls.release("is_password")
    assert {(await each).error_code for each in strangers} == {58}


@scenario(with_ada)
async def test_sa13_a_new_password_ends_no_session_and_is_wanted_at_the_next_login(
    world: BrokerWorld,
) -> None:
    client = world.client(SECURE)
    assert (await log_in(world, client, "SCRAM-SHA-512")).error_code == 0
    await world.parts.metadata.execute(users_command(ada="another"))
    assert (await client.ask(MetadataRequest(topics=[]))).brokers
    assert client.connection.principal == Principal("ada")
    assert (await log_in(world, world.client(SECURE), "SCRAM-SHA-512")).error_code == 58
    assert (await log_in(world, world.client(SECURE), "SCRAM-SHA-512", password="another")).error_code == 0


@scenario(with_ada)
async def test_ac22_a_removed_user_is_named_in_the_image_with_a_version(world: BrokerWorld) -> None:
    """Each node closes what it has open in that name when it reads the entry; ``test_nd13`` does so with three."""
    before = world.parts.metadata.image
    await world.parts.metadata.execute(AlterUsers(removals=tuple(("ada", each) for each in ScramMechanism)))
    image = world.parts.metadata.image
    assert dict(image.ended_sessions.changed_from(before.ended_sessions)) == {"User:ada": image.version}
    assert (await log_in(world, world.client(SECURE), "SCRAM-SHA-512")).error_code == 58
