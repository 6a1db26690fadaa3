"""One connection over a transport that the test plays; many limits are driven past. Sockets: test_listeners."""

import asyncio
import gc
import logging
import tracemalloc
from struct import pack
from typing import Any

import pytest

from siltstone.broker.request import CloseConnection, ConnectionContext
from siltstone.server.network.frame_reader import FIRST_BYTES, RECEIVE_BUFFER_BYTES, SHORT_READ_BYTES
from siltstone.server.network.request_pipeline import BEGUN_PER_TURN_MAX
from siltstone.server.network.statistics import CloseReason
from support.kafka.network_world import (
    LISTENER,
    FakeTransport,
    Handler,
    NetworkWorld,
    framed,
    handler_of_futures,
    turns,
)

KIB, MIB = 1024, 1024 * 1024
SECOND_MS, MINUTE_MS = 1_000, 60_000


def closed(world: NetworkWorld) -> dict[CloseReason, int]:
    return world.statistics().closed


# -- answers


def test_answers_that_are_ready_leave_in_one_call() -> None:
    async def run() -> None:
        world = NetworkWorld()
        client = world.connect()
        client.feed(framed(b"a", b"bb", b"ccc"))
        assert client.writes == [framed(b"a", b"bb", b"ccc")]
        assert world.statistics().bytes_out == len(client.writes[0])

    asyncio.run(run())


def test_answers_of_one_group_commit_leave_in_one_call_in_order() -> None:
    async def run() -> None:
        world = NetworkWorld(handler_of_futures())
        client = world.connect()
        client.feed(framed(b"a", b"b", b"c", b"d"))
        world.handler.answer(2, 0, 1)
        await turns()
        assert client.writes == [framed(b"a", b"b", b"c")]
        world.handler.answer(3)
        await turns()
        assert client.writes == [framed(b"a", b"b", b"c"), framed(b"d")]

    asyncio.run(run())


def test_nothing_is_sent_for_a_request_without_answer() -> None:
    async def run() -> None:
        world = NetworkWorld(Handler(lambda *_: None))
        client = world.connect()
        client.feed(framed(b"acks=0", b"acks=0"))
        assert client.writes == []
        assert world.handler.begun == [b"acks=0"] * 2
        assert world.statistics().request_bytes_in_flight == 0

    asyncio.run(run())


def test_many_requests_of_one_connection_leave_turns_to_others() -> None:
    async def run() -> None:
        world = NetworkWorld()
        greedy, modest = world.connect(), world.connect()
        names = [b"%d" % number for number in range(3 * BEGUN_PER_TURN_MAX)]
        greedy.feed(framed(*names))
        modest.feed(framed(b"modest"))
        assert world.handler.begun == [*names[:BEGUN_PER_TURN_MAX], b"modest"]
        await turns()
        assert b"".join(greedy.writes) == framed(*names)

    asyncio.run(run())


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
    assert record.getMessage() == "connection 0 from 10.0.0.1 closed: refused unsupported version"


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
    assert "connection 0 from 10.0.0.1 closed: malformed the client" in caplog.text


# -- the peer goes


def test_the_end_is_told_once_and_everything_is_given_back() -> None:
    async def run() -> None:
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

    asyncio.run(run())


def test_a_running_coroutine_is_cancelled_when_the_peer_goes() -> None:
    async def run() -> None:
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

    asyncio.run(run())


# -- limits of one connection


def test_no_more_requests_are_taken_than_may_wait() -> None:
    async def run() -> None:
        world = NetworkWorld(handler_of_futures(), connection_requests_max=3)
        client, exact = world.connect(), world.connect()
        exact.feed(framed(*[b"exactly as many"] * 3))
        assert not exact.is_reading
        exact.lose()
        world.handler.begun.clear()
        world.handler.pending.clear()
        names = [b"%d" % number for number in range(10)]
        client.feed(framed(*names))
        assert world.handler.begun == names[:3]
        assert not client.is_reading
        world.handler.answer(0, 1)
        await turns()
        assert world.handler.begun == names[:5]
        for position in range(2, 10):
            world.handler.answer(position)
            await turns()
        assert client.is_reading
        assert b"".join(client.writes) == framed(*names)
        assert world.statistics().request_bytes_in_flight == 0

    asyncio.run(run())


