"""Ceilings of listeners, and connections of addresses above their rate, on sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from siltstone.broker.request import ConnectionContext, Listener
from siltstone.model.access import NODE
from siltstone.model.serving_limits import MUTED_MS_MAX
from siltstone.runtime.clock import ManualClock, SystemClock
from siltstone.server.network.addresses import parse_addresses
from siltstone.server.network.ceilings import LateClosings, ListenerCeiling
from siltstone.server.network.listener_settings import InvalidListenerSetting, ListenerSettings
from siltstone.server.network.listeners import Listeners
from siltstone.server.network.settings import NetworkSettings
from siltstone.server.network.statistics import CloseReason
from support.kafka.network_world import Handler, framed
from support.scenarios import in_loop


@asynccontextmanager
async def served(
    settings: ListenerSettings = ListenerSettings(),  # noqa: B008
    delay_of_arrival: Callable[[str], float] = lambda _: 0.0,
) -> AsyncIterator[Listeners]:
    listeners = Listeners(
        parse_addresses(["127.0.0.1:0"]), Handler(), NetworkSettings(), SystemClock(),
        settings_of={"PLAINTEXT": settings}, delay_of_arrival=delay_of_arrival,
    )  # fmt: skip
    await listeners.start()
    try:
        yield listeners
    finally:
        await listeners.close(0)


async def asked(listeners: Listeners) -> bytes:
    """Returns what a new client is answered; b"" if its connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listeners.listeners[0].advertised_port)
    writer.write(framed(b"x"))
    try:
        return await reader.read(5)
    except ConnectionError:
        return b""
    finally:
        writer.close()


@in_loop
async def test_a_listener_has_no_more_connections_than_it_may() -> None:
    async with served(ListenerSettings(max_connections=2)) as listeners:
        port = listeners.listeners[0].advertised_port
        first, second = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        assert await asked(listeners) == b""
        assert listeners.statistics().closed[CloseReason.TOO_MANY] == 1
        first[1].close()
        while await asked(listeners) != framed(b"x"):
            await asyncio.sleep(0)
        second[1].close()


@in_loop
async def test_qu09_connections_of_an_address_above_its_rate_are_closed_late_and_others_are_free() -> None:
    delays = iter([0.0, 200.0, 0.0])
    async with served(delay_of_arrival=lambda _: next(delays)) as listeners:
        assert await asked(listeners) == framed(b"x")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        assert await asked(listeners) == b""
        assert loop.time() - begun >= 0.19
        assert await asked(listeners) == framed(b"x")
        assert listeners.statistics().closed[CloseReason.TOO_FAST] == 1
        assert listeners.statistics().accepted == 3


def test_a_listener_above_its_rate_rests() -> None:
    clock = ManualClock()
    ceiling = ListenerCeiling(ListenerSettings(max_connection_creation_rate=5), clock)
    for _ in range(50):
        assert ceiling.rest_ms() == 0
        ceiling.came()
    ceiling.came()
    assert 0 < ceiling.rest_ms() <= 1_000
    let_in = 0
    for _ in range(6_000):
        clock.advance_ms(10)
        if not ceiling.rest_ms():
            ceiling.came()
            let_in += 1
    assert let_in == pytest.approx(300, rel=0.1)


@in_loop
async def test_clients_of_a_resting_listener_wait_and_are_served() -> None:
    async with served(ListenerSettings(max_connection_creation_rate=2)) as listeners:
        answers = await asyncio.gather(*(asked(listeners) for _ in range(22)))
        assert answers == [framed(b"x")] * 22
        assert listeners.statistics().closed.get(CloseReason.TOO_MANY) is None


@in_loop
async def test_of_too_many_late_closings_the_oldest_is_closed_at_once() -> None:
    clock = ManualClock()
    closings = LateClosings(clock, most=2)
    pairs = [socket.socketpair() for _ in range(3)]
    for ours, _ in pairs:
        closings.add(ours, 1_000)
    assert len(closings) == 2 and pairs[0][1].recv(1) == b""
    clock.advance_ms(1_000)
    await asyncio.sleep(0)
    assert len(closings) == 0 and [theirs.recv(1) for _, theirs in pairs[1:]] == [b"", b""]
    pairs.append(socket.socketpair())
    closings.add(pairs[-1][0], 1_000)
    closings.close_all()
    assert len(closings) == 0
    for _, theirs in pairs:
        theirs.close()


def test_limits_below_zero_are_refused() -> None:
    for name in ("max_connections", "max_connection_creation_rate"):
        with pytest.raises(InvalidListenerSetting, match=name):
            ListenerSettings(**{name: -1})


