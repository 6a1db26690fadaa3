import asyncio

import pytest

from siltstone.server.network.waiting_line import WaitingLine
from support.kafka.network_world import turns


class Guest:
    """Takes ``takes`` places when it is its turn, and joins again while it wants more."""

    def __init__(self, name: str, room: "Room", wants: int = 1) -> None:
        self.name, self.room, self.wants = name, room, wants

    def go_on(self) -> None:
        while self.wants and self.room.line.admits(self):
            self.wants -= 1
            self.room.free -= 1
            self.room.served.append(self.name)


class Room:
    def __init__(self, free: int) -> None:
        self.free = free
        self.served: list[str] = []
        self.line: WaitingLine[Guest] = WaitingLine(lambda: self.free)

    def more(self, places: int) -> None:
        self.free += places
        self.line.room_made()


def test_who_came_first_goes_first() -> None:
    async def run() -> list[str]:
        room = Room(0)
        for name in "abcde":
            Guest(name, room).go_on()
        for _ in range(5):
            room.more(1)
            await turns()
        return room.served

    assert asyncio.run(run()) == list("abcde")


def test_nobody_passes_those_who_wait() -> None:
    async def run() -> tuple[bool, list[str]]:
        room = Room(0)
        Guest("early", room).go_on()
        room.more(1)
        late = room.line.admits(Guest("late", room))
        await turns()
        return late, room.served

    assert asyncio.run(run()) == (False, ["early"])


def test_who_wants_more_than_there_is_waits_again_at_the_end() -> None:
    async def run() -> list[str]:
        room = Room(0)
        for name in "ab":
            Guest(name, room, wants=4).go_on()
        for _ in range(4):
            room.more(2)
            await turns()
        return room.served

    assert asyncio.run(run()) == list("aabbaabb")


def test_places_are_filled_over_several_turns_without_being_told_again() -> None:
    class Slow(Guest):
        """Takes its place only when it has read, in a later turn."""

        def go_on(self) -> None:
            asyncio.get_running_loop().call_soon(self._take)

        def _take(self) -> None:
            self.room.free -= 1
            self.room.served.append(self.name)

    async def run() -> tuple[list[str], int]:
        room = Room(0)
        for name in "abcdef":
            room.line.admits(Slow(name, room))
        room.more(2)
        await turns(20)
        return room.served, len(room.line)

    served, waiting = asyncio.run(run())
    assert served == list("ab")
    assert waiting == 4


def test_no_more_at_a_time_than_there_are_places() -> None:
    async def run() -> list[int]:
        room = Room(0)
        gone: list[int] = []

        class Counted(Guest):
            def go_on(self) -> None:
                gone.append(turn)

        for number in range(5):
            room.line.admits(Counted(str(number), room))
        turn = 0
        room.more(2)
        while turn < 8:
            turn += 1
            await asyncio.sleep(0)
        return gone

    assert asyncio.run(run()) == [1, 1, 3, 3, 5], "those of one turn have the next one to read"


def test_who_left_is_not_called() -> None:
    async def run() -> list[str]:
        room = Room(0)
        guests = [Guest(name, room) for name in "abc"]
        for guest in guests:
            guest.go_on()
        room.line.leave(guests[0])
        room.line.leave(guests[0])
        room.more(3)
        await turns()
        return room.served

    assert asyncio.run(run()) == ["b", "c"]


def test_joining_twice_keeps_the_place() -> None:
    async def run() -> list[str]:
        room = Room(0)
        first, second = Guest("first", room), Guest("second", room)
        for guest in (first, second, first):
            assert not room.line.admits(guest)
        assert list(room.line) == [first, second]
        room.more(1)
        await turns()
        return room.served

    assert asyncio.run(run()) == ["first"]


def test_told_twice_in_one_turn_it_lets_through_no_more() -> None:
    async def run() -> list[str]:
        room = Room(0)
        gone: list[str] = []

        class Called(Guest):
            def go_on(self) -> None:
                gone.append(self.name)

        for name in "abcd":
            room.line.admits(Called(name, room))
        room.more(1)
        room.line.room_made()
        await asyncio.sleep(0)
        room.line.room_made()
        await asyncio.sleep(0)
        return list(gone)

    assert asyncio.run(run()) == ["a"], "it has not had its turn to take the place"


def test_without_a_place_nobody_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every change would cost a turn of the event loop while somebody waits."""
    called: list[object] = []

    async def run() -> None:
        room = Room(0)
        loop = asyncio.get_running_loop()
        real = loop.call_soon

        def noted(callback, *given, **rest):
            called.append(callback)
            return real(callback, *given, **rest)

        monkeypatch.setattr(loop, "call_soon", noted)
        room.more(0)
        Guest("waits", room).go_on()
        room.more(0)
        assert called == []
        room.more(1)
        assert called == [room.line._let_through]

    asyncio.run(run())
