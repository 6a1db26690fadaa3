"""Logins asked of a broker as clients ask: every answer, what closes the connection, and what the log has."""

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.conn import ScramAuthenticator
from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.request import CloseConnection, Listener
from siltstone.broker.security.authenticator import FAILED
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from siltstone.kafka_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest
from siltstone.metadata.users import AlterUsers
from siltstone.model.access import (
    ANONYMOUS,
    LoginMechanism,
    Principal,
    ScramMechanism,
    SecurityProtocol,
    SessionState,
)
from siltstone.model.serving_limits import SASL_FRAMES_MAX
from support.broker.broker_world import BrokerWorld, Client, in_broker_world
from support.engine.engine_world import settled
from support.scenarios import scenario
from support.security.credentials import users_command

BY_PASSWORD = [each for each in LoginMechanism if each is not LoginMechanism.OAUTHBEARER]
SECURE = Listener("SECURE", "kafka.example", 9093, SecurityProtocol.SASL_SSL, tuple(LoginMechanism))
ONLY_SCRAM = Listener(
    "SCRAM", "kafka.example", 9094, SecurityProtocol.SASL_PLAINTEXT, (LoginMechanism.SCRAM_SHA_512,)
)
SHORT = Listener(
    "SHORT",
    "kafka.example",
    9095,
    SecurityProtocol.SASL_SSL,
    tuple(LoginMechanism),
    reauthentication_ms_max=2_000,
)
MADE_UP_PASSWORD = "not-for-the-log"
SCRAM_OF = {
    LoginMechanism.SCRAM_SHA_256: ScramMechanism.SCRAM_SHA_256,
    LoginMechanism.SCRAM_SHA_512: ScramMechanism.SCRAM_SHA_512,
}


async def handshake(client: Client, mechanism: str, version: int = 1) -> Any:
    return await client.ask(SaslHandshakeRequest(mechanism=mechanism), version)


async def token(world: BrokerWorld, client: Client, sent: bytes, version: int = 2) -> Any:
    """Time passes until the answer is there: an answer to a wrong token waits."""
    answer = client.send(SaslAuthenticateRequest(auth_bytes=sent), version)
    while not answer.done():
        await world.pass_ms(50)
    return await answer


async def log_in(
    world: BrokerWorld, client: Client, mechanism: str, user: str = "ada", password: str = "pencil"
) -> Any:
    """Returns the last answer of a whole login."""
    begun = await handshake(client, mechanism)
    assert begun.error_code == 0, begun
    if mechanism == LoginMechanism.PLAIN:
        return await token(world, client, f"\0{user}\0{password}".encode())
    scram = ScramAuthenticator(
        loop=None, sasl_plain_password=password, sasl_plain_username=user, sasl_mechanism=mechanism
    )
    challenged = await token(world, client, scram.first_message().encode())
    assert challenged.error_code == 0, challenged
    scram.process_server_first_message(bytes(challenged.auth_bytes).decode())
    last = await token(world, client, scram.final_message().encode())
    if last.error_code == 0:
        scram.process_server_final_message(bytes(last.auth_bytes).decode())
    return last


