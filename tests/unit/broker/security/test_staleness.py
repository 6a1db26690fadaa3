"""A node that cannot read its metadata: what it answers meanwhile, when it stops, and that it is back at once."""

import logging

import pytest

from siltstone.broker.request import CloseConnection
from siltstone.broker.security.staleness import ANSWERED_WHEN_STALE
from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest
from siltstone.metadata.store.port import LogUnavailable
from siltstone.model.acls import AclOperation, AclResourceType, AuthorizationMode
from siltstone.model.limits import MINUTE_MS
from support.broker.broker_world import BrokerWorld, Client, in_broker_world
from support.broker.every_request import plain_request
from support.kafka.raw_calls import RawTopic
from support.scenarios import scenario
from support.security.credentials import users_command
from support.security.rights import ROOT, STRANGER, allow, client_of, refusals_in, switch
from unit.broker.security.test_authenticator import SECURE, log_in

LIMIT_MS = BrokerSettings().security_stale_ms_max


async def lose_metadata(world: BrokerWorld) -> None:
    world.calls.fail("refresh", LogUnavailable("the database is away"))


async def passes(world: BrokerWorld, duration_ms: float) -> None:
    """In steps, as time passes: the log is tried ten times a second."""
    for _ in range(10):
        await world.pass_ms(duration_ms / 10)


async def asked(world: BrokerWorld, client: Client, key: ApiKey, topic: RawTopic) -> set[int]:
    """Returns the error codes of the answer to a plain request."""
    version = ANNOUNCED[key][1]
    answer = client.send(plain_request(key, version, topic), version)
    while not answer.done():
        await world.pass_ms(100)
    return {code for _, code in refusals_in(await answer)}


async def guarded(world: BrokerWorld) -> tuple[RawTopic, Client]:
    """A topic, rights that are on, and a client that may do everything with topics and groups."""
    topic = await world.topic("t")
    await world.partition(topic)
    await world.parts.metadata.execute(users_command(ada="pencil"))
    everything = [
        allow(AclOperation.ALL, kind, "*", principal=STRANGER)
        for kind in (AclResourceType.TOPIC, AclResourceType.GROUP)
    ]
    await switch(world, *everything)
    return RawTopic("t", bytes.fromhex(topic.id)), client_of(world)


@scenario(in_broker_world, grows_stale=True)
async def test_nd08_a_node_without_metadata_goes_on_for_the_stated_time(world) -> None:
    topic, client = await guarded(world)
    await lose_metadata(world)
    await passes(world, LIMIT_MS - MINUTE_MS)
    assert await asked(world, client, ApiKey.PRODUCE, topic) == set()
    assert (await log_in(world, world.client(SECURE), "SCRAM-SHA-512")).error_code == 0
    assert not world.broker.staleness.is_over


@scenario(in_broker_world, grows_stale=True)
async def test_nd08_after_that_it_is_no_leader_and_no_coordinator_and_closes_all_else(world, caplog) -> None:
    topic, client = await guarded(world)
    logged_in = world.client(SECURE)
    await log_in(world, logged_in, "SCRAM-SHA-512")
    await lose_metadata(world)
    await passes(world, LIMIT_MS + MINUTE_MS)
    caplog.clear()
    codes = {key: await asked(world, client, key, topic) for key in sorted(ANSWERED_WHEN_STALE)}
    leaders, groups = {ApiKey.PRODUCE, ApiKey.FETCH}, ANSWERED_WHEN_STALE - {ApiKey.PRODUCE, ApiKey.FETCH}
    assert {key: codes[key] for key in leaders} == {
        key: {ErrorCode.NOT_LEADER_OR_FOLLOWER} for key in leaders
    }
    assert {key: codes[key] for key in groups} == {key: {ErrorCode.NOT_COORDINATOR} for key in groups}
    for each in (client, logged_in, client_of(world, ROOT)):
        for key in ANNOUNCED.keys() - ANSWERED_WHEN_STALE:
            with pytest.raises(CloseConnection, match="could not be read for 300 s"):
                await asked(world, each, key, topic)
    with pytest.raises(CloseConnection):
        await world.client(SECURE).ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert [each.levelno for each in caplog.records if "clients are turned away" in each.message] == [
        logging.ERROR
    ]


@scenario(in_broker_world, grows_stale=True)
async def test_nd08_it_serves_at_once_when_the_metadata_is_back(world, caplog) -> None:
    topic, client = await guarded(world)
    before = world.calls.before_call
    await lose_metadata(world)
    await passes(world, LIMIT_MS + MINUTE_MS)
    assert world.broker.staleness.is_over
    world.calls.before_call = before
    await world.pass_ms(100)
    assert await asked(world, client, ApiKey.PRODUCE, topic) == set()
    assert "clients are served by the newest users and rights" in caplog.text


@scenario(in_broker_world, grows_stale=True)
async def test_nd08_without_logins_and_rights_a_node_goes_on_as_ever(world) -> None:
    world.has_logins = False
    await world.restart()
    topic = await world.topic("t")
    await world.partition(topic)
    raw, client = RawTopic("t", bytes.fromhex(topic.id)), world.client()
    before = world.calls.before_call
    for mode, is_over in ((None, False), (AuthorizationMode.REPORT, False), (AuthorizationMode.ON, True)):
        if mode is not None:
            await switch(world, mode=mode)
        await lose_metadata(world)
        await passes(world, LIMIT_MS + MINUTE_MS)
        assert world.broker.staleness.is_over is is_over, mode
        assert await asked(world, client, ApiKey.PRODUCE, raw) == ({6} if is_over else set())
        world.calls.before_call = before
        await world.pass_ms(200)
