"""Real nodes in one process ask each other over sockets: at every kind of listener, through a relay, and over a change
of the listener by which they reach each other. See the rows ND of docs/scenarios.md."""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

import siltstone
from siltstone.broker.peers import PeerUnreachable
from siltstone.kafka_protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from siltstone.metadata.commands import FenceNode
from siltstone.metadata.node_address import choose_node_listener, node_listener
from siltstone.model.access import NODE
from siltstone.server.kafka_node import KafkaNode, running_kafka_node
from siltstone.server.node_listeners import addresses_of
from siltstone.server.settings.node import load_node_settings
from support.processes.cli import run
from support.scenarios import in_loop
from support.tls.authority import Authority

MARKERS = WriteTxnMarkersRequest(markers=[])
USERS = {"ada": "pencil", "bob": "brush"}


def on_node(broker: siltstone.Broker, number: int, work: Callable[[KafkaNode], Any]) -> Any:
    return broker._thread(number).ask(work)


async def _until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def ask_all(node: KafkaNode) -> list[int]:
    """Asks every other node, as soon as this one knows of it; returns which have answered."""
    image, own = node.node.metadata, node.node.engine.node_id
    await _until(lambda: sum(each.is_live for each in image.image.nodes.values()) == 3)
    others = [number for number in range(3) if number != own]
    for number in others:
        async with asyncio.timeout(60):
            while not await _answers(node, number):
                await asyncio.sleep(0.05)
    return others


async def _answers(node: KafkaNode, number: int) -> bool:
    """A node is asked again when it could not answer, as callers of Peers do."""
    try:
        return not (await node.broker.parts.peers.ask(number, MARKERS, WriteTxnMarkersResponse)).markers
    except PeerUnreachable:
        return False


def logins_of_nodes(broker: siltstone.Broker) -> list[tuple[int, int]]:
    """Node → how many logins of nodes have succeeded and failed."""

    async def counted(node: KafkaNode) -> tuple[int, int]:
        logins = node.broker.logins()
        return logins.succeeded["SILTSTONE-NODE"], logins.failed["SILTSTONE-NODE"]

    return [on_node(broker, number, counted) for number in range(3)]


