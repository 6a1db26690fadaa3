"""The secrets of nodes on a lease board: put there, read, put again, and forgotten with their lives."""

import asyncio
from collections.abc import Awaitable, Callable

from siltstone.cluster.membership import BoardCalls
from siltstone.cluster.node_secrets import NodeSecrets
from siltstone.metadata.commands import PutKey, UnregisterNode
from siltstone.metadata.leases.board import BoardUnavailable, MemoryBoard, NodeSecret
from siltstone.metadata.node_address import NODE_SECRETS_KEY
from siltstone.model.secret import Secret
from siltstone.runtime.randomness import seeded_randomness
from support.metadata.cluster_world import ClusterWorld
from support.scenarios import scenario


class BoardOut(MemoryBoard):
    is_out = False

    def secrets(self) -> tuple[NodeSecret, ...]:
        if self.is_out:
            raise BoardUnavailable("the board is out")
        return super().secrets()


def with_secrets(play: Callable[[ClusterWorld, list[NodeSecrets]], Awaitable[None]]) -> None:
    async def main() -> None:
        async with ClusterWorld(3) as cluster:
            made = []
            for number, node in enumerate(cluster.nodes):
                calls = BoardCalls(cluster.board, node.board_calls, node.clock)
                secrets = NodeSecrets(calls, node.metadata, node.clock, seeded_randomness(number), node.life)
                node.membership.exchange_secrets = secrets.exchange
                made.append(secrets)
            await cluster.passes(3_000)
            await asyncio.wait_for(play(cluster, made), 60)

    asyncio.run(main())


@scenario(with_secrets)
async def test_nd03_each_node_knows_the_secrets_of_all(cluster, secrets, /) -> None:
    for one in secrets:
        for other in secrets:
            assert one.secret_of(other.own) == other.own_secret
    assert len({each.own_secret for each in secrets}) == 3
    assert secrets[0].own_secret.revealed() not in repr(vars(secrets[0]))


@scenario(with_secrets)
async def test_nd03_an_empty_board_has_them_back_within_two_seconds_and_nobody_forgets(
    cluster, secrets, /
) -> None:
    cluster.board.__init__()
    await cluster.passes(200)
    assert all(one.secret_of(other.own) for one in secrets for other in secrets)
    await cluster.passes(1_800)
    assert [row.secret for row in cluster.board.secrets()] == [each.own_secret for each in secrets]


@scenario(with_secrets)
async def test_nd05_the_secret_of_a_life_that_is_over_is_forgotten(cluster, secrets, /) -> None:
    stale = NodeSecret(2, 0, "its earlier life", Secret("ee" * 32))
    cluster.board.put_secret(stale)
    await cluster.passes(2_000)
    assert Secret("ee" * 32) not in [row.secret for row in cluster.board.secrets()]
    gone = secrets[2].own
    cluster.freeze(2)
    await cluster.passes(8_000)
    await cluster.nodes[0].metadata.execute(UnregisterNode(2))
    cluster.board.forget(2)
    await cluster.passes(2_000)
    assert secrets[0].secret_of(gone) is None


@scenario(with_secrets)
async def test_a_board_that_is_out_is_said_once_and_tried_again(cluster, secrets, /, caplog) -> None:
    calls = BoardOut()
    calls.is_out = True
    node = cluster.nodes[0]
    alone = NodeSecrets(
        BoardCalls(calls, node.board_calls, node.clock),
        node.metadata,
        node.clock,
        seeded_randomness(9),
        node.life,
    )
    for _ in range(3):
        await alone.exchange()
    assert caplog.text.count("cannot exchange secrets") == 1
    assert alone.own_secret.revealed() not in caplog.text
    calls.is_out = False
    await alone.exchange()
    assert len(calls.secrets()) == 1


@scenario(with_secrets)
async def test_a_node_that_waits_for_a_secret_waits_for_one_reading_at_most(cluster, secrets, /) -> None:
    waiting = asyncio.ensure_future(secrets[0].read_again())
    await cluster.passes(1_200)
    assert waiting.done()
    cluster.nodes[0].board_calls.free.clear()
    waiting = asyncio.ensure_future(secrets[0].read_again())
    await cluster.passes(3_000)
    assert waiting.done(), "a board that does not answer keeps nobody waiting"


@scenario(with_secrets)
async def test_ro02_a_store_that_asks_for_new_secrets_has_them_within_two_seconds(
    cluster, secrets, /
) -> None:
    before = [each.own_secret.revealed() for each in secrets]
    await cluster.nodes[0].metadata.execute(PutKey(NODE_SECRETS_KEY, b"one", overwrite=True))
    await cluster.passes(3_000)
    after = [each.own_secret.revealed() for each in secrets]
    assert len({*before, *after}) == 6
    assert all(one.secret_of(other.own) == other.own_secret for one in secrets for other in secrets)
    await cluster.passes(3_000)
    assert [each.own_secret.revealed() for each in secrets] == after
