import asyncio

from siltstone.server.network.frame_reader import RECEIVE_BUFFER_BYTES
from siltstone.server.network.request_memory import RequestMemory
from support.kafka.network_world import turns
from support.scenarios import in_loop

LIMIT = 4 * RECEIVE_BUFFER_BYTES


class Reader:
    def __init__(self, name: str, served: list[str], mid_frame: bool = False) -> None:
        self.name, self._served = name, served
        self.is_mid_frame, self.has_paid_room = mid_frame, False

    def go_on(self) -> None:
        self._served.append(self.name)


def full_of_requests() -> RequestMemory:
    memory = RequestMemory(LIMIT)
    memory.add(LIMIT, 0)
    return memory


def full_of_frames() -> RequestMemory:
    memory = RequestMemory(LIMIT)
    memory.add(0, LIMIT)
    return memory


@in_loop
async def test_everybody_reads_while_there_is_room() -> None:
    memory = RequestMemory(LIMIT)
    reader = Reader("a", [])
    assert memory.admits(reader)
    memory.add(1_000, LIMIT - 1_001)
    assert memory.admits(reader)
    memory.add(0, 1)
    assert memory.is_short
    assert memory.bytes_used == LIMIT
    assert not memory.admits(reader)
    assert list(memory.line) == [reader]


@in_loop
async def test_room_given_back_goes_to_those_in_line_in_order() -> None:
    memory, served = full_of_requests(), []
    for name in "abc":
        assert not memory.admits(Reader(name, served))
    memory.add(-1, 0)
    assert not memory.admits(Reader("late", served))
    await asyncio.sleep(0)
    assert served == ["a"]
    await turns(20)
    assert served == ["a", "b", "c", "late"]


@in_loop
async def test_as_many_go_on_in_one_turn_as_can_fill_the_room() -> None:
    memory, served = full_of_requests(), []
    for name in "abcde":
        memory.admits(Reader(name, served))
    memory.add(-3 * RECEIVE_BUFFER_BYTES, 0)
    await asyncio.sleep(0)
    assert served == ["a", "b", "c"]


@in_loop
async def test_when_frames_hold_everything_one_at_a_time_is_finished() -> None:
    memory, served = full_of_frames(), []
    readers = [Reader(name, served, mid_frame=True) for name in "abc"]
    assert [memory.admits(reader) for reader in readers] == [True, False, False]
    assert memory.is_finisher(readers[0])
    assert memory.admits(readers[0])
    memory.frame_ended(readers[1])  # of no consequence: it is not its turn
    assert not memory.admits(readers[1])
    memory.frame_ended(readers[0])
    assert memory.is_finisher(readers[1])
    memory.leave(readers[1])
    assert memory.is_finisher(readers[2])
    await turns()
    assert served == ["a", "b", "c"]


@in_loop
async def test_nobody_is_finished_beyond_the_limit_while_requests_are_answered() -> None:
    memory, served = RequestMemory(LIMIT), []
    memory.add(10, LIMIT)
    reader = Reader("a", served, mid_frame=True)
    assert not memory.admits(reader)
    memory.add(-9, 0)
    await turns()
    assert served == []
    memory.add(-1, 0)
    await turns()
    assert served == ["a"]
    assert memory.is_finisher(reader)


@in_loop
async def test_a_finisher_needs_a_frame_and_no_memory_for_it() -> None:
    memory, served = full_of_frames(), []
    fresh, paid, begun = (
        Reader(name, served, mid_frame=name != "fresh") for name in ("fresh", "paid", "begun")
    )
    paid.has_paid_room = True
    assert [memory.admits(reader) for reader in (fresh, paid, begun)] == [False, False, True]
    assert list(memory.line) == [fresh, paid]


@in_loop
async def test_who_leaves_is_not_called() -> None:
    memory, served = full_of_requests(), []
    readers = [Reader(name, served) for name in "ab"]
    for reader in readers:
        memory.admits(reader)
    memory.leave(readers[0])
    memory.add(-1, 0)
    await turns()
    assert served == ["b"]
