"""One connection over a transport that the test plays: answers, failures, the end. Sockets: test_listeners."""

import asyncio
import logging
from struct import pack
from typing import Any

import pytest

from siltstone.broker.request import CloseConnection, ConnectionContext
from siltstone.server.network.request_pipeline import BEGUN_PER_TURN_MAX
from siltstone.server.network.statistics import CloseReason
from support.kafka.network_world import (
    KIB,
    MINUTE_MS,
    Handler,
    NetworkWorld,
    closed,
    framed,
    handler_of_futures,
    turns,
)
from support.scenarios import in_loop

# -- answers


@in_loop
async def test_answers_that_are_ready_leave_in_one_call() -> None:
    world = NetworkWorld()
    client = world.connect()
    client.feed(framed(b"a", b"bb", b"ccc"))
    assert client.writes == [framed(b"a", b"bb", b"ccc")]
    assert world.statistics().bytes_out == len(client.writes[0])
    assert world.statistics().bytes_in == len(framed(b"a", b"bb", b"ccc"))


@in_loop
async def test_answers_of_one_group_commit_leave_in_one_call_in_order() -> None:
    world = NetworkWorld(handler_of_futures())
    client = world.connect()
    client.feed(framed(b"a", b"b", b"c", b"d"))
    world.handler.answer(2, 0, 1)
    await turns()
    assert client.writes == [framed(b"a", b"b", b"c")]
    world.handler.answer(3)
    await turns()
    assert client.writes == [framed(b"a", b"b", b"c"), framed(b"d")]


@in_loop
async def test_nothing_is_sent_for_a_request_without_answer() -> None:
    world = NetworkWorld(Handler(lambda *_: None))
    client = world.connect()
    client.feed(framed(b"acks=0", b"acks=0"))
    assert client.writes == []
    assert world.handler.begun == [b"acks=0"] * 2
    assert world.statistics().request_bytes_in_flight == 0


@in_loop
async def test_many_requests_of_one_connection_leave_turns_to_others() -> None:
    world = NetworkWorld()
    greedy, modest = world.connect(), world.connect()
    names = [b"%d" % number for number in range(3 * BEGUN_PER_TURN_MAX)]
    greedy.feed(framed(*names))
    modest.feed(framed(b"modest"))
    assert world.handler.begun == [*names[:BEGUN_PER_TURN_MAX], b"modest"]
    await turns()
    assert b"".join(greedy.writes) == framed(*names)


# -- failures


def failing_on(name: bytes, failure: BaseException) -> Handler:
    handler = handler_of_futures()

    def handle(context: ConnectionContext, frame: memoryview) -> Any:
        if frame == name:
            raise failure
        return handler.in_future(context, frame)

    handler._handle = handle
    return handler


