import logging

import pytest

from siltstone.broker.request import Listener
from siltstone.foundation.scram import keys_of
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.alter_user_scram_credentials import (
    ScramCredentialDeletion,
)
from siltstone.kafka_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from siltstone.model.access import ScramMechanism, SecurityProtocol, SessionState
from support.broker.broker_world import in_broker_world
from support.scenarios import scenario
from support.security.scram_changes import SALTED, SEVERAL_OF_ONE_USER, asked, upsertion


def near(world):
    """A client on the machine of the broker."""
    client = world.client()
    client.connection.client_host = "127.0.0.1"
    return client


def codes(answer) -> dict[str, int]:
    return {each.user: each.error_code for each in answer.results}


@scenario(in_broker_world)
async def test_a_salted_password_becomes_keys_and_nothing_else_is_kept(world) -> None:
    client = near(world)
    assert codes(await client.ask(asked(upsertions=[upsertion()]))) == {"ada": 0}
    (kept,) = world.parts.metadata.image.users["ada"].credentials
    keys = keys_of("sha256", SALTED)
    assert (kept.stored_key, kept.server_key) == (keys.stored_key, keys.server_key)
    assert (kept.mechanism, kept.salt, kept.rounds) == (ScramMechanism.SCRAM_SHA_256, b"salt", 4096)
    (described,) = (await client.ask(DescribeUserScramCredentialsRequest(users=None))).results
    assert described.user == "ada"
    assert [(each.mechanism, each.iterations) for each in described.credential_infos] == [(1, 4096)]


@scenario(in_broker_world)
async def test_sa11_each_user_is_answered_for_itself(world) -> None:
    client = near(world)
    refused = {
        "few": (upsertion("few", iterations=4095), 93),
        "many": (upsertion("many", iterations=16385), 93),
        "": (upsertion(""), 93),
        "odd": (upsertion("odd", mechanism=3), 33),
        "none": (upsertion("none", salted_password=b""), 93),
        "unsalted": (upsertion("unsalted", salt=b""), 93),
        "siltstone-node": (upsertion("siltstone-node"), 93),
    }
    fine = {"least": upsertion("least"), "most": upsertion("most", iterations=16384)}
    rows = [each for each, _ in refused.values()]
    twice = [upsertion("twice"), upsertion("twice")]
    missing = [ScramCredentialDeletion(name="missing", mechanism=1)]
    answer = await client.ask(asked(missing, [*rows, *fine.values(), *twice]))
    assert codes(answer) == {
        **{name: code for name, (_, code) in refused.items()},
        **dict.fromkeys(fine, 0),
        "twice": ErrorCode.DUPLICATE_RESOURCE,
        "missing": ErrorCode.RESOURCE_NOT_FOUND,
    }
    assert set(world.parts.metadata.image.users) == {"least", "most"}
    assert all(bool(each.error_message) == bool(each.error_code) for each in answer.results)


@scenario(in_broker_world)
async def test_deletions_and_upsertions_of_one_user(world) -> None:
    client = near(world)
    await client.ask(asked(upsertions=[upsertion()]))
    other = upsertion(mechanism=2)
    removal = ScramCredentialDeletion(name="ada", mechanism=1)
    assert codes(await client.ask(asked([removal], [upsertion()]))) == {"ada": 92}
    assert codes(await client.ask(asked([removal], [other]))) == {"ada": 92}
    (kept,) = world.parts.metadata.image.users["ada"].credentials
    assert kept.mechanism is ScramMechanism.SCRAM_SHA_256
    assert codes(await client.ask(asked([], [other]))) == {"ada": 0}
    assert codes(await client.ask(asked([removal]))) == {"ada": 0}
    (kept,) = world.parts.metadata.image.users["ada"].credentials
    assert kept.mechanism is ScramMechanism.SCRAM_SHA_512
    assert codes(await client.ask(asked([removal]))) == {"ada": 91}


@pytest.mark.parametrize(("deletions", "upsertions", "code"), SEVERAL_OF_ONE_USER)
@scenario(in_broker_world)
async def test_sa11_a_request_changes_one_credential_of_a_user(world, deletions, upsertions, code) -> None:
    client = near(world)
    await client.ask(asked(upsertions=[upsertion()]))
    before = world.parts.metadata.image.users
    answer = codes(await client.ask(asked(deletions, [*upsertions, upsertion("eve")])))
    assert answer.pop("eve") == 0
    assert [*answer.values()] == [code]
    assert {name: user for name, user in world.parts.metadata.image.users.items() if name != "eve"} == dict(
        before
    )


@pytest.mark.parametrize(
    ("protocol", "host", "code"),
    [
        (SecurityProtocol.PLAINTEXT, "192.0.2.7", 93),
        (SecurityProtocol.SASL_SSL, "192.0.2.7", 0),
        (SecurityProtocol.PLAINTEXT, "127.0.0.1", 0),
        (SecurityProtocol.PLAINTEXT, "::1", 0),
        (SecurityProtocol.PLAINTEXT, "unknown", 93),
    ],
)
@scenario(in_broker_world)
async def test_sa11_a_salted_password_does_not_come_over_a_network_without_tls(
    world, protocol, host, code
) -> None:
    client = world.client()
    client.connection.listener = Listener("X", "localhost", 9092, protocol)
    client.connection.session.state = SessionState.AUTHENTICATED
    client.connection.client_host = host
    assert codes(await client.ask(asked(upsertions=[upsertion()]))) == {"ada": code}


@scenario(in_broker_world)
async def test_sa19_no_part_of_a_password_is_logged(world, caplog) -> None:
    with caplog.at_level(logging.DEBUG):
        await near(world).ask(asked(upsertions=[upsertion(), upsertion("few", iterations=1)]))
    keys = keys_of("sha256", SALTED)
    for secret in (SALTED, keys.stored_key, keys.server_key):
        for written in (secret.hex(), repr(secret)[2:-1]):
            assert written not in caplog.text