def test_no_more_bytes_are_read_than_may_wait() -> None:
    async def run() -> None:
        world = NetworkWorld(handler_of_futures(), connection_request_bytes_max=MIB)
        client = world.connect()
        for number in range(10):
            client.feed(framed(bytes([number]) * 300_000))
        assert len(world.handler.begun) == 4
        assert len(client.waiting) >= 5 * 300_000
        world.handler.answer(0)
        await turns()
        client.deliver()
        assert len(world.handler.begun) == 5
        assert not client.is_reading

    asyncio.run(run())


def test_a_request_larger_than_its_connection_may_hold_is_taken_alone() -> None:
    async def run() -> None:
        world = NetworkWorld(handler_of_futures(), connection_request_bytes_max=1_000)
        client = world.connect()
        client.feed(framed(bytes(5 * MIB), b"next"))
        assert [len(body) for body in world.handler.begun] == [5 * MIB]
        world.handler.answer(0)
        await turns()
        client.deliver()
        assert world.handler.begun[1:] == [b"next"]

    asyncio.run(run())


def test_who_leaves_answers_unread_has_no_further_request_begun() -> None:
    async def run() -> None:
        world = NetworkWorld(Handler(lambda *_: [bytes(100 * KIB)]))
        client = world.connect()
        client.takes_answers = False
        client.feed(framed(b"1", b"2", b"3"))
        await turns()
        assert world.handler.begun == [b"1", b"2", b"3"], (
            "begun before the first answer was given to the transport"
        )
        client.feed(framed(b"4", b"5"))
        await turns()
        assert len(world.handler.begun) == 3
        assert world.statistics().unread_answer_bytes == 300 * KIB
        client.take_answers()
        await turns()
        assert world.handler.begun[3:] == [b"4", b"5"]

    asyncio.run(run())


def test_answers_that_become_ready_while_others_are_unread_count_at_once() -> None:
    async def run() -> None:
        world = NetworkWorld(handler_of_futures())
        client = world.connect()
        client.takes_answers = False
        client.feed(framed(b"1", b"2"))
        for position in (0, 1):
            world.handler.pending[position].set_result([bytes(100 * KIB)])
            await turns()
        assert world.statistics().unread_answer_bytes == 200 * KIB

    asyncio.run(run())


# -- limits of all connections


def large_world(**settings: int) -> NetworkWorld:
    """Four receive buffers' worth of requests for all."""
    limit = 4 * RECEIVE_BUFFER_BYTES
    return NetworkWorld(
        handler_of_futures(), queued_max_request_bytes=limit, socket_request_max_bytes=limit, **settings
    )


def test_when_memory_is_short_who_sends_waits_and_who_is_silent_does_not() -> None:
    async def run() -> None:
        world = large_world()
        clients = [world.connect() for _ in range(6)]
        for client in clients[:5]:
            client.feed(framed(bytes(RECEIVE_BUFFER_BYTES - 4)))
        assert [client.is_reading for client in clients] == [True, True, True, False, False, True]
        assert world.statistics().waiting_for_memory == 2

    asyncio.run(run())


def test_what_all_hold_stays_below_the_limit_and_one_read() -> None:
    async def run() -> None:
        world = large_world()
        clients = [world.connect() for _ in range(200)]
        for client in clients:
            client.feed(framed(*[bytes(8 * KIB)] * 100))
        used = world.statistics().request_bytes_in_flight
        assert 4 * RECEIVE_BUFFER_BYTES <= used <= 5 * RECEIVE_BUFFER_BYTES + 200 * 2 * SHORT_READ_BYTES

    asyncio.run(run())