def test_close_connection_closes_after_the_answers_before_it(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        world = NetworkWorld(failing_on(b"bad", CloseConnection("unsupported version")))
        client, other = world.connect(), world.connect()
        client.feed(framed(b"good", b"bad", b"never begun"))
        await turns()
        assert not client.is_closing
        world.handler.answer(0)
        await turns()
        assert client.writes == [framed(b"good")]
        assert client.is_gone and not client.is_aborted
        assert not other.is_closing
        assert closed(world) == {CloseReason.REFUSED: 1}
        assert world.handler.begun == [b"good", b"bad"]

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    [record] = caplog.records
    assert record.levelno == logging.INFO and record.exc_info is None
    assert record.getMessage() == "connection 0 from 10.0.0.1 closed: refused: unsupported version"


async def _fail() -> list[bytes]:
    raise KeyError("surprise")


def _failed_future() -> "asyncio.Future[Any]":
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_exception(KeyError("surprise"))
    return future


def _raise() -> None:
    raise KeyError("surprise")


@pytest.mark.parametrize("surprise", [_raise, _failed_future, _fail])
def test_an_unexpected_exception_closes_its_connection_and_no_other(
    surprise: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        world = NetworkWorld(Handler(lambda _, frame: surprise() if frame == b"bad" else [bytes(frame)]))
        client, other = world.connect(), world.connect()
        client.feed(framed(b"good", b"bad", b"after"))
        await turns()
        other.feed(framed(b"fine"))
        assert client.writes == [b"good"]
        assert client.is_gone
        assert other.writes == [b"fine"]
        assert closed(world) == {CloseReason.FAILURE: 1}
        assert len(world.handler.closed) == 1

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "surprise" in record.getMessage()
    assert record.exc_info is not None and record.exc_info[2] is not None, "with its traceback"


def test_an_exception_of_our_own_aborts_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        world = NetworkWorld()
        client, other = world.connect(), world.connect()

        def broken(_: object) -> None:
            raise RuntimeError("a broken transport")

        client.writelines = broken  # type: ignore[method-assign]
        client.feed(framed(b"a"))
        await turns()
        other.feed(framed(b"fine"))
        assert client.is_aborted and client.is_gone
        assert other.writes == [framed(b"fine")]
        assert closed(world) == {CloseReason.FAILURE: 1}

    asyncio.run(run())
    assert "a broken transport" in caplog.text


def test_a_handler_that_fails_when_told_of_the_end_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        world = NetworkWorld()

        def broken(_: object) -> None:
            raise RuntimeError("in connection_closed")

        world.handler.connection_closed = broken  # type: ignore[method-assign]
        world.connect().lose()
        assert world.statistics().connections == 0

    asyncio.run(run())
    assert "in connection_closed" in caplog.text


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02", pack(">i", -5)])
def test_what_is_no_frame_closes_at_once_with_one_line(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        world = NetworkWorld()
        client = world.connect()
        client.feed(data)
        await turns()
        assert client.is_gone
        assert closed(world) == {CloseReason.MALFORMED: 1}
        assert world.handler.begun == []

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert len(caplog.records) == 1
    assert "connection 0 from 10.0.0.1 closed: malformed: the client" in caplog.text


def test_a_host_that_sends_no_frames_again_and_again_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A scanner would fill the disk of the log; the counters have every case."""

    async def run() -> None:
        world = NetworkWorld()
        for _ in range(3):
            for _ in range(50):
                world.connect().feed(b"\xff" * 10)
                world.connect(host="10.0.0.2").feed(b"\xff" * 10)
                await turns()
            world.clock.advance_ms(MINUTE_MS - 10_000)
        assert closed(world) == {CloseReason.MALFORMED: 300}

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert [record.args[0].context.client_host for record in caplog.records] == ["10.0.0.1", "10.0.0.2"] * 2


# -- the peer goes


@in_loop
async def test_the_end_is_told_once_and_everything_is_given_back() -> None:
    world = NetworkWorld(handler_of_futures())
    client = world.connect()
    client.feed(framed(b"x" * 1_000, b"y") + framed(bytes(500 * KIB))[:100_000])
    assert world.statistics().request_bytes_in_flight > 101_000
    client.lose(ConnectionResetError("reset"))
    await turns()
    assert [context.client_host for context in world.handler.closed] == ["10.0.0.1"]
    assert world.statistics().request_bytes_in_flight == 0
    assert closed(world) == {CloseReason.LOST: 1}
    world.handler.answer(0, 1)
    await turns()
    assert client.writes == []


@in_loop
async def test_a_running_coroutine_is_cancelled_when_the_peer_goes() -> None:
    outcome: list[str] = []

    async def long_poll() -> list[bytes]:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            outcome.append("cancelled")
        raise AssertionError

    world = NetworkWorld(Handler(lambda *_: long_poll()))
    client = world.connect()
    client.feed(framed(b"fetch", b"queued"))
    await turns()
    client.protocol.eof_received()
    await turns()
    assert outcome == ["cancelled"]
    assert closed(world) == {CloseReason.PEER: 1}
    assert world.handler.begun == [b"fetch"]
    await world.tasks.drain()
    assert world.failures == []


# -- the node closes


@in_loop
async def test_shutting_down_answers_what_was_begun_and_nothing_else() -> None:
    world = NetworkWorld(handler_of_futures(), connection_requests_max=2)
    busy, idle = world.connect(), world.connect()
    busy.feed(framed(b"1", b"2", b"3"))
    world.connections.shut_down()
    await turns()
    assert idle.is_gone
    assert not busy.is_closing
    late = world.connect()
    assert late.is_closing
    world.handler.answer(1, 0)
    await turns()
    assert busy.writes == [framed(b"1", b"2")]
    assert busy.is_gone and not busy.is_aborted
    assert world.handler.begun == [b"1", b"2"]
    assert closed(world) == {CloseReason.SHUTDOWN: 3}


# -- the peer's end


@in_loop
async def test_requests_that_arrived_before_the_peers_end_are_begun() -> None:
    """A producer with acks=0 closes after its last request; a turn begins only some of them."""
    world = NetworkWorld(Handler(lambda *_: None))
    client = world.connect()
    client.feed(framed(*[b"acks=0"] * (3 * BEGUN_PER_TURN_MAX)))
    assert len(world.handler.begun) == BEGUN_PER_TURN_MAX
    client.protocol.eof_received()
    assert len(world.handler.begun) == 3 * BEGUN_PER_TURN_MAX
    await turns()
    assert closed(world) == {CloseReason.PEER: 1}
    assert client.writes == [] and world.statistics().request_bytes_in_flight == 0


@in_loop
async def test_a_transport_that_ends_without_saying_so_ends_the_same_way() -> None:
    world = NetworkWorld(Handler(lambda *_: None))
    client = world.connect()
    client.feed(framed(*[b"acks=0"] * (BEGUN_PER_TURN_MAX + 1)))
    client.lose()
    assert len(world.handler.begun) == BEGUN_PER_TURN_MAX + 1
    broken = world.connect()
    broken.feed(framed(*[b"acks=0"] * (BEGUN_PER_TURN_MAX + 1)))
    broken.lose(ConnectionResetError())
    assert closed(world) == {CloseReason.PEER: 1, CloseReason.LOST: 1}


def test_a_failure_of_a_last_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        def handle(_: ConnectionContext, frame: memoryview) -> Any:
            if frame == b"bug":
                raise KeyError("surprise")

        world = NetworkWorld(Handler(handle))
        client = world.connect()
        client.feed(framed(*[b"acks=0"] * BEGUN_PER_TURN_MAX, b"bug"))
        client.protocol.eof_received()
        await turns()
        assert closed(world) == {CloseReason.FAILURE: 1}

    asyncio.run(run())
    assert "a request failed: KeyError('surprise')" in caplog.text
