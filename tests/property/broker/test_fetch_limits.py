"""What a fetch gives within its limits (item 29), against a plain model; the same whether batches lie in memory or in
objects."""

import asyncio
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.fetching.gathering import Gathering
from siltstone.broker.fetching.wanted import WantedPartition
from siltstone.model.record_batch import RecordBatch

LIMITS = st.one_of(st.integers(-5, 60), st.just(2**31 - 1))


class FakePartition:
    """Batches of one record each; some of the reads find them in memory."""

    is_closed = False
    leader_epoch = 0
    log_start_offset = 0

    def __init__(self, sizes: list[int], is_cached: bool) -> None:
        self.batches = [RecordBatch(1, 0, o, o + 1, 1, 0, 0, bytes(size)) for o, size in enumerate(sizes)]
        self.high_watermark = len(sizes)
        self._is_cached = is_cached

    def read_cached(self, offset: int, bytes_max: int) -> list[RecordBatch] | None:
        return self._read(offset, bytes_max) if self._is_cached else None

    async def read(self, offset: int, bytes_max: int) -> list[RecordBatch]:
        await asyncio.sleep(0)
        return self._read(offset, bytes_max)

    def _read(self, offset: int, bytes_max: int) -> list[RecordBatch]:
        """At least one, otherwise what fits."""
        found: list[RecordBatch] = []
        for batch in self.batches[offset:]:
            if found and sum(map(len, found)) + len(batch) > bytes_max:
                break
            found.append(batch)
        return found


class FakeTopic(msgspec.Struct):
    id: str = "a topic"
    partition_count: int = 100


class FakePartitions:
    def __init__(self, partitions: list[FakePartition]) -> None:
        self._partitions = partitions

    def opened(self, _: str, index: int) -> FakePartition:
        return self._partitions[index]


def plain(partitions: list[FakePartition], offsets: list[int], limit: int, bytes_max: int) -> list[list[int]]:
    """The sizes of the batches of each partition."""
    given_bytes, rows = 0, []
    for partition, offset in zip(partitions, offsets, strict=True):
        row: list[int] = []
        for batch in partition.batches[offset:]:
            is_first_of_all = not given_bytes and not row
            fits = sum(row) + len(batch) <= limit and given_bytes + sum(row) + len(batch) <= bytes_max
            if not fits and not is_first_of_all:
                break
            row.append(len(batch))
        given_bytes += sum(row)
        rows.append(row)
    return rows


partitions = st.lists(
    st.tuples(st.lists(st.integers(1, 20), max_size=5), st.booleans(), st.integers(0, 5)), max_size=20
)


@settings(max_examples=80)
@given(partitions, LIMITS, LIMITS)
def test_item_29_whole_batches_in_order_within_limits(rows, partition_bytes_max, bytes_max):
    fakes = [FakePartition(sizes, is_cached) for sizes, is_cached, _ in rows]
    offsets = [min(offset, len(sizes)) for sizes, _, offset in rows]
    wanted = [
        WantedPartition(FakeTopic(), "t", b"", index, offset, partition_bytes_max, -1, -1, -1)  # type: ignore[arg-type]
        for index, offset in enumerate(offsets)
    ]
    gathering: Any = Gathering(FakePartitions(fakes), bytes_max)  # type: ignore[arg-type]
    found = asyncio.run(gathering.gather(wanted))
    assert [row.wanted.index for row in found] == list(range(len(fakes)))
    sizes = [[len(batch) for batch in row.batches] for row in found]
    assert sizes == plain(fakes, offsets, partition_bytes_max, bytes_max)
    assert [row.size_bytes for row in found] == [sum(row) for row in sizes]
    given_bytes = sum(map(sum, sizes))
    first = next((row[0] for row in sizes if row), 0)
    assert given_bytes <= max(bytes_max, first)
