"""One connection to each node: opened once for all that ask, ended with the life of the node, not tried in a storm."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.broker.peers import PEER_TIME_LIMIT_MS, PeerUnreachable, UnknownPeers
from siltstone.kafka_protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from siltstone.metadata.commands import FenceNode
from siltstone.metadata.entities import NodeMetadata
from siltstone.metadata.unreachable_nodes import unreachable_from
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from siltstone.server.peers.connection import OPENING_MS_MAX, PeerAddress
from siltstone.server.peers.opening import TELL_INTERVAL_MS, tell_for_ever
from siltstone.server.peers.peers import AGAIN_AFTER_MS, PeerConnections
from support.kafka.network_world import turns
from support.metadata.metadata_world import MetadataWorld
from support.scenarios import in_loop
from unit.server.peers.test_connection import ANSWERER, CALLER, SECRET, FakeNode, answered

MARKERS = WriteTxnMarkersRequest(markers=[])


class Reached:
    """Peers of a world with the nodes 1 and 2, of which 2 is a fake that listens while the block runs."""

    def __init__(self) -> None:
        self.world = MetadataWorld()
        self.world.register(1)
        self.world.register(2)
        self.node = FakeNode()
        self.node.answers = answered
        self.clock = ManualClock()
        self.addresses_asked = 0
        self.port = 0
        self.hangs = False
        answerer = self.world.image.nodes[2]
        self.node._exchange._own = answerer.life
        secrets = SimpleNamespace(own=self.world.image.nodes[1].life, own_secret=SECRET)
        self.peers = PeerConnections(
            secrets, lambda: self.world.image, self._address_of, self.clock, seeded_randomness(1)
        )

    async def _address_of(self, node: NodeMetadata) -> PeerAddress:
        self.addresses_asked += 1
        while self.hangs:
            await asyncio.sleep(0)
        return PeerAddress("127.0.0.1", self.port)

    async def __aenter__(self) -> "Reached":
        self._server = await asyncio.start_server(self.node.serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.peers.close()
        self._server.close()

    async def ask(self) -> WriteTxnMarkersResponse:
        return await self.peers.ask(2, MARKERS, WriteTxnMarkersResponse)


@in_loop
async def test_all_that_ask_share_one_connection() -> None:
    async with Reached() as reached:
        await asyncio.gather(*(reached.ask() for _ in range(10)))
        await reached.ask()
        assert (reached.addresses_asked, reached.node.asked) == (1, 11)


@in_loop
async def test_nd01_a_connection_ends_with_the_life_of_the_other_node() -> None:
    async with Reached() as reached:
        await reached.ask()
        reached.world.do(FenceNode(2, 1))
        asking = asyncio.ensure_future(reached.ask())
        with pytest.raises(PeerUnreachable, match="it is not live"):
            await asking
        reached.peers.follow(reached.world.image)
        assert not reached.peers._open
    with pytest.raises(PeerUnreachable, match="node 9 cannot be asked: it is not live"):
        await reached.peers.ask(9, MARKERS, WriteTxnMarkersResponse)


@in_loop
async def test_a_node_that_cannot_be_reached_is_called_once_for_many_and_again_a_little_later(caplog) -> None:
    async with Reached() as reached:
        right, reached.port = reached.port, 1
        for _ in range(3):
            done = await asyncio.gather(*(reached.ask() for _ in range(5)), return_exceptions=True)
            assert all("refused" in str(each) for each in done), done
        assert reached.addresses_asked == 1
        assert caplog.text.count("node 2 cannot be asked") == 1
        reached.port = right
        reached.clock.advance_ms(AGAIN_AFTER_MS)
        await reached.ask()
        assert reached.addresses_asked == 2


@in_loop
async def test_a_connection_that_broke_is_replaced_by_the_next_question() -> None:
    async with Reached() as reached:
        await reached.ask()
        (connection,) = reached.peers._open.values()
        connection.close()
        reached.node._exchange.caller = None
        await reached.ask()
        assert reached.addresses_asked == 2


@in_loop
async def test_an_attempt_that_hangs_ends_after_its_time_limit() -> None:
    async with Reached() as reached:
        reached.hangs = True
        asking = asyncio.ensure_future(reached.ask())
        while not reached.addresses_asked:
            await asyncio.sleep(0)
        reached.clock.advance_ms(OPENING_MS_MAX)
        with pytest.raises(PeerUnreachable, match="did not answer in 5 s"):
            await asking
        reached.hangs = False


@in_loop
async def test_a_broker_without_others_asks_nobody() -> None:
    with pytest.raises(PeerUnreachable, match="knows no other nodes"):
        await UnknownPeers().ask(2, MARKERS, WriteTxnMarkersResponse)
    assert CALLER.node_id != ANSWERER.node_id


@in_loop
async def test_a_connection_on_which_nothing_comes_back_is_closed_and_its_node_is_unreachable() -> None:
    async with Reached() as reached:
        await reached.ask()
        assert reached.peers.unreachable() == []
        reached.node.answers = lambda _: []
        asking = [asyncio.ensure_future(reached.ask()) for _ in range(2)]
        await turns(50)
        reached.clock.advance_ms(PEER_TIME_LIMIT_MS)
        failures = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(each, PeerUnreachable) for each in failures), failures
        assert reached.peers.unreachable() == [2]
        reached.node.answers, reached.node._exchange.caller = answered, None
        reached.clock.advance_ms(AGAIN_AFTER_MS)
        await reached.ask()
        assert reached.peers.unreachable() == [] and reached.addresses_asked == 2


@in_loop
async def test_the_metadata_hears_which_node_cannot_be_reached_and_that_it_can_be_again() -> None:
    async with Reached() as reached:
        port, reached.port = reached.port, 1
        with pytest.raises(PeerUnreachable):
            await reached.ask()
        service = SimpleNamespace(image=reached.world.image, execute=None)

        async def execute(command: Any) -> None:
            reached.world.do(command)
            service.image = reached.world.image

        service.execute = execute
        telling = asyncio.ensure_future(
            tell_for_ever(reached.peers, reached.peers._secrets, service, reached.clock)
        )
        for minute, expected in enumerate(((2,), (2,), ())):
            await turns(50)
            reached.clock.advance_ms(TELL_INTERVAL_MS)
            for _ in range(200):
                await asyncio.sleep(0.001)
                if unreachable_from(reached.world.image, 1) == expected:
                    break
            assert unreachable_from(reached.world.image, 1) == expected
            if minute == 1:
                reached.port = port
        telling.cancel()