def test_room_goes_round_among_those_who_send() -> None:
    """Ten clients have more to send than there is room for; after the first rush all are served equally often."""

    async def run() -> None:
        world = large_world()
        clients = [world.connect() for _ in range(10)]
        for number, client in enumerate(clients):
            client.waiting = framed(*[bytes([number]) * 64 * KIB] * 60)
        counts = []
        for turn in range(240):
            for client in clients:
                client.read_once()
            for future in world.handler.pending[2 * turn : 2 * turn + 2]:
                future.set_result(None)
            await asyncio.sleep(0)
            if turn in {39, 239}:
                served = [body[0] for body in world.handler.begun]
                counts.append([served.count(number) for number in range(10)])
        rush, all_told = counts
        later = [after - before for before, after in zip(rush, all_told, strict=True)]
        assert sum(later) >= 390
        assert max(later) - min(later) <= 4, later

    asyncio.run(run())


def test_who_waits_may_finish_its_frame_and_reads_nothing_that_follows() -> None:
    async def run() -> None:
        world = large_world()
        first, waiting, sender = (world.connect() for _ in range(3))
        waiting.feed(framed(b"12345678")[:8])
        sender.feed(framed(*[bytes(RECEIVE_BUFFER_BYTES - 4)] * 4))
        first.feed(framed(bytes(4 * KIB)))
        assert not first.is_reading
        waiting.feed(b"5")
        assert waiting.is_reading, "its frame has memory"
        world.handler.answer(0)
        await asyncio.sleep(0)
        assert not world.parts.request_memory.is_short
        waiting.feed(b"678" + framed(b"the next one"))
        assert world.handler.begun[-1] == b"12345678"
        assert waiting.waiting == framed(b"the next one")
        assert not waiting.is_reading, "the first in line has not had its turn"

    asyncio.run(run())


def test_what_a_lost_connection_held_does_not_wait_for_the_garbage_collector() -> None:
    async def run() -> int:
        world = NetworkWorld()
        gc.disable()
        tracemalloc.start()
        try:
            client = world.connect()
            client.feed(framed(bytes(40 * MIB))[: 30 * MIB])
            held = tracemalloc.get_traced_memory()[0]
            client.lose()
            return held - tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
            gc.enable()

    assert asyncio.run(run()) > 29 * MIB


def test_frames_begun_by_all_cannot_stop_each_other() -> None:
    """Memory is full of frames that are not whole: one after another is let finish, and no two at a time."""

    async def run() -> None:
        world = large_world()
        size = 3 * RECEIVE_BUFFER_BYTES
        clients = [world.connect() for _ in range(8)]
        for client in clients:
            client.largest_read = 20_000
            client.waiting = framed(bytes(size))
        most = 0
        for _ in range(1_000):
            for client in clients:
                client.read_once()
            most = max(most, world.statistics().request_bytes_in_flight)
            for future in world.handler.pending:
                if not future.done():
                    future.set_result([b"done"])
            await asyncio.sleep(0)
        assert [client.writes for client in clients] == [[b"done"]] * 8
        assert world.statistics().request_bytes_in_flight == 0
        assert most <= 4 * RECEIVE_BUFFER_BYTES + size + FIRST_BYTES

    asyncio.run(run())


def test_a_thousand_peers_that_claim_the_largest_frame_hold_little() -> None:
    async def run() -> int:
        world = NetworkWorld()
        tracemalloc.start()
        try:
            for _ in range(1_000):
                world.connect().feed(pack(">i", 100 * MIB) + b"x")
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert asyncio.run(run()) < 1_000 * (FIRST_BYTES + 16 * KIB)


def test_idle_connections_are_small() -> None:
    async def run() -> int:
        world = NetworkWorld()
        transports = [FakeTransport() for _ in range(1_000)]
        tracemalloc.start()
        try:
            for transport in transports:
                world.connections.admit(transport, LISTENER)
                transport.feed(framed(b"x" * 1_000))
                transport.writes.clear()
            world.handler.begun.clear()
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    assert asyncio.run(run()) < 1_000 * 8 * KIB


