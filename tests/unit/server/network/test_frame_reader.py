import os
import tracemalloc
from random import Random
from struct import pack

import pytest

from siltstone.server.network.frame_reader import (
    AFTER_LARGE_BYTES,
    DECRYPTED_BYTES,
    DIRECT_BYTES_MIN,
    FIRST_BYTES,
    RECEIVE_BUFFER_BYTES,
    SHORT_READ_BYTES,
    TRUSTED_BYTES_MAX,
    FrameReader,
    FrameRefused,
    receive_buffer,
)
from support.kafka.network_world import framed

KIB, MIB = 1024, 1024 * 1024
FRAME_BYTES_MAX = 100 * MIB


def reader(buffer: memoryview | None = None) -> FrameReader:
    return FrameReader(receive_buffer() if buffer is None else buffer, FRAME_BYTES_MAX)


def receive(
    to: FrameReader, data: bytes, at_once: int = 1 << 30, frames_max: int = 10_000
) -> list[memoryview]:
    """As the event loop does: never more than fits, and at most ``at_once``."""
    frames = []
    view = memoryview(data)
    while view:
        room = to.buffer()
        count = min(len(room), len(view), at_once)
        room[:count] = view[:count]
        view = view[count:]
        to.received(count)
        frames += to.take(frames_max)
        while to.has_rest:
            frames += to.take(frames_max)
    return frames


BODIES = [b"", b"a", b"bc" * 500, os.urandom(5_000), os.urandom(300 * KIB), b"last"]


@pytest.mark.parametrize("at_once", [1 << 30, 70_000, 4_096, 7, 3])
def test_frames_are_the_same_however_the_bytes_arrive(at_once: int) -> None:
    frames = receive(reader(), framed(*BODIES), at_once)

    assert [bytes(frame) for frame in frames] == BODIES


def test_byte_by_byte() -> None:
    bodies = [b"", b"abc", bytes(range(256))]

    assert [bytes(frame) for frame in receive(reader(), framed(*bodies), 1)] == bodies


def test_many_frames_in_one_segment() -> None:
    bodies = [str(number).encode() for number in range(5_000)]

    assert [bytes(frame) for frame in receive(reader(), framed(*bodies))] == bodies


def test_frames_are_writable_and_owned() -> None:
    """Brokers patch offsets in them and keep slices for long; what comes next may not change them."""
    to = reader()
    first, large = receive(to, framed(b"first", b"x" * 100_000), 30_000)
    first[0] = large[0] = ord("F")
    receive(to, framed(b"second", b"y" * 100_000), 30_000)

    assert bytes(first) == b"First"
    assert bytes(large) == b"F" + b"x" * 99_999
    assert first.obj is not large.obj


def test_readers_share_one_receive_buffer() -> None:
    buffer = receive_buffer()
    readers = [reader(buffer) for _ in range(3)]
    bodies = [os.urandom(200), os.urandom(90 * KIB), b"", os.urandom(17)]
    streams = [framed(*(bytes([number]) + body for body in bodies)) for number in range(3)]

    found: list[list[bytes]] = [[], [], []]
    for start in range(0, len(streams[0]), 1_001):
        for number, to in enumerate(readers):
            found[number] += map(bytes, receive(to, streams[number][start : start + 1_001]))

    assert found == [[bytes([number]) + body for body in bodies] for number in range(3)]


def test_an_idle_reader_holds_nothing() -> None:
    to = reader()
    receive(to, framed(b"x" * 1_000, b"y" * 400_000))

    assert to.held_bytes == 0
    assert not to.is_mid_frame
    assert not to.has_rest


@pytest.mark.parametrize("begun", [1, 2, 3, 4, 5, 20])
def test_a_frame_that_was_begun_is_told(begun: int) -> None:
    to = reader()
    assert receive(to, framed(b"x" * 100)[:begun]) == []
    assert to.is_mid_frame
    assert [bytes(frame) for frame in receive(to, framed(b"x" * 100)[begun:])] == [b"x" * 100]
    assert not to.is_mid_frame


# -- what is received where


