"""Look-ups by time on a partition, against a plain list of records: whatever times producers gave, whatever was
trimmed, compacted, thinned and written down in between."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from siltstone.broker.partitions.time_index import TimeIndex
from siltstone.broker.partitions.time_lookup import offset_for_time, offset_of_newest_time
from siltstone.kafka_protocol.batch_header import patch_offset_and_epoch, read_batch_header
from siltstone.kafka_protocol.records.reading import open_batch, read_records
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.partition_snapshot import TimeIndexState
from siltstone.runtime.blocking import InlineCalls
from support.kafka.kafka_batches import encode_batch
from support.kafka.kafka_requests import timed_batch
from support.values.examples import examples

CALLS = InlineCalls()
TIMES = st.integers(0, 20)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(TIMES, min_size=1, max_size=3)),
        st.tuples(st.just("trim"), st.integers(0, 40)),
        st.tuples(st.just("newest"), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0)),
        st.tuples(st.just("compact"), st.integers(0, 2**16)),
    ),
    max_size=25,
)


class FakePartition:
    """What the look-ups need of one, over a list of batches. Also the plain model: ``records``."""

    def __init__(self, interval_bytes: int, entries_max: int) -> None:
        self._entries_max = entries_max
        self.times = TimeIndex(TimeIndexState(interval_bytes=interval_bytes), entries_max)
        self.batches: list[RecordBatch] = []
        self.records: list[tuple[int, int]] = []
        self.log_start_offset = 0
        self.next_offset = 0

    @property
    def high_watermark(self) -> int:
        return self.next_offset

    def append(self, times: Sequence[int]) -> None:
        payload = timed_batch(*times)
        base, end = self.next_offset, self.next_offset + len(times)
        patch_offset_and_epoch(payload, base, 0)
        self.batches.append(RecordBatch(1, 0, base, end, len(times), min(times), max(times), payload))
        self.records += zip(range(base, end), times, strict=True)
        self.next_offset = end
        header = read_batch_header(payload)
        self.times.appended(header.max_timestamp_ms, base, end, len(payload))

    def trim(self, offset: int) -> None:
        self.log_start_offset = max(self.log_start_offset, min(offset, self.next_offset))
        self.times.trim(self.log_start_offset)

    def reopen(self) -> None:
        self.times = TimeIndex(self.times.state, self._entries_max)

    def compact(self, seed: int) -> None:
        """Key compaction removes records, and batches when nothing is left of them, but for the last. The index hears
        nothing of it."""
        rng = Random(seed)
        self.records = [record for record in self.records if rng.random() < 0.6]
        batches = [self._left_of(batch) for batch in self.batches]
        self.batches = [batch for batch in batches[:-1] if batch.record_count] + batches[-1:]

    def _left_of(self, batch: RecordBatch) -> RecordBatch:
        header, data = open_batch(bytes(batch.payload))
        kept = {offset for offset, _ in self.records}
        records = [record for record in read_records(header, data) if record.offset in kept]
        times = [record.timestamp_ms for record in records]
        newest = max(times, default=header.max_timestamp_ms)
        payload = encode_batch(replace(header, max_timestamp_ms=newest), records)
        smallest = min(times, default=batch.smallest_timestamp_ms)
        return replace(
            batch,
            record_count=len(records),
            smallest_timestamp_ms=smallest,
            largest_timestamp_ms=newest,
            payload=payload,
        )

    async def wait_for(self, offset: int) -> None:
        assert offset < self.high_watermark

    async def read(self, offset: int, bytes_max: int) -> list[RecordBatch]:
        assert self.log_start_offset <= offset < self.high_watermark
        return [batch for batch in self.batches if batch.end_offset > offset][:2]

    # -- the model ---------------------------------------------------------------------------------------

    def left(self) -> list[tuple[int, int]]:
        return [record for record in self.records if record[0] >= self.log_start_offset]

    def first_at(self, target: int) -> tuple[int, int] | None:
        return next((record for record in self.left() if record[1] >= target), None)

    def newest(self) -> tuple[int, int] | None:
        return max(self.left(), key=lambda record: record[1], default=None)


def found(looked_up: Any) -> tuple[int, int] | None:
    return None if looked_up is None else (looked_up.offset, looked_up.timestamp_ms)


@settings(max_examples=examples(150))
@given(steps, st.sampled_from([1, 150, 400]), st.sampled_from([2, 5, 100]))
def test_item_35_exact_to_the_record(taken, interval_bytes, entries_max):
    async def main() -> None:
        partition = FakePartition(interval_bytes, entries_max)
        for step, argument in taken:
            if step == "append":
                partition.append(argument)
            elif step == "trim":
                partition.trim(argument)
            elif step == "reopen":
                partition.reopen()
            elif step == "compact":
                partition.compact(argument)
            else:
                assert found(await offset_of_newest_time(partition, CALLS)) == partition.newest()
            assert len(partition.times.state.entries) <= entries_max
        for target in range(22):
            assert found(await offset_for_time(partition, target, CALLS)) == partition.first_at(target)
        assert found(await offset_of_newest_time(partition, CALLS)) == partition.newest()

    asyncio.run(main())