@pytest.mark.parametrize("users", [None, USERS], ids=["open", "login"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_nd01_every_node_asks_every_other_one_at_every_kind_of_listener(tls: bool, users: Any) -> None:
    with siltstone.Broker(tls=tls, users=users, nodes=3) as broker:
        for number in range(3):
            assert on_node(broker, number, ask_all) == [each for each in range(3) if each != number]
        assert logins_of_nodes(broker) == [(2, 0)] * 3


def test_nd11_a_secured_cluster_serves_its_users() -> None:
    """The whole of it in one line, with every leader behind the same login."""
    with siltstone.Broker(tls=True, users=USERS, nodes=3, settings={"broker.num_partitions": "6"}) as broker:
        producer = Producer(broker.client_config("ada"))
        for number in range(60):
            producer.produce("t", str(number).encode(), partition=number % 6)
        assert producer.flush(60) == 0
        consumer = Consumer({
            **broker.client_config("bob"), "group.id": "g", "auto.offset.reset": "earliest",
        })  # fmt: skip
        consumer.subscribe(["t"])
        got = []
        while len(got) < 60:
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None, message.error()
            got.append(int(message.value()))
        consumer.close()
        assert sorted(got) == [*range(60)]
        broker.restart(1)
        assert on_node(broker, 0, ask_all) == [1, 2], "a life of its own, with a secret of its own"


def test_nd05_a_fenced_life_is_closed_and_comes_back_by_another_proof() -> None:
    with siltstone.Broker(users=USERS, nodes=3) as broker:
        on_node(broker, 1, ask_all)

        async def fence(node: KafkaNode) -> None:
            listeners = node.listeners
            await _until(lambda: any(each.principal == "User:siltstone-node" for each in listeners.clients()))
            other = node.node.metadata.image.nodes[1]
            await node.node.metadata.execute(FenceNode(1, other.node_epoch))
            await _until(
                lambda: not any(each.principal == "User:siltstone-node" for each in listeners.clients())
            )

        on_node(broker, 0, fence)
        on_node(broker, 1, ask_all)


class Relay:
    """Stands between two nodes, and passes all on. With ``context`` it ends the TLS of the caller and makes its own."""

    def __init__(self, port: int, context: ssl.SSLContext | None) -> None:
        self.port = port
        self._context = context
        self.passed = 0

    async def __aenter__(self) -> "Relay":
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0, ssl=self._context)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    @property
    def own_port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        outward = None
        if self._context is not None:
            outward = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            outward.check_hostname = False
            outward.verify_mode = ssl.CERT_NONE
        there, back = await asyncio.open_connection("127.0.0.1", self.port, ssl=outward)
        await asyncio.gather(self._pass(reader, back), self._pass(there, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                self.passed += len(data)
                writer.write(data)
        except OSError:
            pass
        finally:
            writer.close()


def through_relay(relay_context: ssl.SSLContext | None, refused: bool) -> Callable[[KafkaNode], Any]:
    async def ask(node: KafkaNode) -> None:
        peers = node.broker.parts.peers
        await _until(lambda: 1 in node.node.metadata.image.nodes)
        right = await peers._address_of(node.node.metadata.image.nodes[1])
        async with Relay(right.port, relay_context) as relay:

            async def address_of(_: object) -> Any:
                return type(right)(right.host, relay.own_port, right.context)

            peers._address_of = address_of
            if refused:
                with pytest.raises(PeerUnreachable, match="it refuses the proof of this node"):
                    await peers.ask(1, MARKERS, WriteTxnMarkersResponse)
            else:
                await peers.ask(1, MARKERS, WriteTxnMarkersResponse)
            assert relay.passed

    return ask


def test_nd06_a_relay_with_a_certificate_of_its_own_is_refused(tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue("relay")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    with siltstone.Broker(tls=True, users=USERS, nodes=2) as broker:
        on_node(broker, 0, through_relay(context, refused=True))


def test_nd06_a_relay_that_only_passes_on_gains_nothing_by_tls() -> None:
    with siltstone.Broker(tls=True, nodes=2) as broker:
        on_node(broker, 0, through_relay(None, refused=False))


@pytest.fixture
def mutual(tmp_path: Path) -> Iterator[siltstone.Broker]:
    """Two nodes at a listener that requires certificates."""
    authority = Authority(tmp_path)
    pair = authority.issue("node")
    settings = {
        "listener.SSL.tls_certificate_file": str(pair.certificate),
        "listener.SSL.tls_key_file": str(pair.key),
        "listener.SSL.tls_client_ca_file": str(authority.file),
        "listener.SSL.tls_client_auth": "required",
    }
    with siltstone.Broker(tls=True, nodes=3, settings=settings) as broker:
        yield broker


def test_nd12_mutual_tls_is_a_lock_more(mutual: siltstone.Broker) -> None:
    assert on_node(mutual, 0, ask_all) == [1, 2]


TWO_LISTENERS = {
    "listeners": "OPEN://127.0.0.1:0,LOGIN://127.0.0.1:0",
    "listener.OPEN.protocol": "PLAINTEXT",
    "listener.LOGIN.protocol": "SASL_PLAINTEXT",
    "engine.wal.sync": "never",
}


def _is_chosen(node: KafkaNode, name: str) -> bool:
    return node_listener(node.node.metadata.image) == name


def entered(folder: Path, number: int) -> Any:
    settings = load_node_settings(folder, flags={**TWO_LISTENERS, "engine.node_id": str(number)})
    return running_kafka_node(settings, addresses_of(settings))


@in_loop
async def test_nd09_nodes_go_over_to_another_listener_while_they_run(tmp_path: Path) -> None:
    """``siltstone nodes listener NAME`` to one with a login, and back; and a node that starts after it."""
    async with AsyncExitStack() as opened:
        nodes = [await opened.enter_async_context(entered(tmp_path, number)) for number in range(2)]
        async with entered(tmp_path, 2) as third:
            assert await ask_all(third) == [0, 1]
            for name in ("LOGIN", "OPEN", "LOGIN"):
                for command in choose_node_listener(third.node.metadata.image, name):
                    await third.node.metadata.execute(command)
                for node in (*nodes, third):
                    for life in list(node.broker.parts.peers._open):
                        node.broker.parts.peers._open.pop(life).close()
                    await _until(partial(_is_chosen, node, name))
                for node in (*nodes, third):
                    assert len(await ask_all(node)) == 2
                for node in (*nodes, third):
                    newest = [
                        each.listener for each in node.listeners.clients() if each.principal == str(NODE)
                    ]
                    assert name in newest
        async with entered(tmp_path, 2) as third:
            assert await ask_all(third) == [0, 1], "it starts at a listener with a login"
            assert await ask_all(nodes[0]) == [1, 2]


def test_ro02_new_secrets_end_what_is_open_and_nodes_reach_each_other_by_them() -> None:
    with siltstone.Broker(nodes=3) as broker:
        assert [on_node(broker, number, ask_all) for number in range(3)] == [[1, 2], [0, 2], [0, 1]]
        before = secrets_of(broker)
        done = run("nodes", "new-secrets", "--store", broker.folder)
        assert done.words == "3 nodes made a new secret; the old ones prove nothing any more.", done.err
        assert not before & secrets_of(broker)
        assert not any(secret in done.out + done.err for secret in before)
        deadline = time.monotonic() + 60
        while not all(
            succeeded >= 4 for succeeded, _ in logins_of_nodes(broker)
        ):  # two before, and two again
            assert [on_node(broker, number, ask_all) for number in range(3)] == [[1, 2], [0, 2], [0, 1]]
            assert time.monotonic() < deadline


def secrets_of(broker: siltstone.Broker) -> set[str]:
    async def own(node: KafkaNode) -> str:
        return node.node.place.secrets.own_secret.revealed()

    return {on_node(broker, number, own) for number in range(3)}