def with_ada(scenario: Callable[[BrokerWorld], Any]) -> None:
    """Plays the scenario in a world with the users ada and bob."""

    async def play(world: BrokerWorld) -> None:
        await world.parts.metadata.execute(users_command(ada="pencil", bob="brush"))
        await scenario(world)

    in_broker_world(play)


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
@scenario(with_ada)
async def test_sa01_each_mechanism_logs_in(world, mechanism) -> None:
    client = world.client(SECURE)
    assert (client.connection.principal, client.connection.session.state) == (
        ANONYMOUS,
        SessionState.START,
    )
    assert (
        await client.ask(ApiVersionsRequest(client_software_name="c", client_software_version="1"))
    ).api_keys
    done = await log_in(world, client, mechanism)
    assert (done.error_code, done.error_message, done.session_lifetime_ms) == (0, None, 0)
    assert client.connection.principal == Principal("ada")
    assert (await client.ask(MetadataRequest(topics=[]))).cluster_id


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
@scenario(with_ada)
async def test_sa02_a_wrong_password_and_an_unknown_user_have_the_same_answer(world, mechanism) -> None:
    answers = []
    for user, password in (("ada", MADE_UP_PASSWORD), ("nobody", "pencil"), ("ada", "")):
        if password or mechanism != LoginMechanism.PLAIN:
            client = world.client(SECURE)
            answers.append(await log_in(world, client, mechanism, user, password))
            assert client.connection.principal == ANONYMOUS
            assert client.connection.session.state is SessionState.CLOSING
            with pytest.raises(CloseConnection):
                client.begin(MetadataRequest(topics=[]), 12)
    assert {(each.error_code, each.error_message, bytes(each.auth_bytes)) for each in answers} == {
        (ErrorCode.SASL_AUTHENTICATION_FAILED, FAILED, b"")
    }


@pytest.mark.parametrize(
    ("mechanism", "version"), [("PLAIN", 1), ("GSSAPI", 1), ("", 1), ("SCRAM-SHA-512", 0)]
)
@scenario(with_ada)
async def test_sa02_other_mechanisms_and_raw_tokens_are_answered_with_the_list(
    world, mechanism, version, caplog
) -> None:
    client = world.client(ONLY_SCRAM)
    answer = await handshake(client, mechanism, version)
    assert (answer.error_code, answer.mechanisms) == (33, ["SCRAM-SHA-512"])
    assert client.connection.session.state is SessionState.CLOSING
    assert "listener SCRAM" in caplog.text and "sasl.mechanism" in caplog.text


