"""The markers that are on their way to one node are limited by their bytes and their number."""

import asyncio

from siltstone.broker.peers import PeerUnreachable
from siltstone.broker.transactions.markers_under_way import MarkersUnderWay, bytes_of_markers
from siltstone.broker.transactions.other_nodes import ask_for_markers
from siltstone.broker.transactions.ports import MarkersAnswered
from siltstone.broker.transactions.rules.decision import MarkersToWrite
from siltstone.kafka_protocol.records.control import Outcome
from support.engine.engine_world import settled
from support.scenarios import in_loop


async def goes(
    under_way: MarkersUnderWay, byte_count: int, gone: list[int], ends: "asyncio.Future[None]"
) -> None:
    async with under_way.place(byte_count):
        gone.append(byte_count)
        await ends


def a_future() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


@in_loop
async def test_what_is_beyond_the_bytes_waits_in_the_order_of_the_calls() -> None:
    under_way, gone = MarkersUnderWay(bytes_max=10), []
    ends = {size: a_future() for size in (6, 5, 4, 30, 1)}
    tasks = [asyncio.ensure_future(goes(under_way, size, gone, each)) for size, each in ends.items()]
    await settled()
    assert gone == [6], "the small one behind does not pass the one that waits"
    ends[6].set_result(None)
    await settled()
    assert gone == [6, 5, 4]
    ends[5].set_result(None)
    ends[4].set_result(None)
    await settled()
    assert gone == [6, 5, 4, 30], "what is larger than the limit goes alone"
    ends[30].set_result(None)
    ends[1].set_result(None)
    await asyncio.gather(*tasks)
    assert under_way._bytes == under_way._requests == 0


@in_loop
async def test_so_many_are_on_their_way_and_who_gives_up_leaves_no_gap() -> None:
    under_way, gone, ends = MarkersUnderWay(requests_max=1), [], a_future()
    tasks = [asyncio.ensure_future(goes(under_way, 1, gone, ends)) for _ in range(3)]
    await settled()
    tasks[1].cancel()
    await settled()
    assert gone == [1]
    ends.set_result(None)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert gone == [1, 1] and under_way._requests == 0


class SlowNode:
    """Answers nothing until it is let go, and then that it cannot be reached."""

    def __init__(self) -> None:
        self.asked_bytes: list[int] = []
        self.lets_go = a_future()

    async def ask(self, *_: object) -> object:
        self.asked_bytes.append(1)
        await self.lets_go
        raise PeerUnreachable(1, "it is slow")


@in_loop
async def test_a_slow_node_is_sent_32_mib_of_markers_and_no_more() -> None:
    node, under_way = SlowNode(), MarkersUnderWay()
    partitions = [("a topic with a name of some length", number) for number in range(25_000)]
    markers = MarkersToWrite(Outcome.COMMIT, 1, 0, 0, True, frozenset(partitions))
    size = bytes_of_markers(partitions)
    assert size > 1_000_000

    async def sent() -> MarkersAnswered:
        async with under_way.place(size):
            return await ask_for_markers(node, 1, partitions[:1], markers, 0)

    tasks = [asyncio.ensure_future(sent()) for _ in range(40)]
    await settled()
    assert len(node.asked_bytes) == 32 * 1024 * 1024 // size < 40
    node.lets_go.set_result(None)
    assert await asyncio.gather(*tasks) == [MarkersAnswered()] * 40
    assert len(node.asked_bytes) == 40