def test_when_all_leave_much_unread_who_receives_much_waits_and_others_go_on() -> None:
    async def run() -> None:
        handler = Handler(lambda _, frame: [bytes(400 * KIB)] if frame[:5] == b"fetch" else [b"ok"])
        world = NetworkWorld(handler, answer_bytes_max=MIB)
        slow, reader, writer = world.connect(), world.connect(), world.connect()
        reader.feed(framed(b"fetch 1"))
        slow.takes_answers = False
        slow.feed(framed(b"fetch", b"fetch"))
        assert world.statistics().unread_answer_bytes == 800 * KIB
        reader.feed(framed(b"fetch 2"))
        writer.feed(framed(b"produce"))
        await turns()
        gone = world.connect()
        gone.feed(framed(b"fetch", b"fetch"))
        gone.feed(framed(b"fetch"))
        assert world.statistics().waiting_for_readers == 2
        gone.lose()
        assert world.statistics().waiting_for_readers == 1
        assert len(reader.writes) == 1
        assert writer.writes == [b"ok"]
        slow.take_answers()
        await turns()
        assert len(reader.writes) == 2
        assert closed(world) == {CloseReason.PEER: 1}

    asyncio.run(run())


def test_what_slow_readers_have_taken_is_seen_within_a_second() -> None:
    """Before they have taken nearly all, nobody tells."""

    async def run() -> None:
        world = NetworkWorld(Handler(lambda *_: [bytes(600 * KIB)]), answer_bytes_max=MIB)
        slow, reader = world.connect(), world.connect()
        reader.feed(framed(b"1"))
        slow.takes_answers = False
        slow.feed(framed(b"fetch"))
        reader.feed(framed(b"2"))
        slow.take_answers(200 * KIB)
        await turns()
        assert len(reader.writes) == 1
        world.pass_ms(SECOND_MS)
        await turns()
        assert len(reader.writes) == 2

    asyncio.run(run())


def test_at_the_limit_of_unread_answers_the_worst_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        world = NetworkWorld(Handler(lambda _, frame: [bytes(int(bytes(frame)) * KIB)]), answer_bytes_max=MIB)
        clients = [world.connect() for _ in range(3)]
        for client, size in zip(clients, (b"300", b"500", b"301"), strict=True):
            client.takes_answers = False
            client.feed(framed(size))
        await turns()
        assert [client.is_aborted for client in clients] == [False, True, False]
        assert closed(world) == {CloseReason.UNREAD_ANSWERS: 1}
        assert world.statistics().unread_answer_bytes == 601 * KIB

    asyncio.run(run())
    assert "closed: unread-answers 512000 bytes" in caplog.text


def test_an_answer_that_waits_does_not_hold_the_block_it_was_read_from() -> None:
    async def run() -> None:
        block = bytes(MIB)
        world = NetworkWorld(Handler(lambda *_: [b"head", memoryview(block)[5:15]]))
        client, written = world.connect(), []
        client.writelines = written.extend
        client.feed(framed(b"1"))
        assert [type(buffer) for buffer in written] == [bytes, bytes]
        assert b"".join(written) == b"head" + bytes(10)

    asyncio.run(run())


# -- the store asks for a pause


def test_of_a_connection_that_is_held_nothing_more_is_read_until_its_request_is_answered() -> None:
    async def run() -> None:
        released = asyncio.Event()

        async def held(context: ConnectionContext, frame: memoryview) -> list[bytes]:
            await released.wait()
            context.is_held = False
            return [bytes(frame)]

        def handle(context: ConnectionContext, frame: memoryview) -> Any:
            context.is_held = frame[:1] == b"H"
            return held(context, frame) if context.is_held else [bytes(frame)]

        world = NetworkWorld(Handler(handle))
        producer, other = world.connect(), world.connect()
        producer.feed(framed(b"H1"))
        await turns()
        assert not producer.is_reading and other.is_reading
        other.feed(framed(b"F1"))
        assert world.handler.begun == [b"H1", b"F1"]
        released.set()
        await turns()
        assert producer.is_reading
        producer.feed(framed(b"P2"))
        assert world.handler.begun[2:] == [b"P2"]

    asyncio.run(run())


