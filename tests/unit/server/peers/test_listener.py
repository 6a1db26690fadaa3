"""By which listener nodes reach each other: what the store names, what a node takes by itself, and the address."""

from types import SimpleNamespace

import pytest

from siltstone.broker.peers import PeerUnreachable
from siltstone.broker.request import Listener
from siltstone.metadata.acls import SetAuthorization
from siltstone.metadata.entities import NodeListener
from siltstone.metadata.node_address import ListenerMissing, choose_node_listener
from siltstone.model.access import SecurityProtocol
from siltstone.model.acls import AuthorizationMode
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import SystemClock
from siltstone.server.network.certificates import Certificates
from siltstone.server.network.listener_settings import CertificateWanted, ListenerSettings
from siltstone.server.peers.listener import NodesListener, told_listener, warn_of_plaintext
from support.metadata.metadata_world import MetadataWorld
from support.scenarios import in_loop
from support.tls.authority import Authority


def listener(name: str, protocol: SecurityProtocol) -> Listener:
    return Listener(name, "broker.example", 9092, protocol)


OPEN, ENCRYPTED, LOGIN, SECURE = (
    listener(each.name, each)
    for each in (
        SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL, SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL,
    )
)  # fmt: skip


def test_scans_and_nodes_are_told_the_listener_that_needs_least() -> None:
    world = MetadataWorld()
    for listeners, told in (
        ([SECURE, LOGIN, ENCRYPTED, OPEN], OPEN),
        ([SECURE, LOGIN, ENCRYPTED], ENCRYPTED),
        ([SECURE, LOGIN], LOGIN),
        ([SECURE], SECURE),
    ):
        assert told_listener(0, listeners, world.image) is told


def test_a_listener_that_the_store_names_is_told_or_missing() -> None:
    world = MetadataWorld()
    for command in choose_node_listener(world.image, "SSL"):
        world.do(command)
    assert told_listener(0, [OPEN, ENCRYPTED], world.image) is ENCRYPTED
    with pytest.raises(ListenerMissing, match="node 0 has no listener SSL"):
        told_listener(0, [OPEN], world.image)


def reached(listeners: list[Listener], world: MetadataWorld, **settings: ListenerSettings) -> NodesListener:
    return NodesListener(
        0, listeners, lambda: world.image, settings, Certificates(settings, SystemClock()), InlineCalls()
    )


def test_nd09_a_running_node_follows_the_store_to_another_listener() -> None:
    world = MetadataWorld()
    nodes = reached([OPEN, LOGIN], world)
    assert [nodes.is_entrance(each) for each in (OPEN, LOGIN)] == [True, False]
    for command in choose_node_listener(world.image, "SASL_PLAINTEXT"):
        world.do(command)
    assert [nodes.is_entrance(each) for each in (OPEN, LOGIN)] == [False, True]
    assert not reached([OPEN], world).is_entrance(OPEN), "a node without the listener of the nodes takes none"


def test_a_cluster_with_rights_and_without_tls_between_machines_is_warned(caplog) -> None:
    world = MetadataWorld()
    world.register(0)
    local = Listener("LOCAL", "127.0.0.1", 9092)
    warn_of_plaintext(OPEN, 0, world.image)
    world.do(SetAuthorization(AuthorizationMode.ON, added=("User:root",)))
    warn_of_plaintext(OPEN, 0, world.image)
    world.register(1)
    warn_of_plaintext(ENCRYPTED, 0, world.image)
    warn_of_plaintext(local, 0, world.image)
    assert not caplog.records
    warn_of_plaintext(OPEN, 0, world.image)
    assert "by listener PLAINTEXT without TLS" in caplog.text


@in_loop
async def test_nd09_another_node_is_reached_at_its_listener_of_that_name() -> None:
    world = MetadataWorld()
    nodes = reached([OPEN], world)
    other = SimpleNamespace(
        node_id=1, listeners=(NodeListener("X", "a", 1), NodeListener("PLAINTEXT", "b", 2))
    )
    address = await nodes.address_of(other)
    assert (address.host, address.port, address.context) == ("b", 2, None)
    with pytest.raises(PeerUnreachable, match="it has no listener PLAINTEXT"):
        await nodes.address_of(SimpleNamespace(node_id=1, listeners=()))
    for command in choose_node_listener(world.image, "SSL"):
        world.do(command)
    with pytest.raises(PeerUnreachable, match="node 0 has no listener SSL"):
        await nodes.address_of(other)


@in_loop
async def test_nd12_a_node_calls_with_its_own_certificate_where_certificates_are_wanted(tmp_path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("node")
    files = {"tls_certificate_file": str(pair.certificate), "tls_key_file": str(pair.key)}
    wanted = ListenerSettings(
        **files, tls_client_ca_file=str(authority.file), tls_client_auth=CertificateWanted.REQUIRED
    )
    nodes = reached([ENCRYPTED], MetadataWorld(), SSL=wanted)
    other = SimpleNamespace(node_id=1, listeners=(NodeListener("SSL", "b", 2),))
    first, second = (await nodes.address_of(other)).context, (await nodes.address_of(other)).context
    assert first is second is not None, "files are read when they have changed"
    pair.key.unlink()
    with pytest.raises(PeerUnreachable, match=r"tls_key_file: .* cannot be read"):
        await reached_again(wanted).address_of(other)


def reached_again(wanted: ListenerSettings) -> NodesListener:
    """A node whose certificates were read before a file was lost."""
    serving = SimpleNamespace(of=lambda _: SimpleNamespace(fingerprint=b"other"))
    return NodesListener(
        0, [ENCRYPTED], lambda: MetadataWorld().image, {"SSL": wanted}, serving, InlineCalls()
    )