def test_a_large_frame_is_received_into_its_own_memory() -> None:
    to = reader()
    receive(to, framed(b"z" * 2 * MIB))
    receive(to, framed(bytes(MIB))[:100_000])
    room = to.buffer()
    room[:] = b"w" * len(room)
    to.received(len(room))
    [frame] = to.take(10)

    assert len(room) == MIB + 4 - 100_000
    assert bytes(frame[-len(room) :]) == b"w" * len(room)
    room[-1] = 7
    assert frame[-1] == 7


def test_the_small_rest_of_a_frame_is_received_with_what_follows() -> None:
    to = reader()
    receive(to, framed(bytes(DIRECT_BYTES_MIN))[:10])

    assert len(to.buffer()) == RECEIVE_BUFFER_BYTES


def test_little_is_received_after_a_large_frame_until_a_small_one_comes() -> None:
    to = reader()
    receive(to, framed(bytes(RECEIVE_BUFFER_BYTES + 1)))
    assert len(to.buffer()) == AFTER_LARGE_BYTES
    receive(to, framed(b"small"))
    assert len(to.buffer()) == RECEIVE_BUFFER_BYTES


def test_short_of_memory_it_reads_little_unless_the_memory_is_there() -> None:
    to = reader()
    assert len(to.buffer(only_its_frame=True, may_grow=False)) == SHORT_READ_BYTES
    receive(to, framed(bytes(10 * KIB))[:100])
    assert to.has_paid_room
    assert len(to.buffer(only_its_frame=True, may_grow=False)) == 10 * KIB + 4 - 100
    receive(to, framed(bytes(10 * KIB))[100:])
    receive(to, pack(">i", 10 * MIB))
    receive(to, bytes(FIRST_BYTES))
    assert len(to.buffer(only_its_frame=True)) == 3 * FIRST_BYTES
    receive(to, bytes(3 * FIRST_BYTES))
    assert not to.has_paid_room
    assert len(to.buffer(only_its_frame=True, may_grow=False)) == SHORT_READ_BYTES


def test_a_turn_is_not_spent_on_the_last_bytes_of_memory_taken_when_it_was_short() -> None:
    to = reader()
    room = to.buffer(only_its_frame=True, may_grow=False)
    room[:] = framed(bytes(MIB))[: len(room)]
    to.received(len(room))
    to.take(1)
    assert to.held_bytes <= 2 * SHORT_READ_BYTES

    assert len(to.buffer()) >= FIRST_BYTES - SHORT_READ_BYTES


# -- what a peer can make it hold


@pytest.mark.parametrize("sent", [5, 1_000, 100_000, MIB, 20 * MIB])
def test_a_claim_costs_what_was_sent_and_little_more(sent: int) -> None:
    to = reader()
    receive(to, pack(">i", FRAME_BYTES_MAX) + bytes(sent), 50_000)

    assert sent <= to.held_bytes <= max(FIRST_BYTES, 4 * sent)


def test_ab03_a_thousand_claims_of_the_largest_frame() -> None:
    buffer = receive_buffer()
    tracemalloc.start()
    try:
        readers = [reader(buffer) for _ in range(1_000)]
        for to in readers:
            receive(to, pack(">i", FRAME_BYTES_MAX) + b"x")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert 1_000 * FIRST_BYTES < peak < 1_000 * (FIRST_BYTES + 2_000)


def test_a_peer_that_has_sent_such_frames_is_trusted_up_to_a_limit() -> None:
    to = reader()
    receive(to, framed(bytes(300_000)))
    receive(to, framed(bytes(MIB))[:5])
    assert to.held_bytes == 300_000
    receive(to, framed(bytes(MIB))[5:] + framed(bytes(5 * MIB), bytes(5 * MIB))[: 5 * MIB + 9])
    assert to.held_bytes == TRUSTED_BYTES_MAX