def test_a_pause_of_the_store_stops_who_sends_records_and_nobody_else() -> None:
    async def run() -> None:
        def handle(context: ConnectionContext, frame: memoryview) -> list[bytes]:
            context.sends_records |= frame[:1] == b"P"
            return [bytes(frame)]

        world = NetworkWorld(Handler(handle))
        producers, consumer = [world.connect() for _ in range(3)], world.connect()
        for producer in producers:
            producer.feed(framed(b"P1"))
        world.handler.wants_pause = True
        for producer in producers:
            producer.feed(framed(b"P2"))
            producer.feed(framed(b"P3"))
        consumer.feed(framed(b"F1"))
        assert world.handler.begun == [b"P1"] * 3 + [b"F1"]
        assert [producer.is_reading for producer in producers] == [False] * 3
        assert [len(producer.waiting) for producer in producers] == [6] * 3, "nothing more was read"
        assert world.statistics().waiting_for_store == 3

        world.handler.wants_pause = False
        consumer.feed(framed(b"F2"))  # any progress is enough to notice
        await turns()
        assert world.handler.begun[5:] == [b"P2"] * 3
        for producer in producers:
            producer.deliver()
        assert world.handler.begun[8:] == [b"P3"] * 3

    asyncio.run(run())


def test_who_goes_while_waiting_leaves_the_line() -> None:
    async def run() -> None:
        def handle(context: ConnectionContext, frame: memoryview) -> Any:
            context.sends_records = True
            return world.handler.in_future(context, frame)

        world = large_world()
        world.handler._handle = handle
        full, waiting, paused = (world.connect() for _ in range(3))
        paused.feed(framed(b"produce"))
        full.feed(framed(*[bytes(RECEIVE_BUFFER_BYTES)] * 5))
        waiting.feed(framed(b"I wait"))
        world.handler.wants_pause = True
        paused.feed(framed(b"produce"))
        assert (world.statistics().waiting_for_memory, world.statistics().waiting_for_store) == (2, 1)
        for client in (full, waiting, paused):
            client.lose()
        assert (world.statistics().waiting_for_memory, world.statistics().waiting_for_store) == (0, 0)

    asyncio.run(run())


def test_after_a_pause_the_store_is_filled_in_the_order_of_coming() -> None:
    async def run() -> None:
        def handle(context: ConnectionContext, frame: memoryview) -> None:
            context.sends_records = True
            world.handler.wants_pause = bytes(frame) != b"first"

        world = NetworkWorld(Handler(handle))
        producers = [world.connect() for _ in range(4)]
        for producer in producers:
            producer.feed(framed(b"first"))
        world.handler.wants_pause = True
        for number, producer in enumerate(producers):
            producer.feed(framed(b"%d a" % number, b"%d b" % number))
        for _ in range(8):
            world.handler.wants_pause = False
            world.pass_ms(SECOND_MS)
            await turns()
        assert world.handler.begun[4:] == [b"0 a", b"1 a", b"2 a", b"3 a", b"0 b", b"1 b", b"2 b", b"3 b"]

    asyncio.run(run())


# -- time


def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    async def run() -> None:
        world = NetworkWorld(handler_of_futures())
        idle, busy, waiting = (world.connect() for _ in range(3))
        waiting.feed(framed(b"a long poll"))
        world.pass_ms(5 * MINUTE_MS)
        busy.feed(framed(b"request"))
        world.handler.answer(1)
        await turns()
        world.pass_ms(5 * MINUTE_MS - 1)
        assert not idle.is_closing
        world.pass_ms(1)
        await turns()
        assert [idle.is_gone, busy.is_closing, waiting.is_closing] == [True, False, False]
        assert closed(world) == {CloseReason.IDLE: 1}
        world.pass_ms(5 * MINUTE_MS)
        assert busy.is_closing and not waiting.is_closing

    asyncio.run(run())


def test_a_peer_that_trickles_a_frame_is_closed() -> None:
    async def run() -> None:
        world = NetworkWorld()
        client = world.connect()
        client.feed(pack(">i", MIB))
        for _ in range(10):
            assert not client.is_closing
            client.feed(b"x")
            world.pass_ms(MINUTE_MS)
        assert client.is_closing
        await turns()
        assert closed(world) == {CloseReason.SLOW_REQUEST: 1}

    asyncio.run(run())


