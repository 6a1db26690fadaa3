"""Nodes that log in to a broker, and clients that claim to be nodes: every answer, and what each may ask then."""

import logging
from typing import Any

import pytest

from siltstone.broker.request import CloseConnection, Listener
from siltstone.broker.security.node_rights import NODE_RIGHTS
from siltstone.broker.security.sasl.node import NodeCall
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest
from siltstone.kafka_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from siltstone.metadata.commands import FenceNode, RegisterNode
from siltstone.metadata.entities import NodeLife, NodeListener
from siltstone.metadata.refusals import Refusal
from siltstone.model.access import (
    ANONYMOUS,
    NODE,
    LoginMechanism,
    NodeMechanism,
    Principal,
    SecurityProtocol,
    SessionState,
)
from siltstone.model.acls import AclOperation, AclResourceType
from siltstone.model.secret import Secret
from support.broker.broker_world import NODES_LISTENER, BrokerWorld, Client, in_broker_world
from support.broker.every_request import plain_request
from support.kafka.raw_calls import RawTopic
from support.scenarios import scenario
from support.security.credentials import users_command
from support.security.rights import ROOT, allow, client_of, switch
from unit.broker.security.test_authenticator import SECURE, log_in, token

OF_NODES = {
    protocol: Listener(
        NODES_LISTENER, "kafka.example", 9096, protocol, tuple(LoginMechanism) if protocol.wants_login else ()
    )
    for protocol in SecurityProtocol
}
ENCRYPTED = OF_NODES[SecurityProtocol.SASL_SSL]
SECRET = Secret("ab" * 32)
NONCE = b"n" * 32
CHANNEL = b"hash of the listener's certificate"
MARKERS = WriteTxnMarkersRequest(
    markers=[
        WritableTxnMarker(
            producer_id=1,
            producer_epoch=0,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            coordinator_epoch=0,
        )
    ]
)


async def other_node(world: BrokerWorld, *, is_known: bool = True) -> NodeLife:
    command = RegisterNode(5, "a life", "wal-of-5", listeners=(NodeListener(NODES_LISTENER, "h", 1),))
    epoch = (await world.parts.metadata.execute(command)).node_epoch
    life = NodeLife(5, epoch, "a life")
    (world.secrets.known if is_known else world.secrets.on_board)[life] = SECRET
    return life


def node_client(world: BrokerWorld, listener: Listener = ENCRYPTED) -> Client:
    client = world.client(listener)
    client.connection.channel = CHANNEL
    return client


async def prove(
    world: BrokerWorld, client: Client, life: NodeLife, secret: Secret = SECRET, channel: bytes = CHANNEL
) -> Any:
    """Returns the last answer of the login, after a look at the proof of the broker."""
    begun = await client.ask(SaslHandshakeRequest(mechanism=NodeMechanism.SILTSTONE_NODE), 1)
    assert begun.error_code == 0, begun
    own = world.secrets.own
    call = NodeCall(life, secret, own.node_id, own.node_epoch, NONCE, channel)
    challenged = await token(world, client, call.claim, 1)
    if challenged.error_code:
        return challenged
    last = await token(world, client, call.proof(bytes(challenged.auth_bytes)), 1)
    if not last.error_code:
        call.check(bytes(last.auth_bytes))
    return last


def marker_codes(answer: Any) -> list[int]:
    return [part.error_code for each in answer.markers for topic in each.topics for part in topic.partitions]


@pytest.mark.parametrize("protocol", SecurityProtocol)
@scenario(in_broker_world)
async def test_nd01_a_node_proves_itself_at_every_kind_of_listener(world, protocol) -> None:
    life = await other_node(world)
    client = node_client(world, OF_NODES[protocol])
    done = await prove(world, client, life)
    assert (done.error_code, done.session_lifetime_ms) == (0, 0)
    session = client.connection.session
    assert (client.connection.principal, session.node, session.state) == (
        NODE, life, SessionState.AUTHENTICATED,
    )  # fmt: skip
    assert (await client.ask(WriteTxnMarkersRequest(markers=[]))).markers == []
    assert world.broker.logins().succeeded["SILTSTONE-NODE"] == 1


@scenario(in_broker_world)
async def test_nd01_markers_with_rights_on_by_a_node_a_client_and_a_tool(world) -> None:
    await world.topic("t")
    life = await other_node(world)
    await switch(world, allow(AclOperation.ALL, AclResourceType.TOPIC, "*", principal=Principal("*")))
    client = node_client(world)
    await prove(world, client, life)
    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED not in marker_codes(await client.ask(MARKERS))
    denied = marker_codes(await client_of(world).ask(MARKERS))
    assert denied == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    by_tool = marker_codes(await client_of(world, ROOT).ask(MARKERS))
    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED not in by_tool, "kafka-transactions aborts with ALTER"


@scenario(in_broker_world)
async def test_nd01_a_node_may_ask_for_what_the_table_has_and_for_nothing_else(world) -> None:
    topic = await world.topic("t")
    life = await other_node(world)
    client = node_client(world)
    await prove(world, client, life)
    for switched in (False, True):
        if switched:
            await switch(world, allow(AclOperation.ALL, AclResourceType.CLUSTER, principal=NODE))
        for key, versions in ANNOUNCED.items():
            if key in NODE_RIGHTS or key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
                continue
            version = versions[1]
            request = plain_request(key, version, RawTopic(topic.name, bytes.fromhex(topic.id)))
            with pytest.raises(CloseConnection, match="a node may not ask for"):
                await client.ask(request, version)
    assert set(NODE_RIGHTS) == {
        ApiKey.API_VERSIONS, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.WRITE_TXN_MARKERS, ApiKey.PRODUCE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    }, "a new row is a new right of every node: say in docs/security.md what for"  # fmt: skip