def test_frames_that_may_not_be_taken_yet_are_kept() -> None:
    buffer = receive_buffer()
    to = reader(buffer)
    bodies = [str(number).encode() for number in range(10)]
    data = framed(*bodies) + framed(b"cut")[:6]
    room = to.buffer()
    room[: len(data)] = data
    to.received(len(data))

    first = to.take(3)
    held = to.held_bytes
    buffer[:] = bytes(len(buffer))
    rest = [*to.take(0), *to.take(5), *to.take(99)]

    assert [bytes(frame) for frame in (*first, *rest)] == bodies
    assert held == len(data) - 3 * 5
    assert not to.has_rest
    assert [bytes(frame) for frame in receive(to, framed(b"cut")[6:])] == [b"cut"]
    assert to.held_bytes == 0


def test_discarding_lets_go_of_everything() -> None:
    to = reader()
    receive(to, pack(">i", FRAME_BYTES_MAX) + b"x")
    to.discard()
    assert to.held_bytes == 0


# -- what is no frame


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (pack(">i", FRAME_BYTES_MAX + 1), f"announces a request of {FRAME_BYTES_MAX + 1} bytes"),
        (pack(">i", 2**31 - 1), "more than network.socket_request_max_bytes"),
        (pack(">i", -1), "announces a request of -1 bytes, so it is not a Kafka client"),
        (b"GET / HTTP/1.1\r\n", "speaks HTTP"),
        (b"POST / HTTP/1.1\r\n", "speaks HTTP"),
        (b"\x16\x03\x01\x02\x00\x01", "speaks TLS"),
    ],
)
def test_what_is_no_frame_is_refused_before_anything_is_allocated(data: bytes, says: str) -> None:
    to = reader()
    with pytest.raises(FrameRefused, match=says):
        receive(to, framed(b"good") + data)
    assert to.held_bytes == 0


def test_the_largest_frame_is_none_too_large() -> None:
    to = FrameReader(receive_buffer(), 10)
    assert [bytes(frame) for frame in receive(to, framed(b"x" * 10))] == [b"x" * 10]
    with pytest.raises(FrameRefused):
        receive(to, framed(b"x" * 11))


# -- with TLS: what was decrypted is in memory already


def decrypted_reader() -> FrameReader:
    return FrameReader(receive_buffer(DECRYPTED_BYTES), FRAME_BYTES_MAX, takes_everything=True)


@pytest.mark.parametrize("seed", range(8))
def test_tl11_frames_are_the_same_wherever_the_bytes_are_split(seed: int) -> None:
    rng = Random(seed)
    bodies = [rng.randbytes(rng.choice((0, 3, 700, 70_000, 600 * KIB, 2 * MIB))) for _ in range(12)]
    data, reader, frames = memoryview(framed(*bodies)), decrypted_reader(), []
    while data:
        room = reader.buffer(only_its_frame=rng.random() < 0.3, may_grow=rng.random() < 0.7)
        assert len(room) > DECRYPTED_BYTES - 4, "there is always room for everything"
        count = min(rng.choice((1, 5, 16 * KIB, 272 * KIB, 512 * KIB)), len(data), len(room))
        room[:count] = data[:count]
        data = data[count:]
        reader.received(count)
        frames += reader.take(rng.choice((0, 1, 100)))  # several reads may come before all is taken
    frames += reader.take(1_000)
    assert [bytes(frame) for frame in frames] == bodies


def test_tl14_the_last_read_holds_all_that_an_event_loop_has() -> None:
    bodies = [bytes(100)] * 5_000
    reader = decrypted_reader()
    data = framed(*bodies)
    assert len(reader.buffer()) >= len(data)
    reader.buffer()[: len(data)] = data
    reader.received(len(data))
    assert len(reader.take(1_000)) == 1_000 and reader.has_rest
    assert len(reader.take(10_000)) == 4_000 and not reader.has_rest


def test_a_claim_costs_what_was_sent_and_little_more_with_tls() -> None:
    reader = decrypted_reader()
    begun = (100 * MIB).to_bytes(4, "big") + bytes(500_000)
    reader.buffer()[: len(begun)] = begun
    reader.received(len(begun))
    assert reader.take(1) == [] and reader.held_bytes <= 4 * len(begun)