def carried(
    ceiling: ListenerCeiling, clock: ManualClock, size: int, host: str = "10.0.0.1", **named: Any
) -> float:
    """Returns for how long a connection is muted that carries so many bytes."""
    context = ConnectionContext(1, host, Listener("PLAINTEXT", "h", 9092), **named)
    ceiling.carried(context, size)
    return max(0.0, context.muted_until_ms - clock.monotonic_ms())


def test_above_its_bytes_whoever_uses_the_listener_is_muted() -> None:
    clock = ManualClock()
    ceiling = ListenerCeiling(ListenerSettings(bytes_per_second_max=1_000_000), clock)
    assert carried(ceiling, clock, 10_000_000) == 0
    assert 0 < carried(ceiling, clock, 1_000_000) <= MUTED_MS_MAX, "another connection pays, too"
    assert carried(ceiling, clock, 100_000_000) == MUTED_MS_MAX
    assert carried(ceiling, clock, 100_000_000, principal=NODE) == 0
    sent, begun_ms = 0, clock.monotonic_ms()
    while clock.monotonic_ms() - begun_ms < 300_000:
        sent += 100_000
        clock.advance_ms(max(1.0, carried(ceiling, clock, 100_000)))
    assert sent / 300 < 1_050_000


RATE = 1_000_000
GREEDY, SECOND, QUIET = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def played(rates: dict[str, float], duration_ms: int = 120_000) -> dict[str, tuple[float, float]]:
    """Each host carries 10 kB at a time at its rate, unless it is muted. Returns its bytes a second in the second half,
    and for how long it was muted in all."""
    clock = ManualClock()
    ceiling = ListenerCeiling(ListenerSettings(bytes_per_second_max=RATE), clock)
    begun_ms = clock.monotonic_ms()
    next_ms, sent, muted = dict.fromkeys(rates, 0.0), dict.fromkeys(rates, 0.0), dict.fromkeys(rates, 0.0)
    now_ms = 0.0
    while now_ms < duration_ms:
        clock.advance_ms(10)
        now_ms = clock.monotonic_ms() - begun_ms
        for host, rate in rates.items():
            while next_ms[host] <= now_ms:
                mute_ms = carried(ceiling, clock, 10_000, host)
                next_ms[host] = max(next_ms[host] + 10_000_000 / rate, now_ms + mute_ms)
                muted[host] += mute_ms
                sent[host] += 10_000 * (now_ms > duration_ms / 2)
    return {host: (sent[host] / (duration_ms / 2_000), muted[host]) for host in rates}


@pytest.mark.parametrize("greedy", [RATE * 1.2, RATE * 20])
def test_nobody_with_little_traffic_is_muted_for_the_greed_of_another(greedy: float) -> None:
    found = played({GREEDY: greedy, QUIET: RATE / 20})
    assert found[QUIET][1] == 0
    assert found[QUIET][0] == pytest.approx(RATE / 20, rel=0.05)
    assert found[GREEDY][0] == pytest.approx(RATE * 0.95, rel=0.1) and found[GREEDY][1] > 0


def test_two_that_want_all_share_what_a_third_leaves() -> None:
    found = played({GREEDY: RATE * 10, SECOND: RATE * 2, QUIET: RATE / 10})
    assert found[QUIET][1] == 0
    assert [found[host][0] for host in (GREEDY, SECOND)] == pytest.approx([RATE * 0.45] * 2, rel=0.2)
    assert sum(rate for rate, _ in found.values()) < RATE * 1.05


def test_clients_that_have_gone_are_forgotten() -> None:
    clock = ManualClock()
    ceiling = ListenerCeiling(ListenerSettings(bytes_per_second_max=RATE), clock)
    for number in range(1_000):
        carried(ceiling, clock, 1_000, f"10.0.{number // 250}.{number % 250}")
    assert len(ceiling._clients) == 1_000
    clock.advance_ms(20_000)
    carried(ceiling, clock, 1_000)
    assert len(ceiling._clients) == 1


def test_a_listener_without_a_ceiling_counts_no_bytes() -> None:
    assert not ListenerCeiling(ListenerSettings(), ManualClock()).counts_bytes
    with pytest.raises(InvalidListenerSetting, match="bytes_per_second_max=-1"):
        ListenerSettings(bytes_per_second_max=-1)


@in_loop
async def test_a_connection_above_the_bytes_of_its_listener_is_answered_and_then_waits() -> None:
    async with served(ListenerSettings(bytes_per_second_max=10)) as listeners:
        reader, writer = await asyncio.open_connection("127.0.0.1", listeners.listeners[0].advertised_port)
        writer.write(framed(b"x" * 200))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.readexactly(204)
        writer.close()