@scenario(in_broker_world)
async def test_nd02_what_the_metadata_shows_proves_nothing(world) -> None:
    """A reader of the metadata knows every life, and the salts; none of it is the secret."""
    life = await other_node(world)
    image = world.parts.metadata.image
    shown = [value for _, value in image.keys.items()] + [life.incarnation.encode(), b""]
    for value in shown:
        client = node_client(world)
        assert (await prove(world, client, life, Secret((value * 32)[:32].hex()))).error_code == 58
        assert client.connection.principal == ANONYMOUS
        with pytest.raises(CloseConnection):
            await client.ask(MARKERS)
    assert SECRET.revealed().encode() not in b"".join(shown)


@scenario(in_broker_world)
async def test_nd04_at_listeners_of_clients_the_mechanism_is_unknown_and_unlisted(world) -> None:
    for listener, code in ((SECURE, 33), (None, 34)):
        client = world.client(listener)
        answer = await client.ask(SaslHandshakeRequest(mechanism=NodeMechanism.SILTSTONE_NODE), 1)
        assert answer.error_code == code
        assert NodeMechanism.SILTSTONE_NODE not in answer.mechanisms
    wrong = await world.client(ENCRYPTED).ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    assert (wrong.error_code, NodeMechanism.SILTSTONE_NODE in wrong.mechanisms) == (33, False)
    raw = await world.client(ENCRYPTED).ask(SaslHandshakeRequest(mechanism=NodeMechanism.SILTSTONE_NODE), 0)
    assert raw.error_code == 33


@scenario(in_broker_world)
async def test_nd04_nobody_else_gets_the_name(world) -> None:
    with pytest.raises(Refusal):
        await world.parts.metadata.execute(users_command(**{NODE.name: "pencil"}))
    for mechanism in set(LoginMechanism) - {LoginMechanism.OAUTHBEARER}:
        client = world.client(SECURE)
        assert (await log_in(world, client, mechanism, NODE.name)).error_code == 58
        assert client.connection.principal == ANONYMOUS
    claimed = client_of(world, Principal(NODE.name))
    await switch(world)
    assert marker_codes(await claimed.ask(MARKERS)) == [31], "the name alone gives no right"


@scenario(in_broker_world)
async def test_nd04_a_client_that_has_logged_in_becomes_no_node(world) -> None:
    await world.parts.metadata.execute(users_command(ada="pencil"))
    life = await other_node(world)
    client = node_client(world)
    await log_in(world, client, "SCRAM-SHA-512")
    answer = await client.ask(SaslHandshakeRequest(mechanism=NodeMechanism.SILTSTONE_NODE), 1)
    assert (answer.error_code, client.connection.principal) == (34, Principal("ada"))
    node = node_client(world)
    await prove(world, node, life)
    answer = await node.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
    assert (answer.error_code, node.connection.principal) == (34, NODE)


@scenario(in_broker_world)
async def test_nd05_a_life_that_is_over_or_fenced_is_refused(world) -> None:
    life = await other_node(world)
    client = node_client(world)
    begun = node_client(world)
    await begun.ask(SaslHandshakeRequest(mechanism=NodeMechanism.SILTSTONE_NODE), 1)
    own = world.secrets.own
    call = NodeCall(life, SECRET, own.node_id, own.node_epoch, NONCE, CHANNEL)
    challenge = bytes((await token(world, begun, call.claim, 1)).auth_bytes)
    await world.parts.metadata.execute(FenceNode(life.node_id, life.node_epoch))
    assert (await prove(world, client, life)).error_code == 58
    assert (await token(world, begun, call.proof(challenge), 1)).error_code == 58, "fenced during the login"
    other_incarnation = NodeLife(life.node_id, life.node_epoch, "another process")
    assert (await prove(world, node_client(world), other_incarnation)).error_code == 58


@scenario(in_broker_world)
async def test_nd06_a_proof_for_another_certificate_is_refused(world) -> None:
    life = await other_node(world)
    relayed = await prove(world, node_client(world), life, channel=b"the certificate of the relay")
    assert relayed.error_code == 58
    assert (await prove(world, node_client(world), life, channel=b"")).error_code == 58


@scenario(in_broker_world)
async def test_nd03_a_node_that_has_just_started_is_known_after_one_more_reading(world) -> None:
    life = await other_node(world, is_known=False)
    assert (await prove(world, node_client(world), life)).error_code == 0


@scenario(in_broker_world)
async def test_nd04_before_the_proof_nothing_else_is_answered(world) -> None:
    """Also at a listener without a login: what a client claims ends what it may do there."""
    await other_node(world)
    client = node_client(world, OF_NODES[SecurityProtocol.PLAINTEXT])
    assert (await client.ask(MetadataRequest(topics=[]))).cluster_id
    await client.ask(SaslHandshakeRequest(mechanism=NodeMechanism.SILTSTONE_NODE), 1)
    for request in (MetadataRequest(topics=[]), ApiVersionsRequest(), MARKERS):
        with pytest.raises(CloseConnection):
            await client.ask(request)


@scenario(in_broker_world)
async def test_sa19_the_log_has_neither_secret_nor_proof(world, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    life = await other_node(world)
    client = node_client(world)
    await prove(world, client, life)
    await prove(world, node_client(world), life, Secret("cd" * 32))
    assert "as 'node 5' failed: the proof is wrong" in caplog.text
    shown = caplog.text + repr(client.connection) + repr(world.secrets) + repr(vars(world.secrets))
    assert "abab" not in shown
    assert "cdcd" not in shown
