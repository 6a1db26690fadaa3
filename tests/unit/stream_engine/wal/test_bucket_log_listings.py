"""The log in a bucket whose listings leave keys out that ``get`` and ``put_if_absent`` know (W11)."""

import asyncio
from math import inf

import pytest

from siltstone.object_formats.log_file import DamagedWal
from siltstone.object_formats.wal_object import wal_object_key, wal_object_name
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectNotFound
from siltstone.stream_engine.wal.port import LogObjectsContradict
from support.engine.wal_lives import NODE, BucketLives, WalLife
from support.scenarios import in_loop_of

BULKS = 6
FOR_EVER = inf
LISTINGS_MAX = 60


class ForgetfulStore(MemoryStore):
    """``listings_without[seq]``: how many more listings leave the object of life 1 out. ``never_returned``: keys that
    ``head`` and reads do not find."""

    def __init__(self, clock) -> None:
        super().__init__(clock)
        self.listings_without: dict[int, float] = {}
        self.never_returned: set[str] = set()
        self.listings = 0

    def list(self, prefix: str = "", after: str = ""):
        self.listings += 1
        hidden = {wal_object_key(NODE, 1, seq) for seq, left in self.listings_without.items() if left > 0}
        self.listings_without = {seq: left - 1 for seq, left in self.listings_without.items()}
        return iter([each for each in super().list(prefix, after) if each.key not in hidden])

    def head(self, key: str):
        self._refuse(key)
        return super().head(key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self._refuse(key)
        return super().get_range(key, start, end)

    def _refuse(self, key: str) -> None:
        if key in self.never_returned:
            raise ObjectNotFound(f"{key} is not there")


def run(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


async def killed_life() -> BucketLives:
    lives = BucketLives()
    lives.store = ForgetfulStore(lives.clock)
    life = lives.open()
    await life.begin(1)
    for offset in range(BULKS):
        await life.append_durably(offset)
    return lives


async def taken_over(lives: BucketLives, node_epoch: int = 2) -> list[int]:
    life: WalLife = lives.open()
    await life.passing(life.wal.fence(node_epoch))
    return [each.base_offset for _, each in await life.passing(life._recovered())]


@pytest.mark.parametrize("listings", [1, 3, FOR_EVER])
@pytest.mark.parametrize("seqs", [(3,), (BULKS,), (BULKS - 1, BULKS), (2, 3, 4), (0,), (1, BULKS)])
@in_loop_of(run)
async def test_w11_what_a_listing_leaves_out_is_asked_for_by_key(seqs, listings) -> None:
    lives = await killed_life()
    lives.store.listings_without = dict.fromkeys(seqs, listings)
    assert await taken_over(lives) == list(range(BULKS))
    assert lives.store.listings < LISTINGS_MAX


@pytest.mark.parametrize("seqs", [(3,), (BULKS,), (BULKS + 1,), (3, BULKS + 1)])
@in_loop_of(run)
async def test_w11_a_life_that_is_sealed_is_read_whole_though_a_listing_leaves_a_part_or_its_seal_out(
    seqs,
) -> None:
    lives = await killed_life()
    assert await taken_over(lives) == list(range(BULKS))
    lives.store.listings_without = dict.fromkeys(seqs, FOR_EVER)
    assert await taken_over(lives, 3) == list(range(BULKS))
    names = [wal_object_name(key) for key in lives.store._objects]
    assert [name.seq for name in names if name.node_epoch == 1] == list(range(BULKS + 2)), "one seal"


@in_loop_of(run)
async def test_w11_an_object_that_is_gone_by_key_too_is_damage() -> None:
    lives = await killed_life()
    del lives.store._objects[wal_object_key(NODE, 1, 3)]
    with pytest.raises(DamagedWal, match="is missing, and the write-ahead log had acknowledged it"):
        await taken_over(lives)


@pytest.mark.parametrize("is_listed", [True, False])
@in_loop_of(run)
async def test_rule_12_a_bucket_that_contradicts_itself_for_ever_is_an_error_and_no_endless_loop(
    is_listed,
) -> None:
    lives = await killed_life()
    lives.store.never_returned = {wal_object_key(NODE, 1, BULKS)}
    if not is_listed:
        lives.store.listings_without = {BULKS: FOR_EVER}
    before_ms = lives.clock.monotonic_ms()
    with pytest.raises(LogObjectsContradict, match="has contradicted itself for 30 s"):
        await taken_over(lives)
    assert lives.clock.monotonic_ms() - before_ms < 60_000
    assert lives.store.listings < LISTINGS_MAX


@in_loop_of(run)
async def test_w11_a_bucket_that_returns_the_object_after_a_while_is_waited_for() -> None:
    lives = await killed_life()
    lives.store.never_returned = {wal_object_key(NODE, 1, BULKS)}
    lives.clock.call_after_ms(5_000, lives.store.never_returned.clear)
    assert await taken_over(lives) == list(range(BULKS))
