"""The pieces that a TLS transport is given, beside a transport that the test fills and empties."""

from typing import Any

from siltstone.server.network.tls_transport import PIECE_BYTES, TlsTransport


class Below:
    """Takes pieces until the test says that it is full."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.size = 0
        self.read_limits: list[int] = []
        self.closed = self.aborted = False

    def writelines(self, pieces: list[Any]) -> None:
        assert not self.closed
        self.taken.append(b"".join(pieces))

    def get_write_buffer_size(self) -> int:
        return self.size

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def set_read_buffer_limits(self, high: int) -> None:
        self.read_limits.append(high)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class World:
    def __init__(self) -> None:
        self.below = Below()
        self.told: list[str] = []
        self.transport = TlsTransport(
            self.below,  # type: ignore[arg-type]
            lambda: self.told.append("full"),
            lambda: self.told.append("room"),
        )
        self.transport.set_write_buffer_limits(high=64 * 1024)


def test_small_answers_pass_together() -> None:
    world = World()
    world.transport.writelines([b"a", memoryview(b"bc"), b""])
    assert world.below.taken == [b"abc"]
    assert world.transport.get_write_buffer_size() == 0 and world.told == []


def test_a_large_answer_waits_in_pieces_and_counts() -> None:
    world = World()
    answer = bytes(range(256)) * (PIECE_BYTES // 64)
    world.transport.below_is_full()
    world.transport.writelines([answer])
    assert world.below.taken == [] and world.transport.get_write_buffer_size() == len(answer)
    assert world.told == ["full"]
    world.transport.below_has_room()
    assert b"".join(world.below.taken) == answer
    assert max(map(len, world.below.taken)) == PIECE_BYTES
    assert world.told == ["full", "room"]


def test_it_stops_where_the_transport_is_full() -> None:
    world = World()
    below, transport = world.below, world.transport
    pass_on = below.writelines

    def full_after(pieces: list[Any]) -> None:
        pass_on(pieces)
        below.size = 70_000
        transport.below_is_full()

    below.writelines = full_after  # type: ignore[method-assign]
    transport.writelines([bytes(3 * PIECE_BYTES)])
    assert len(below.taken) == 1
    assert transport.get_write_buffer_size() == 2 * PIECE_BYTES + 70_000
    for _ in range(2):
        transport.below_has_room()
    assert len(below.taken) == 3 and world.told == ["full"]
    below.size = 0
    transport.below_has_room()
    assert world.told == ["full", "room"]


def test_closing_sends_what_waits_first() -> None:
    world = World()
    world.transport.below_is_full()
    world.transport.writelines([bytes(10)])
    world.transport.close()
    world.transport.close()
    assert not world.below.closed and world.below.read_limits == [0], "nothing more is read"
    world.transport.below_has_room()
    assert world.below.taken == [bytes(10)] and world.below.closed
    assert world.below.read_limits[-1] > 0, "the peer's end is read"
    assert world.transport.get_write_buffer_size() == 0


def test_an_abort_drops_what_waits() -> None:
    for end in (TlsTransport.abort, TlsTransport.lost):
        world = World()
        world.transport.below_is_full()
        world.transport.writelines([bytes(10)])
        end(world.transport)
        assert world.transport.get_write_buffer_size() == 0 and world.below.taken == []
        world.transport.below_has_room()
        assert world.below.taken == [] and not world.below.closed


def test_reading_is_paused_below() -> None:
    """A TLS transport that is paused itself drops what it holds when the peer ends."""
    world = World()
    world.transport.pause_reading()
    world.transport.resume_reading()
    assert world.below.read_limits == [0, 256 * 1024]
