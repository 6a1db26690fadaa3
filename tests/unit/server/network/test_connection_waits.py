"""Connections over transports that the test plays: a store that asks for a pause, and how long anybody may take."""

import asyncio
from struct import pack
from typing import Any

from siltstone.broker.request import CloseConnection, ConnectionContext
from siltstone.server.network.frame_reader import FIRST_BYTES, RECEIVE_BUFFER_BYTES
from siltstone.server.network.statistics import CloseReason
from support.kafka.network_world import (
    KIB,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    Handler,
    NetworkWorld,
    closed,
    framed,
    handler_of_futures,
    large_world,
    turns,
)
from support.scenarios import in_loop

# -- the store asks for a pause


@in_loop
async def test_of_a_connection_that_is_held_nothing_more_is_read_until_its_request_is_answered() -> None:
    released = asyncio.Event()

    async def held(context: ConnectionContext, frame: memoryview) -> list[bytes]:
        await released.wait()
        context.requests_held -= 1
        return [bytes(frame)]

    def handle(context: ConnectionContext, frame: memoryview) -> Any:
        if frame[:1] != b"H":
            return [bytes(frame)]
        context.requests_held += 1
        return held(context, frame)

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


@in_loop
async def test_a_pause_of_the_store_stops_who_sends_records_and_nobody_else() -> None:
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


@in_loop
async def test_who_goes_while_waiting_leaves_the_line() -> None:
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


@in_loop
async def test_after_a_pause_the_store_is_filled_in_the_order_of_coming() -> None:
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


# -- time


@in_loop
async def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
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


@in_loop
async def test_a_peer_that_trickles_a_frame_is_closed() -> None:
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


@in_loop
async def test_the_time_in_which_nobody_read_it_does_not_count_against_a_frame() -> None:
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


@in_loop
async def test_while_others_wait_for_memory_a_frame_has_less_time() -> None:
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


@in_loop
async def test_a_peer_that_takes_no_answers_is_closed() -> None:
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


@in_loop
async def test_who_is_being_closed_has_the_same_time_to_take_its_answers() -> None:
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


@in_loop
async def test_while_it_is_being_closed_only_its_unread_answers_count() -> None:
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