@scenario(with_ada)
async def test_sa04_no_other_request_is_answered_or_decoded_before_the_login(world) -> None:
    """The bodies are not those of the requests."""
    for key in sorted(
        ANNOUNCED.keys() - {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
    ):
        for steps in (0, 1, 2):
            client = world.client(SECURE)
            if steps > 0:
                await client.ask(ApiVersionsRequest(client_software_name="c", client_software_version="1"))
            if steps > 1:
                await handshake(client, "PLAIN")
            header = key.to_bytes(2, "big") + ANNOUNCED[key][1].to_bytes(2, "big") + b"\0\0\0\7\0\1c\0"
            with pytest.raises(CloseConnection, match="another request is not expected"):
                world.broker.handle(client.connection, memoryview(bytearray(header + b"\xff" * 9)))


@scenario(with_ada)
async def test_sa03_what_closes_the_connection(world) -> None:
    versions = ApiVersionsRequest(client_software_name="c", client_software_version="1")
    for requests in (
        [SaslAuthenticateRequest(auth_bytes=b"\0ada\0pencil")],
        [versions, versions],
        [versions, SaslAuthenticateRequest(auth_bytes=b"\0ada\0pencil")],
        [SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeRequest(mechanism="PLAIN")],
        [SaslHandshakeRequest(mechanism="PLAIN"), versions],
    ):
        client = world.client(SECURE)
        *allowed, last = requests
        for request in allowed:
            await client.ask(request)
        with pytest.raises(CloseConnection):
            client.begin(last, type(last).versions[1])
    with pytest.raises(CloseConnection):  # GSSAPI of 0.9 begins so
        world.broker.handle(world.client(SECURE).connection, memoryview(bytearray(b"\x60\x81\x02")))


@scenario(with_ada)
async def test_sa03_versions_may_be_asked_until_they_are_understood(world) -> None:
    client = world.client(SECURE)
    unfit = ApiVersionsRequest(client_software_name="-", client_software_version="1")
    assert (await client.ask(unfit)).error_code == 42
    unknown = world.broker.handle(client.connection, memoryview(bytearray(b"\0\x12\0\x63\0\0\0\7\0\1c\0")))
    assert b"".join(unknown)[8:10] == b"\0\x23"
    assert client.connection.session.state is SessionState.START
    assert (await log_in(world, client, "PLAIN")).error_code == 0


@scenario(with_ada)
async def test_sa05_a_stranger_has_few_requests(world) -> None:
    client = world.client(SECURE)
    unfit = ApiVersionsRequest(client_software_name="-", client_software_version="1")
    for _ in range(SASL_FRAMES_MAX):
        await client.ask(unfit)
    with pytest.raises(CloseConnection, match="more than 8 requests"):
        client.begin(unfit, 3)


@scenario(with_ada)
async def test_sa03_after_the_login_a_handshake_is_out_of_place(world) -> None:
    client = world.client(SECURE)
    await log_in(world, client, "PLAIN")
    assert (await handshake(client, "PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    answer = await token(world, client, b"\0ada\0pencil")
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.connection.session.state is SessionState.AUTHENTICATED


@scenario(with_ada)
async def test_a_client_that_wants_a_login_where_there_is_none_is_told_so(world, caplog) -> None:
    client = world.client()
    assert (await handshake(client, "PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert "wants to log in (SASL), and listener PLAINTEXT has no login" in caplog.text
    assert (await client.ask(MetadataRequest(topics=[]))).cluster_id


@scenario(with_ada)
async def test_sa20_the_answer_to_a_wrong_password_waits_and_that_of_others_does_not(world) -> None:
    async def waited_ms(user: str, password: str) -> float:
        client = world.client(SECURE)
        await handshake(client, "PLAIN")
        begun_ms = world.clock.monotonic_ms()
        await token(world, client, f"\0{user}\0{password}".encode())
        return world.clock.monotonic_ms() - begun_ms

    waits = [await waited_ms("ada", MADE_UP_PASSWORD) for _ in range(4)]
    assert waits == sorted(waits) and 100 <= waits[0] <= 250 and waits[3] >= 800
    assert await waited_ms("bob", "brush") < 100
    assert await waited_ms("ada", "pencil") < 100, "nobody is locked out"
    assert await waited_ms("ada", MADE_UP_PASSWORD) <= 250, "a login ends the count"


@scenario(with_ada)
async def test_a_login_that_began_before_a_user_was_removed_fails(world) -> None:
    client = world.client(SECURE)
    await handshake(client, "SCRAM-SHA-512")
    scram = ScramAuthenticator(
        loop=None, sasl_plain_password="pencil", sasl_plain_username="ada", sasl_mechanism="SCRAM-SHA-512"
    )
    challenged = await token(world, client, scram.first_message().encode())
    scram.process_server_first_message(bytes(challenged.auth_bytes).decode())
    removals = tuple(("ada", mechanism) for mechanism in ScramMechanism)
    await world.parts.metadata.execute(AlterUsers(removals))
    answer = await token(world, client, scram.final_message().encode())
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
@scenario(with_ada)
async def test_sa14_a_session_that_expires_logs_in_again(world, mechanism) -> None:
    client = world.client(SHORT)
    assert (await log_in(world, client, mechanism)).session_lifetime_ms == 2_000
    assert (await handshake(client, mechanism)).error_code == ErrorCode.ILLEGAL_SASL_STATE, "too early"
    await world.pass_ms(1_500)
    assert (await log_in(world, client, mechanism)).session_lifetime_ms == 2_000
    await world.pass_ms(1_500)
    assert (await client.ask(MetadataRequest(topics=[]))).cluster_id
    await world.pass_ms(600)
    with pytest.raises(CloseConnection, match="expired"):
        client.begin(MetadataRequest(topics=[]), 12)
    assert (await log_in(world, client, mechanism)).error_code == 0, "the handshake may come late"
    assert world.broker.logins().expired == 1


@scenario(with_ada)
async def test_sa14_a_session_logs_in_again_as_often_as_it_expires(world) -> None:
    client = world.client(SHORT)
    for _ in range(2 * SASL_FRAMES_MAX):
        assert (await log_in(world, client, "SCRAM-SHA-512")).error_code == 0
        await world.pass_ms(1_500)


@pytest.mark.parametrize("again", [("SCRAM-SHA-512", "bob", "brush"), ("PLAIN", "ada", "pencil")])
@scenario(with_ada)
async def test_sa14_not_as_another_user_and_not_by_another_mechanism(world, again) -> None:
    client = world.client(SHORT)
    await log_in(world, client, "SCRAM-SHA-512")
    await world.pass_ms(1_500)
    answer = await log_in(world, client, *again)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.connection.principal == Principal("ada")
    assert client.connection.session.state is SessionState.CLOSING


@scenario(with_ada)
async def test_sa19_no_secret_of_a_login_is_logged_and_failures_once_a_minute(world, caplog) -> None:
    with caplog.at_level(logging.DEBUG):
        for mechanism in BY_PASSWORD:
            await log_in(world, world.client(SECURE), mechanism)
            await log_in(world, world.client(SECURE), mechanism, password=MADE_UP_PASSWORD)
    warned = [each.getMessage() for each in caplog.records if "a login from" in each.getMessage()]
    assert len(warned) == 3 and all("client.example" in each and "'ada'" in each for each in warned)
    levels = [each.levelno for each in caplog.records if "a login from" in each.getMessage()]
    assert levels == [logging.WARNING, logging.DEBUG, logging.DEBUG]
    user = world.parts.metadata.image.users["ada"].credentials[0]
    for secret in (MADE_UP_PASSWORD, "pencil", user.stored_key.hex(), user.salt.decode()):
        assert secret not in caplog.text


@scenario(with_ada)
async def test_logins_are_counted(world) -> None:
    await log_in(world, world.client(SECURE), "PLAIN")
    await log_in(world, world.client(SECURE), "PLAIN", password=MADE_UP_PASSWORD)
    counted = world.broker.logins()
    assert {name: count for name, count in counted.succeeded.items() if count} == {"PLAIN": 1}
    assert counted.failed["PLAIN"] == 1


@scenario(with_ada)
async def test_a_node_that_closes_answers_the_wrong_passwords_that_wait(world) -> None:
    client = world.client(SECURE)
    await handshake(client, "PLAIN")
    answer = client.send(SaslAuthenticateRequest(auth_bytes=b"\0ada\0wrong"), 2)
    await settled()
    assert not answer.done()
    world.broker.end_waits()
    assert (await answer).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


REQUESTS = st.one_of(
    st.builds(lambda name: (ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3), st.text()),
    st.builds(
        lambda name, version: (SaslHandshakeRequest(mechanism=name), version),
        st.sampled_from([*LoginMechanism, "GSSAPI"]), st.integers(0, 1),
    ),
    st.builds(
        lambda token, version: (SaslAuthenticateRequest(auth_bytes=token), version),
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from([b"n,,n=ada,r=abc", b"c=biws,r=abc,p=AAAA", b"\0ada\0wrong", b"n,,n=nobody,r=abc"]),
        ),
        st.integers(0, 2),
    ),
    st.just((MetadataRequest(topics=[]), 12)),
)  # fmt: skip


@given(st.lists(st.lists(REQUESTS, max_size=10), min_size=1, max_size=20))
def test_sa03_whatever_a_client_sends_without_the_password_it_is_nobody(sequences):
    async def scenario(world):
        for requests in sequences:
            client = world.client(SECURE)
            for request, version in requests:
                try:
                    handled = client.begin(request, version)
                    task = asyncio.ensure_future(handled) if inspect.isawaitable(handled) else None
                    while task is not None and not task.done():
                        await world.pass_ms(5_000)
                    assert task is None or task.result()
                except CloseConnection:
                    break
                assert client.connection.principal == ANONYMOUS
                assert client.connection.session.state is not SessionState.AUTHENTICATED

    with_ada(scenario)
