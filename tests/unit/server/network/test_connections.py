import asyncio
import logging
import resource

import pytest

from siltstone.server.network.statistics import CloseReason
from support.kafka.network_world import LISTENER, NetworkWorld, framed, handler_of_futures, turns
from support.scenarios import in_loop


@in_loop
async def test_a_connection_knows_its_host_its_listener_and_its_number() -> None:
    world = NetworkWorld()
    seen = []
    world.handler._handle = lambda context, _: seen.append(context)
    for host in ("10.0.0.1", "::ffff:10.0.0.2"):
        world.connect(host).feed(framed(b"x", b"y"))
    first, again, second, _ = seen
    assert first is again
    assert [context.client_host for context in (first, second)] == ["10.0.0.1", "10.0.0.2"]
    assert first.connection_id != second.connection_id
    assert first.listener == LISTENER


def test_ab06_no_more_are_let_in_than_there_may_be(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        world = NetworkWorld(max_connections=3)
        transports = [world.connect() for _ in range(5)]
        await turns()
        assert [transport.is_gone for transport in transports] == [False, False, False, True, True]
        assert world.handler.closed == [], "the handler never heard of them"
        transports[0].lose()
        assert not world.connect().is_closing
        statistics = world.statistics()
        assert (statistics.connections, statistics.accepted) == (3, 6)
        assert statistics.closed == {CloseReason.TOO_MANY: 2, CloseReason.PEER: 1}
        world.pass_ms(1_000)
        world.pass_ms(1_000)

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert [record.getMessage() for record in caplog.records] == [
        "refused 2 connections: too-many; 3 are open"
    ]


@in_loop
async def test_ab06_no_more_of_one_host_are_let_in_than_there_may_be() -> None:
    world = NetworkWorld(max_connections_per_ip=2)
    transports = [world.connect("10.0.0.1") for _ in range(3)] + [world.connect("10.0.0.2")]
    assert [transport.is_closing for transport in transports] == [False, False, True, False]
    transports[0].lose()
    assert not world.connect("10.0.0.1").is_closing
    assert world.connect("10.0.0.1").is_closing
    assert world.statistics().closed[CloseReason.TOO_MANY_OF_HOST] == 2


@in_loop
async def test_ab06_a_host_may_have_a_limit_of_its_own() -> None:
    overrides = "10.0.0.1:3, ::ffff:10.0.0.2:1,fd00::7:2,10.0.0.9:0"
    world = NetworkWorld(max_connections_per_ip=2, max_connections_per_ip_overrides=overrides)
    for host, most in (("10.0.0.1", 3), ("10.0.0.2", 1), ("fd00::7", 2), ("10.0.0.9", 0), ("10.0.0.3", 2)):
        transports = [world.connect(host) for _ in range(4)]
        assert [transport.is_closing for transport in transports] == [
            number >= most for number in range(4)
        ], host
    assert world.statistics().refused == {("PLAINTEXT", CloseReason.TOO_MANY_OF_HOST): 1 + 3 + 2 + 4 + 2}


@in_loop
async def test_peers_that_are_not_let_in_are_counted_by_listener_and_reason() -> None:
    world = NetworkWorld(max_connections=2)
    world.connect().lose()
    world.connect()
    world.connect()
    world.connect()
    world.connections.expect("OTHER", "10.0.0.1", 3)
    world.connections.shut_down()
    world.connections.expect("OTHER", "10.0.0.1", 3)
    assert world.statistics().refused == {
        ("PLAINTEXT", CloseReason.TOO_MANY): 1,
        ("OTHER", CloseReason.TOO_MANY): 1,
    }, "a client that leaves and a node that ends refuse nobody"


def test_no_connection_takes_the_files_that_the_node_keeps_for_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits = iter([(100, 4_096)] * 3 + [(200, 4_096)] * 2)
    monkeypatch.setattr(resource, "getrlimit", lambda _: next(limits))

    async def run() -> None:
        world = NetworkWorld()
        last, first_refused = (world.connect(file_number=number) for number in (67, 68))
        assert (last.is_closing, first_refused.is_closing) == (False, True)
        assert world.statistics().closed == {CloseReason.TOO_FEW_FILES: 1}
        world.pass_ms(1_000)
        assert not world.connect(file_number=68).is_closing, "the limit was raised while the process runs"

    asyncio.run(run())
    assert [record.getMessage() for record in caplog.records] == [
        "refused 1 connections: too-few-files: this process may have 100 files open, and it keeps the rest for the log "
        "and the objects; raise the limit (ulimit -n, LimitNOFILE); 1 are open"
    ]


def test_refusals_are_logged_at_once_and_then_every_half_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        world = NetworkWorld(max_connections=1)
        world.connect()
        for _ in range(60):
            world.connect()
            world.pass_ms(1_000)

    asyncio.run(run())
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "refused 1 connections",
        "refused 30 connections",
    ]


@in_loop
async def test_hosts_that_are_gone_are_forgotten() -> None:
    world = NetworkWorld()
    for number in range(100):
        world.connect(f"10.0.0.{number}").lose()
    assert len(world.connections._of_host) == 0


@in_loop
async def test_one_timer_inspects_all_every_second() -> None:
    world = NetworkWorld(connections_max_idle_ms=10_000)
    timer = world.tasks.start("inspect", world.connections.inspect_for_ever())
    clients = [world.connect() for _ in range(50)]
    for _ in range(9):
        await turns()
        world.clock.advance_ms(1_000)
    await turns()
    assert not any(client.is_closing for client in clients)
    assert len(world.clock._sleepers) == 1
    world.clock.advance_ms(1_000)
    await turns()
    assert all(client.is_gone for client in clients)
    timer.cancel()
    await turns()


@in_loop
async def test_what_it_amounts_to() -> None:
    world = NetworkWorld(handler_of_futures())
    client, other = world.connect(), world.connect()
    client.feed(framed(b"12345", b"1234567"))
    other.feed(framed(b"1")[:3])
    statistics = world.statistics()
    assert statistics.requests == statistics.requests_in_flight == 2
    assert statistics.bytes_in == 9 + 11 + 3
    assert statistics.request_bytes_in_flight >= 12
    world.handler.answer(0, 1)
    await turns()
    statistics = world.statistics()
    assert (statistics.requests, statistics.requests_in_flight) == (2, 0)
    assert statistics.bytes_out == 9 + 11
    assert statistics.request_bytes_in_flight == 0


@in_loop
async def test_abort_waits_for_nobody() -> None:
    world = NetworkWorld(handler_of_futures())
    clients = [world.connect() for _ in range(3)]
    clients[0].feed(framed(b"under way"))
    world.connections.shut_down()
    gone = asyncio.ensure_future(world.connections.wait_until_gone())
    await turns()
    assert not gone.done()
    world.connections.abort()
    await gone
    assert world.statistics().connections == 0
    assert clients[0].is_aborted


@in_loop
async def test_nd08_a_node_whose_users_may_have_changed_lets_nobody_in_until_it_knows() -> None:
    world = NetworkWorld()
    kept = world.connect()
    is_stale = [True]
    world.connections._turns_away = lambda: is_stale[0]
    turned_away = world.connect()
    await turns()
    assert (kept.is_gone, turned_away.is_gone) == (False, True)
    assert world.statistics().closed == {CloseReason.STALE: 1}
    is_stale[0] = False
    assert not world.connect().is_closing
