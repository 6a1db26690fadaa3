"""Logins by tokens (OAUTHBEARER), as a client goes through them."""

import logging
from typing import Any

import pytest

from siltstone.broker.request import CloseConnection, Listener
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from siltstone.kafka_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest
from siltstone.model.access import ANONYMOUS, LoginMechanism, Principal, SecurityProtocol, SessionState
from support.broker.broker_world import BrokerWorld, Client, in_broker_world
from support.scenarios import scenario
from support.security.issuer import Issuer, message_of, tokens_for

BEARER = (LoginMechanism.OAUTHBEARER,)
TOKENS = Listener("TOKENS", "kafka.example", 9093, SecurityProtocol.SASL_SSL, BEARER)
SHORT = Listener(
    "SHORT", "kafka.example", 9095, SecurityProtocol.SASL_SSL, BEARER, reauthentication_ms_max=2_000
)
ISSUER = Issuer()


def with_issuer(played: Any) -> None:
    async def play(world: BrokerWorld) -> None:
        tokens = tokens_for(ISSUER, world.clock)
        world.broker.authenticator.bearers = {"TOKENS": tokens, "SHORT": tokens}
        await played(world)

    in_broker_world(play)


async def sent(world: BrokerWorld, client: Client, message: bytes) -> Any:
    answer = client.send(SaslAuthenticateRequest(auth_bytes=message), 2)
    while not answer.done():
        await world.pass_ms(50)
    return await answer


async def log_in(world: BrokerWorld, client: Client, authzid: str = "", **changed: Any) -> Any:
    """Returns the answer to a token."""
    begun = await client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    assert begun.error_code == 0, begun
    return await sent(world, client, message_of(ISSUER.token(world.clock.now_ms(), **changed), authzid))


@scenario(with_issuer)
async def test_sa01_a_token_logs_in_until_it_expires(world: BrokerWorld) -> None:
    client = world.client(TOKENS)
    answer = await log_in(world, client, "ada")
    assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b"")
    assert 299_000 <= answer.session_lifetime_ms <= 300_000
    assert client.connection.principal == Principal("ada")
    assert (await client.ask(MetadataRequest(topics=[]))).cluster_id


@scenario(with_issuer)
async def test_sa16_a_wrong_token_gets_a_challenge_and_then_58(world: BrokerWorld) -> None:
    client = world.client(TOKENS)
    answer = await log_in(world, client, aud="other")
    assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b'{"status":"invalid_token"}')
    assert client.connection.principal == ANONYMOUS
    last = await sent(world, client, b"\x01")
    assert last.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.connection.session.state is SessionState.CLOSING
    assert world.broker.logins().failed["OAUTHBEARER"] == 1


@scenario(with_issuer)
async def test_sa16_a_good_token_after_a_wrong_one_is_no_login(world: BrokerWorld) -> None:
    client = world.client(TOKENS)
    await log_in(world, client, aud="other")
    last = await sent(world, client, message_of(ISSUER.token(world.clock.now_ms())))
    assert last.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.connection.principal == ANONYMOUS


@scenario(with_issuer)
async def test_sa27_extensions_pass_and_a_malformed_message_is_58_at_once(world: BrokerWorld) -> None:
    client = world.client(TOKENS)
    await client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    message = message_of(ISSUER.token(world.clock.now_ms()), logicalCluster="lkc-1", identityPoolId="p")
    assert (await sent(world, client, message)).error_code == 0
    other = world.client(TOKENS)
    await other.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    message = message_of(ISSUER.token(world.clock.now_ms()), auth="Bearer x.y.z")
    assert (await sent(world, other, message)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


@scenario(with_issuer)
async def test_sa18_a_token_for_three_seconds_ends_the_session(world: BrokerWorld) -> None:
    client = world.client(TOKENS)
    assert 0 < (await log_in(world, client, seconds=3)).session_lifetime_ms <= 3_000
    await world.pass_ms(4_000)
    with pytest.raises(CloseConnection, match="expired"):
        client.begin(MetadataRequest(topics=[]), 12)
    assert world.broker.logins().expired == 1


@scenario(with_issuer)
async def test_sa14_a_session_lasts_as_long_as_the_shorter_of_token_and_setting(world: BrokerWorld) -> None:
    assert (await log_in(world, world.client(SHORT))).session_lifetime_ms == 2_000
    assert (await log_in(world, world.client(SHORT), seconds=1)).session_lifetime_ms <= 1_000


@scenario(with_issuer)
async def test_sa14_a_session_logs_in_again_by_a_new_token_of_the_same_client(world: BrokerWorld) -> None:
    client = world.client(SHORT)
    await log_in(world, client)
    await world.pass_ms(1_500)
    assert (await log_in(world, client)).error_code == 0
    await world.pass_ms(1_500)
    assert bytes((await log_in(world, client, sub="bob")).auth_bytes) == b'{"status":"invalid_token"}'
    assert (await sent(world, client, b"\x01")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.connection.principal == Principal("ada")


@scenario(with_issuer)
async def test_nd04_no_token_makes_a_node(world: BrokerWorld) -> None:
    client = world.client(TOKENS)
    assert (
        bytes((await log_in(world, client, sub="siltstone-node")).auth_bytes) == b'{"status":"invalid_token"}'
    )
    assert client.connection.principal == ANONYMOUS


@scenario(with_issuer)
async def test_sa19_no_token_is_logged(world: BrokerWorld, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        good = ISSUER.token(world.clock.now_ms())
        for changed in ({}, {"aud": "other"}, {"iss": "other"}, {"seconds": -100}):
            client = world.client(TOKENS)
            await log_in(world, client, **changed)
            if changed:
                await sent(world, client, b"\x01")
    told = "\n".join(each.getMessage() for each in caplog.records)
    assert "InvalidAudience" in told
    payloads = {good.split(".")[0], good.split(".")[2]}
    assert not any(part in told for part in payloads) and "eyJ" not in told
