"""The power fails between two calls to the disk: what was answered is there, and nothing is taken for damage."""

import asyncio
from contextlib import suppress
from random import Random

import pytest

from support.engine.engine_world import settled
from support.engine.losing_disk import LosingDisk, PowerLost
from support.engine.wal_disk import put_disk_in
from support.engine.wal_node import WalNode, recovered_offsets

SEEDS_OF_UNSYNCED_HEADERS = (524, 615, 822, 830, 834, 975)
"""Those that fail when the header of a segment is not synced before its first record."""


@pytest.mark.parametrize("seed", [*range(100), *SEEDS_OF_UNSYNCED_HEADERS])
def test_power_that_fails_at_any_call_to_the_disk(tmp_path, monkeypatch, seed):
    """Segments are rolled, trimmed and used again, so that stale records lie under the new ones."""
    rng = Random(seed)
    disk = LosingDisk(rng)
    put_disk_in(monkeypatch, disk)
    calls_left = rng.randint(1, 120)

    def count_down():
        nonlocal calls_left
        calls_left -= 1
        if calls_left <= 0:
            raise PowerLost

    async def main():
        node = await WalNode(tmp_path).start()
        disk.before_call = count_down
        ends: list[int] = []
        kept = 0
        while not node.heard.failures and calls_left > 0:
            for _ in range(rng.choice([1, 1, 3, 9])):
                ends.append(node.append(len(ends), rng.choice([0, 100, 1000])))
            await settled(20)
            durable = _durable(node, ends)
            if durable and rng.random() < 0.5:
                kept = max(kept, rng.randint(0, durable - 1))
                await node.wal.trim(ends[kept])
        for opened in [*node.wal._live, node.wal._directory]:
            with suppress(OSError):
                opened.close()
        return kept, _durable(node, ends)

    kept, durable = asyncio.run(main())
    disk.before_call = lambda: None
    disk.lose_unsynced(tmp_path)
    found = recovered_offsets(tmp_path)
    assert not found or found == list(range(found[0], found[-1] + 1)), "a hole"
    assert set(range(kept + 1, durable)) <= set(found), "durable and not trimmed, and not there"


def _durable(node: WalNode, ends: list[int]) -> int:
    return sum(end <= node.heard.durable[-1] for end in ends) if node.heard.durable else 0
