"""However bytes are cut, the frames are the same; however requests are completed, answers leave in their order."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.request import ConnectionContext
from siltstone.server.network.frame_reader import FrameReader, receive_buffer
from support.kafka.network_world import Handler, NetworkWorld, framed, turns
from support.values.examples import examples

BUFFER = receive_buffer()

body_sizes = st.lists(st.one_of(st.integers(0, 40), st.sampled_from([70_000, 262_144, 400_000])), max_size=12)


@settings(max_examples=examples(120))
@given(
    sizes=body_sizes,
    reads=st.lists(
        st.one_of(st.integers(1, 9), st.sampled_from([65_536, 300_000, 1 << 30])), min_size=1, max_size=30
    ),
    frames_max=st.integers(1, 5),
    short=st.lists(st.booleans(), min_size=1, max_size=20),
)
def test_frames_do_not_depend_on_how_the_bytes_arrive(
    sizes: list[int], reads: list[int], frames_max: int, short: list[bool]
) -> None:
    bodies = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    data = memoryview(framed(*bodies))
    reader = FrameReader(BUFFER, 1 << 20)
    found: list[bytes] = []
    turn = 0
    while data:
        is_short = short[turn % len(short)] and turn < 200
        room = reader.buffer(only_its_frame=is_short, may_grow=not is_short)
        limit = reads[turn % len(reads)] if turn < 200 else 1 << 30
        count = min(len(room), len(data), limit)
        room[:count] = data[:count]
        data = data[count:]
        reader.received(count)
        found += map(bytes, reader.take(frames_max))
        while reader.has_rest:
            found += map(bytes, reader.take(frames_max))
        turn += 1

    assert found == bodies
    assert reader.held_bytes == 0
    assert not reader.is_mid_frame


class Mixed(Handler):
    """Of kind ``kinds[n]`` is request n: an answer, none, a Future or a coroutine."""

    def __init__(self, kinds: list[str]) -> None:
        super().__init__(self._by_kind)
        self.kinds = kinds
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        self.running = 0

    def _by_kind(self, _: ConnectionContext, frame: memoryview) -> Any:
        assert self.running == 0, "begun while a coroutine was running"
        number = int(bytes(frame))
        kind = self.kinds[number]
        if kind == "answer":
            return [framed(bytes(frame))]
        if kind == "silent":
            return None
        future = self.waiting[number] = asyncio.get_running_loop().create_future()
        return future if kind == "future" else self._run(future)

    async def _run(self, future: "asyncio.Future[Any]") -> Any:
        self.running += 1
        result = await future
        self.running -= 1
        return result


@settings(max_examples=examples(150))
@given(
    kinds=st.lists(st.sampled_from(["answer", "silent", "future", "future", "coroutine"]), max_size=40),
    choices=st.lists(st.integers(0, 1_000), min_size=1, max_size=40),
    segments=st.lists(st.integers(1, 60), min_size=1, max_size=20),
    requests_max=st.integers(1, 10),
)
def test_answers_leave_in_the_order_of_the_requests(
    kinds: list[str], choices: list[int], segments: list[int], requests_max: int
) -> None:
    async def run() -> None:
        handler = Mixed(kinds)
        world = NetworkWorld(handler, connection_requests_max=requests_max)
        client = world.connect()
        client.waiting = framed(*[b"%d" % number for number in range(len(kinds))])
        turn = 0
        while client.waiting or world.statistics().requests_in_flight:
            client.largest_read = segments[turn % len(segments)]
            client.read_once()
            assert len(handler.waiting) <= requests_max
            if handler.waiting:
                number = sorted(handler.waiting)[choices[turn % len(choices)] % len(handler.waiting)]
                handler.waiting.pop(number).set_result([framed(b"%d" % number)])
            turn += 1
            await turns(1 + choices[turn % len(choices)] % 3)
            assert turn < 5_000
        await turns(20)
        expected = [b"%d" % number for number, kind in enumerate(kinds) if kind != "silent"]
        assert b"".join(client.writes) == framed(*expected)
        assert handler.begun == [b"%d" % number for number in range(len(kinds))]
        assert world.statistics().request_bytes_in_flight == 0

    asyncio.run(run())
