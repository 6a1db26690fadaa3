"""A connection that is muted because of a quota: nothing of it is begun or read, and nobody else notices."""

import asyncio
from typing import Any

from siltstone.broker.request import ConnectionContext
from siltstone.server.network.frame_reader import RECEIVE_BUFFER_BYTES
from siltstone.server.network.statistics import CloseReason
from support.kafka.network_world import (
    MINUTE_MS,
    Handler,
    NetworkWorld,
    closed,
    echo,
    framed,
    handler_of_futures,
    turns,
)
from support.scenarios import in_loop

MUTED_MS = 10_000


def muting_world(**settings: int) -> NetworkWorld:
    """A request that begins with M mutes its connection."""

    def handle(context: ConnectionContext, frame: memoryview) -> Any:
        if frame[:1] == b"M":
            context.muted_until_ms = world.clock.monotonic_ms() + MUTED_MS
        return echo(context, frame)

    world = NetworkWorld(Handler(handle), **settings)
    return world


@in_loop
async def test_qu05_a_muted_connection_is_answered_and_then_rests_while_others_are_served() -> None:
    world = muting_world()
    muted, other = world.connect(), world.connect()
    muted.feed(framed(b"M1", b"2"))
    assert muted.writes == [framed(b"M1")]
    muted.feed(framed(b"3"))
    assert not muted.is_reading and muted.waiting
    other.feed(framed(b"4"))
    assert world.handler.begun == [b"M1", b"4"]
    world.pass_ms(MUTED_MS - 1)
    await turns()
    assert world.handler.begun == [b"M1", b"4"]
    world.pass_ms(1)
    await turns()
    muted.deliver()
    assert world.handler.begun == [b"M1", b"4", b"2", b"3"]


@in_loop
async def test_qu05_a_mute_that_is_made_longer_meanwhile_lasts_as_long() -> None:
    world = NetworkWorld(handler_of_futures())
    transport = world.connect()
    transport.feed(framed(b"1", b"2"))
    context = transport.protocol.context
    context.muted_until_ms = world.clock.monotonic_ms() + 5_000
    world.handler.answer(0)
    await turns()
    transport.feed(framed(b"3"))
    context.muted_until_ms += 3_000
    for passed_ms, begun in ((5_000, 2), (2_999, 2), (1, 3)):
        world.pass_ms(passed_ms)
        await turns()
        transport.deliver()
        assert len(world.handler.begun) == begun


@in_loop
async def test_qu05_a_muted_connection_is_not_idle() -> None:
    world = muting_world(connections_max_idle_ms=MUTED_MS // 2)
    transport = world.connect()
    transport.feed(framed(b"M1"))
    for _ in range(9):
        world.pass_ms(1_000)
        await turns()
    assert not transport.is_closing
    world.pass_ms(MINUTE_MS)
    await turns()
    world.pass_ms(MINUTE_MS)
    assert closed(world) == {} and transport.is_closing


@in_loop
async def test_qu10_a_flood_without_answers_stays_in_the_sockets() -> None:
    def handle(context: ConnectionContext, frame: memoryview) -> None:
        context.muted_until_ms = world.clock.monotonic_ms() + MUTED_MS

    world = NetworkWorld(Handler(handle))
    flood = world.connect()
    for _ in range(100):
        flood.feed(framed(b"x" * RECEIVE_BUFFER_BYTES))
    assert len(world.handler.begun) == 1
    assert world.statistics().request_bytes_in_flight <= 3 * RECEIVE_BUFFER_BYTES
    assert len(flood.waiting) > 90 * RECEIVE_BUFFER_BYTES


@in_loop
async def test_a_mute_holds_no_memory_that_others_wait_for() -> None:
    released = asyncio.Event()

    async def mutes(context: ConnectionContext, frame: memoryview) -> Any:
        await released.wait()
        context.muted_until_ms = world.clock.monotonic_ms() + MUTED_MS
        return echo(context, frame)

    def handle(context: ConnectionContext, frame: memoryview) -> Any:
        return mutes(context, frame) if frame[:1] == b"M" else echo(context, frame)

    limit = 2 * RECEIVE_BUFFER_BYTES
    world = NetworkWorld(Handler(handle), queued_max_request_bytes=limit, socket_request_max_bytes=limit)
    muted, other = world.connect(), world.connect()
    muted.feed(framed(b"M1", *[b"x" * RECEIVE_BUFFER_BYTES] * 2))
    other.feed(framed(b"z" * RECEIVE_BUFFER_BYTES))
    assert world.parts.request_memory.is_short and world.handler.begun == [b"M1"]
    released.set()
    for _ in range(3):  # within seconds, and not after the mute
        await turns()
        world.pass_ms(1_000)
        other.deliver()
    assert {frame[:1] for frame in world.handler.begun} == {b"M", b"x", b"z"}


@in_loop
async def test_a_muted_connection_ends_with_its_peer_and_with_the_node() -> None:
    world = muting_world()
    leaving, staying = world.connect(), world.connect()
    leaving.feed(framed(b"M1", b"2"))
    staying.feed(framed(b"M1", b"2"))
    leaving.protocol.eof_received()
    assert leaving.is_closing
    world.connections.shut_down()
    await turns()
    assert closed(world) == {CloseReason.PEER: 1, CloseReason.SHUTDOWN: 1}
    world.pass_ms(MUTED_MS)
    await turns()
