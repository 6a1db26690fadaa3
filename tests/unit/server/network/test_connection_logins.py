"""Connections that are not logged in: few and small requests, little time, and not too many of them."""

import asyncio
from struct import pack
from typing import Any

import pytest

from siltstone.broker.request import ConnectionContext, Listener
from siltstone.model.access import LoginMechanism, Principal, SecurityProtocol, SessionState
from siltstone.model.limits import MIB
from siltstone.model.serving_limits import SASL_FRAME_BYTES_MAX
from siltstone.server.network.settings import NetworkSettings
from siltstone.server.network.statistics import CloseReason
from support.kafka.network_world import (
    SECOND_MS,
    FakeTransport,
    Handler,
    NetworkWorld,
    admit,
    closed,
    echo,
    framed,
    turns,
)
from support.scenarios import in_loop

SASL = Listener("S", "broker.example", 9094, SecurityProtocol.SASL_PLAINTEXT, tuple(LoginMechanism))


def login(context: ConnectionContext, frame: memoryview) -> Any:
    """The body decides what becomes of the session."""
    if frame == b"right":
        context.session.state, context.principal = SessionState.AUTHENTICATED, Principal("ada")
    if frame == b"wrong":
        context.session.state = SessionState.CLOSING
    return echo(context, frame)


def stranger(world: NetworkWorld) -> FakeTransport:
    transport = FakeTransport()
    admit(world.connections, transport, SASL)
    return transport


async def slow_login(context: ConnectionContext, frame: memoryview) -> Any:
    await asyncio.sleep(0)
    return login(context, frame)


@in_loop
async def test_sa05_before_a_login_frames_are_small_and_afterwards_large() -> None:
    world = NetworkWorld(Handler(login))
    client, greedy = stranger(world), stranger(world)
    greedy.feed(pack(">i", SASL_FRAME_BYTES_MAX + 1))
    await turns()
    assert closed(world) == {CloseReason.MALFORMED: 1}
    assert world.statistics().request_bytes_in_flight == 0
    largest = bytes(SASL_FRAME_BYTES_MAX)
    client.feed(framed(largest))
    assert client.writes == [framed(largest)]
    client.feed(framed(b"right"))
    large = bytes(NetworkSettings().socket_request_max_bytes)
    assert len(large) == 100 * MIB
    client.feed(framed(large))
    assert len(client.writes[-1]) == 4 + len(large)
    client.feed(pack(">i", len(large) + 1))
    await turns()
    assert closed(world) == {CloseReason.MALFORMED: 2}


@pytest.mark.parametrize("handle", [login, slow_login])
@in_loop
async def test_sa03_what_is_pipelined_behind_a_login_is_begun_after_it(handle) -> None:
    world = NetworkWorld(Handler(handle))
    client = stranger(world)
    large = bytes(1_000_000)
    client.feed(framed(b"right"))
    client.feed(framed(b"a", b"b", large))
    for _ in range(4):
        await turns()
        client.deliver()
    assert b"".join(client.writes) == framed(b"right", b"a", b"b", large)


@pytest.mark.parametrize("handle", [login, slow_login])
@in_loop
async def test_sa03_a_refusal_is_sent_and_nothing_after_it_is_begun(handle) -> None:
    world = NetworkWorld(Handler(handle))
    client = stranger(world)
    client.feed(framed(b"wrong", b"produce"))
    await turns()
    assert client.writes == [framed(b"wrong")]
    assert world.handler.begun == [b"wrong"]
    assert client.is_closing and closed(world) == {CloseReason.LOGIN: 1}


@in_loop
async def test_sa06_who_is_silent_or_slow_is_closed_in_time() -> None:
    world = NetworkWorld(Handler(login), authentication_ms_max=10_000)
    silent, slow, proper = stranger(world), stranger(world), stranger(world)
    proper.feed(framed(b"right"))
    slow.feed(pack(">i", 100))
    for _ in range(9):
        slow.feed(b"x")
        world.pass_ms(SECOND_MS)
    assert not silent.is_closing and not slow.is_closing
    world.pass_ms(SECOND_MS)
    assert silent.is_closing and slow.is_closing and not proper.is_closing
    await turns()
    assert closed(world) == {CloseReason.LOGIN: 2}
    world.pass_ms(60 * SECOND_MS)
    assert not proper.is_closing


@in_loop
async def test_sa07_of_too_many_strangers_the_oldest_goes() -> None:
    world = NetworkWorld(Handler(login), unauthenticated_connections_max=3)
    first, known = stranger(world), stranger(world)
    known.feed(framed(b"right"))
    others = [stranger(world) for _ in range(3)]
    assert first.is_closing and not known.is_closing
    assert not any(each.is_closing for each in others)
    others[0].lose()
    stranger(world)
    assert not others[1].is_closing
    plain = [world.connect() for _ in range(5)]
    assert not any(each.is_closing for each in (*plain, others[1]))


@in_loop
async def test_sa28_sessions_end_by_principal() -> None:
    world = NetworkWorld(Handler(login))
    ada, other, plain = stranger(world), stranger(world), world.connect()
    ada.feed(framed(b"right"))
    world.connections.end_sessions({"User:ada"})
    assert ada.is_closing and not other.is_closing and not plain.is_closing
    await turns()
    assert closed(world) == {CloseReason.SESSION_ENDED: 1}
