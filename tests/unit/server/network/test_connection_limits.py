"""Connections over transports that the test plays, driven past the limits of one and of all."""

import asyncio
import gc
import tracemalloc
from struct import pack

import pytest

from siltstone.server.network.frame_reader import FIRST_BYTES, RECEIVE_BUFFER_BYTES, SHORT_READ_BYTES
from siltstone.server.network.statistics import CloseReason
from support.kafka.network_world import (
    KIB,
    MIB,
    SECOND_MS,
    FakeTransport,
    Handler,
    NetworkWorld,
    admit,
    closed,
    framed,
    handler_of_futures,
    large_world,
    turns,
)
from support.scenarios import in_loop

# -- limits of one connection


@in_loop
async def test_no_more_requests_are_taken_than_may_wait() -> None:
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


@in_loop
async def test_no_more_bytes_are_read_than_may_wait() -> None:
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


@in_loop
async def test_a_request_larger_than_its_connection_may_hold_is_taken_alone() -> None:
    world = NetworkWorld(handler_of_futures(), connection_request_bytes_max=1_000)
    client = world.connect()
    client.feed(framed(bytes(5 * MIB), b"next"))
    assert [len(body) for body in world.handler.begun] == [5 * MIB]
    world.handler.answer(0)
    await turns()
    client.deliver()
    assert world.handler.begun[1:] == [b"next"]


@in_loop
async def test_who_leaves_answers_unread_has_no_further_request_begun() -> None:
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


@in_loop
async def test_answers_that_become_ready_while_others_are_unread_count_at_once() -> None:
    world = NetworkWorld(handler_of_futures())
    client = world.connect()
    client.takes_answers = False
    client.feed(framed(b"1", b"2"))
    for position in (0, 1):
        world.handler.pending[position].set_result([bytes(100 * KIB)])
        await turns()
    assert world.statistics().unread_answer_bytes == 200 * KIB


# -- limits of all connections


@in_loop
async def test_when_memory_is_short_who_sends_waits_and_who_is_silent_does_not() -> None:
    world = large_world()
    clients = [world.connect() for _ in range(6)]
    for client in clients[:5]:
        client.feed(framed(bytes(RECEIVE_BUFFER_BYTES - 4)))
    assert [client.is_reading for client in clients] == [True, True, True, False, False, True]
    assert world.statistics().waiting_for_memory == 2


@in_loop
async def test_what_all_hold_stays_below_the_limit_and_one_read() -> None:
    world = large_world()
    clients = [world.connect() for _ in range(200)]
    for client in clients:
        client.feed(framed(*[bytes(8 * KIB)] * 100))
    used = world.statistics().request_bytes_in_flight
    assert 4 * RECEIVE_BUFFER_BYTES <= used <= 5 * RECEIVE_BUFFER_BYTES + 200 * 2 * SHORT_READ_BYTES


@in_loop
async def test_room_goes_round_among_those_who_send() -> None:
    """Ten clients have more to send than there is room for; after the first rush all are served equally often."""
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


@in_loop
async def test_who_waits_may_finish_its_frame_and_reads_nothing_that_follows() -> None:
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


@in_loop
async def test_frames_begun_by_all_cannot_stop_each_other() -> None:
    """Memory is full of frames that are not whole: one after another is let finish, and no two at a time."""
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


def test_ab03_a_thousand_peers_that_claim_the_largest_frame_hold_little() -> None:
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
                admit(world.connections, transport)
                transport.feed(framed(b"x" * 1_000))
                transport.writes.clear()
            world.handler.begun.clear()
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    assert asyncio.run(run()) < 1_000 * 8 * KIB


@in_loop
async def test_when_all_leave_much_unread_who_receives_much_waits_and_others_go_on() -> None:
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


@in_loop
async def test_what_slow_readers_have_taken_is_seen_within_a_second() -> None:
    """Before they have taken nearly all, nothing is logged."""
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
    assert "closed: unread-answers: 512000 bytes" in caplog.text


@in_loop
async def test_an_answer_that_waits_does_not_hold_the_block_it_was_read_from() -> None:
    block = bytes(MIB)
    world = NetworkWorld(Handler(lambda *_: [b"head", memoryview(block)[5:15]]))
    client, written = world.connect(), []
    client.writelines = written.extend
    client.feed(framed(b"1"))
    assert [type(buffer) for buffer in written] == [bytes, bytes]
    assert b"".join(written) == b"head" + bytes(10)


@in_loop
async def test_ab05_a_thousand_tricklers_keep_nobody_waiting_and_are_closed() -> None:
    """Each sends a byte a second of a request that it never completes."""
    world = NetworkWorld(connections_max_idle_ms=30_000)
    tricklers = [world.connect(f"10.1.{number // 250}.{number % 250}") for number in range(1_000)]
    proper = world.connect()
    request = framed(bytes(1_000))
    for second in range(40):
        for trickler in tricklers:
            if not trickler.is_closing:
                trickler.feed(request[second : second + 1])
        proper.feed(framed(b"a proper request"))
        await turns()
        assert proper.writes == [framed(b"a proper request")] * (second + 1), f"late in second {second}"
        world.pass_ms(1_000)
    assert all(trickler.is_closing for trickler in tricklers)
    assert closed(world) == {CloseReason.SLOW_REQUEST: 1_000}
    assert not proper.is_closing
