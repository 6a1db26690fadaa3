"""Turns alone; with the broker: ``test_item_24_a_partition_that_is_being_opened_holds_back_no_other``."""

import asyncio
from collections import defaultdict

from siltstone.broker.apis.produce_order import Turn, has_to_queue
from siltstone.broker.request import ConnectionContext, Listener
from siltstone.runtime.randomness import seeded_randomness
from support.scenarios import in_loop

A, B, C = ("t", 0), ("t", 1), ("u", 0)


def connection() -> ConnectionContext:
    return ConnectionContext(1, "client.example", Listener("PLAINTEXT", "127.0.0.1", 9092))


@in_loop
async def test_a_request_queues_only_behind_those_that_name_one_of_its_partitions() -> None:
    client = connection()
    assert not has_to_queue(client, [A, B])
    first = Turn(client, [A, B])
    assert has_to_queue(client, [B, C]) and not has_to_queue(client, [C])
    async with first:
        assert has_to_queue(client, [A])
    assert not has_to_queue(client, [A, B]) and client.produces_waiting == {}


@in_loop
async def test_a_turn_that_fails_or_is_cancelled_lets_the_next_one_begin() -> None:
    client = connection()
    first, second = Turn(client, [A]), Turn(client, [A])

    async def fails() -> None:
        async with first:
            raise ValueError

    async def waits() -> None:
        async with second:
            pass

    waiting = asyncio.create_task(waits())
    await asyncio.sleep(0)
    assert not waiting.done()
    (failure,) = await asyncio.gather(fails(), return_exceptions=True)
    assert isinstance(failure, ValueError)
    await waiting
    assert client.produces_waiting == {}


class Drawn:
    """Requests to drawn partitions, which wait for drawn numbers of turns of the event loop before they append."""

    def __init__(self, seed: int) -> None:
        self.rng = seeded_randomness(seed)
        self.client = connection()
        self.arrived: dict[tuple[str, int], list[int]] = defaultdict(list)
        self.appended: dict[tuple[str, int], list[int]] = defaultdict(list)

    async def run(self) -> None:
        tasks = []
        for number in range(30):
            keys = self.rng.sample([A, B, C], self.rng.randint(1, 3))
            _note(self.arrived, keys, number)
            if self.rng.random() < 0.3 and not has_to_queue(self.client, keys):
                _note(self.appended, keys, number)
            else:
                turn, waits = Turn(self.client, keys), self.rng.randrange(4)
                tasks.append(asyncio.create_task(self._append(number, keys, turn, waits)))
            await _pass(self.rng.randrange(3))
        await asyncio.gather(*tasks)

    async def _append(self, number: int, keys: list[tuple[str, int]], turn: Turn, waits: int) -> None:
        async with turn:
            await _pass(waits)
            _note(self.appended, keys, number)


def _note(log: dict[tuple[str, int], list[int]], keys: list[tuple[str, int]], number: int) -> None:
    for key in keys:
        log[key].append(number)


async def _pass(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


def test_item_24_each_partition_has_the_requests_in_the_order_of_arrival() -> None:
    for seed in range(200):
        drawn = Drawn(seed)
        asyncio.run(drawn.run())
        assert drawn.appended == drawn.arrived and drawn.client.produces_waiting == {}