def test_the_time_in_which_nobody_read_it_does_not_count_against_a_frame() -> None:
    async def run() -> None:
        world = large_world()
        paused, sender = world.connect(), world.connect()
        paused.feed(framed(bytes(MIB))[:1_000])
        sender.feed(framed(*[bytes(RECEIVE_BUFFER_BYTES)] * 5))
        paused.feed(bytes(FIRST_BYTES))
        assert not paused.is_reading
        world.pass_ms(15 * MINUTE_MS)
        for future in world.handler.pending:
            future.set_result(None)
        await turns()
        paused.waiting = b""
        assert paused.is_reading
        world.pass_ms(9 * MINUTE_MS)
        assert not paused.is_closing
        world.pass_ms(MINUTE_MS)
        assert paused.is_closing

    asyncio.run(run())


def test_while_others_wait_for_memory_a_frame_has_less_time() -> None:
    async def run() -> None:
        world = large_world()
        trickler, sender, waiting = (world.connect() for _ in range(3))
        trickler.feed(framed(bytes(MIB))[:1_000])
        waiting.feed(framed(bytes(MIB))[:1_000])
        sender.feed(framed(*[bytes(RECEIVE_BUFFER_BYTES)] * 5))
        waiting.feed(bytes(MIB))
        assert not waiting.is_reading
        world.pass_ms(29 * SECOND_MS)
        assert not trickler.is_closing
        world.pass_ms(SECOND_MS)
        assert trickler.is_closing
        assert not waiting.is_closing, "it is not its fault that its frame is not read"
        assert not sender.is_closing

    asyncio.run(run())


def test_a_peer_that_takes_no_answers_is_closed() -> None:
    async def run() -> None:
        world = NetworkWorld(Handler(lambda *_: [bytes(MIB)]))
        stopped, slow = world.connect(), world.connect()
        for client in (stopped, slow):
            client.takes_answers = False
            client.feed(framed(b"fetch"))
        for _ in range(3):
            world.pass_ms(MINUTE_MS)
            slow.take_answers(64 * KIB)
            stopped.take_answers(1)
        await turns()
        assert stopped.is_aborted and stopped.is_gone
        assert not slow.is_closing
        assert closed(world) == {CloseReason.SLOW_READER: 1}

    asyncio.run(run())


def test_who_is_being_closed_has_the_same_time_to_take_its_answers() -> None:
    async def run() -> None:
        def handle(_: ConnectionContext, frame: memoryview) -> list[bytes]:
            if frame == b"bad":
                raise CloseConnection("bad")
            return [bytes(10 * KIB)]

        world = NetworkWorld(Handler(handle))
        client = world.connect()
        client.takes_answers = False
        client.feed(framed(b"good", b"bad"))
        assert client.is_closing and not client.is_aborted
        world.pass_ms(2 * MINUTE_MS - 1)
        assert not client.is_aborted
        world.pass_ms(1)
        await turns()
        assert client.is_aborted and client.is_gone
        assert closed(world) == {CloseReason.REFUSED: 1}, "the first reason counts"

    asyncio.run(run())


def test_while_it_is_being_closed_only_its_unread_answers_count() -> None:
    async def run() -> None:
        world = NetworkWorld(Handler(lambda *_: [bytes(MIB)]))
        client = world.connect()
        client.takes_answers = False
        client.feed(framed(b"fetch"))
        client.feed(framed(b"queued") + framed(bytes(10_000))[:5_000])
        assert world.statistics().request_bytes_in_flight > 10_000
        client.feed(bytes(5_004) + b"GET / HTTP/1.1")
        assert client.is_closing and not client.is_gone
        assert world.statistics().unread_answer_bytes == MIB
        assert world.statistics().request_bytes_in_flight == 0
        client.lose()
        assert world.statistics().unread_answer_bytes == 0

    asyncio.run(run())


# -- the node closes


def test_shutting_down_answers_what_was_begun_and_nothing_else() -> None:
    async def run() -> None:
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

    asyncio.run(run())
